"""The copy benchmark: real clips kept out of training, edited, and hidden in other footage, as encoded files.

    python benchmarks/copyset.py VIDEOS OUT --split test
    python benchmarks/copyset.py VIDEOS OUT --split validation --easy 60 --hard 75
    python benchmarks/copyset.py FOOTAGE OUT --wide --easy 133 --hard 120

VIDEOS holds one folder for each source; a split is made of whole sources, and none of them is trained on. A third of
each source's clips is foreign footage: never in the database, only around the copies. The others are the database,
and every query holds a stretch of exactly one of them.

easy half: the clip under one edit, alone or between 10 to 20 s of foreign footage.
hard half: 2.5 to 6 s under two or three heavier edits, buried in 20 to 40 s of foreign footage, or small over it
(picture in picture), or beside it (split screen).

Look-alikes are part of the material and not removed: the sitcom's shots share a few sets and actors, the livestreams
are faces in front of a phone, several of one person. They are in the database and in the foreign footage alike, so a
query may well show, outside its copy, the same room as a clip that is not the answer.

Flat frames at the ends of clips (end cards of one app on several shorts) are cut off first: they are common footage.

wide: FOOTAGE is what ``wide_footage.py`` made of the sources of one split, of every kind; a quarter of each kind is
foreign. Nineteen edits instead of ten (``shared/wide_edits.py``), and one hard query in twenty also runs backwards.
Only what a file is of is copied, never the black or the title before it; flat frames stay: slides are mostly ground.
Files that show next to nothing for half of their time are in the database, and never copied.

OUT gets ``database/``, ``queries/`` and ``truth.json``; the same VIDEOS, seed and sizes give the same files.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from shared import copyset_edits, wide_edits
from shared.copy_sets import LEFT_OUT
from shared.copyset_edits import FPS, SHORT_SIDE, EditKind, Frames, Parameters, encode, resized
from shared.edits import read_clip
from shared.footage_split import HELD_OUT
from visil.edits.frames import placed
from visil.errors import FileError, UsageError, VisilError
from visil.video import Image

FOREIGN_SHARE, WIDE_FOREIGN_SHARE = 1 / 3, 0.235
LONGEST_COPY = 15.0
SHORTEST_COPY = 1.5
DATABASE_CRF, QUERY_CRF = 23, 26
HARD_SETTINGS = ("buried", "picture-in-picture", "split-screen")
EASY_SETTINGS = ("alone", "inside")
REVERSED = 20
"""In a wide set, every such hard query runs backwards as well."""


@dataclass
class Query:
    """One entry of truth.json; spans are seconds, from the first frame to past the last."""

    file: str
    half: str
    setting: str
    original: str
    edits: list[Parameters]
    original_span: tuple[float, float] = (0.0, 0.0)
    query_span: tuple[float, float] = (0.0, 0.0)
    rate: float = 1.0
    """Seconds of the original that pass in one of the query."""
    reversed: bool = False
    placement: Parameters = field(default_factory=dict)
    foreign: list[Parameters] = field(default_factory=list)


@dataclass(frozen=True)
class Sources:
    """Where clips are read from, which may be copied and which are foreign; names are ``source/clip.mp4``."""

    videos: Path
    originals: tuple[str, ...]
    foreign: tuple[str, ...]
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For a wide set, what footage.json says of each."""

    @property
    def edits(self) -> Mapping[str, EditKind]:
        """What may be done to a copy."""
        return wide_edits.EDITS if self.notes else copyset_edits.EDITS

    def load(self, name: str) -> Frames:
        """A clip as it goes into the database."""
        return load(self.videos / name, cards=bool(self.notes))

    @property
    def queried(self) -> tuple[str, ...]:
        """Originals that show enough to be told from others."""
        return tuple(n for n in self.originals if not self.notes or self.notes[n]["plain"] <= 0.5)

    def note(self, name: str) -> dict[str, str]:
        """What a clip of a wide set is."""
        return {key: self.notes[name][key] for key in ("kind", "source", "dressing")}

    def content(self, name: str, count: int) -> tuple[int, int]:
        """From which to which of a clip's frames it shows what it is of."""
        start, end = self.notes[name]["content"] if self.notes else (0, count / FPS)
        return round(start * FPS), min(round(end * FPS), count)


def flat(picture: Image) -> bool:
    """Whether 85 % of a picture is one colour: an end card, a fade, a blank."""
    pixels = picture[::4, ::4].reshape(-1, 3).astype(int)
    return bool((np.abs(pixels - np.median(pixels, axis=0)).max(axis=1) < 24).mean() > 0.85)


def without_cards(frames: Frames) -> Frames:
    """Less the flat frames at either end, which several clips have in common; a clip that is all flat stays."""
    first = next((i for i, picture in enumerate(frames) if not flat(picture)), None)
    if first is None:
        return frames
    last = next(i for i in range(len(frames) - 1, -1, -1) if not flat(frames[i]))
    return frames[first : last + 1]


def load(path: Path, cards: bool = False) -> Frames:
    """A clip at 15 fps and 256 px on the short side; frames are repeated where it had fewer."""
    clip = read_clip(path)
    if not clip.frames:
        raise FileError(path, "holds no picture; take it out of the folder")
    if not cards:
        clip.frames = without_cards(clip.frames)
    count = max(1, round(len(clip.frames) / clip.fps * FPS))
    frames = [clip.frames[min(int(i * clip.fps / FPS + 1e-6), len(clip.frames) - 1)] for i in range(count)]
    height, width = frames[0].shape[:2]
    scale = SHORT_SIDE / min(height, width)
    w, h = (round(side * scale / 2) * 2 for side in (width, height))
    return frames if (w, h) == (width, height) else resized(frames, w, h)


def fitted(frames: Sequence[Image], width: int, height: int, cover: bool) -> Frames:
    """Frames in a box of one size: filling it and cut in the middle, or whole with black beside."""
    h, w = frames[0].shape[:2]
    scale = (max if cover else min)(width / w, height / h)
    inner_w, inner_h = max(2, round(w * scale)), max(2, round(h * scale))
    pictures = frames if (inner_w, inner_h) == (w, h) else resized(frames, inner_w, inner_h)
    if cover:
        left, top = (inner_w - width) // 2, (inner_h - height) // 2
        return [p[top : top + height, left : left + width] for p in pictures]
    left, top = (width - inner_w) // 2, (height - inner_h) // 2
    card = np.zeros((height, width, 3), np.uint8)
    return [placed(card, picture, left, top) for picture in pictures]


class ForeignFootage:
    """Foreign clips in pieces of 2 to 8 s, one after the other, filling the canvas."""

    def __init__(self, sources: Sources, rng: random.Random, width: int, height: int) -> None:
        self.sources, self.rng, self.width, self.height = sources, rng, width, height
        self.pieces: list[Parameters] = []

    def take(self, count: int, box: tuple[int, int] | None = None, cover: bool = True) -> Frames:
        """So many frames; in a box other than the canvas where asked."""
        width, height = box or (self.width, self.height)
        taken: Frames = []
        while len(taken) < count:
            name = self.rng.choice(self.sources.foreign)
            frames = self.sources.load(name)
            length = min(count - len(taken), len(frames), int(self.rng.uniform(2, 8) * FPS))
            first = self.rng.randint(0, len(frames) - length)
            taken += fitted(frames[first : first + length], width, height, cover)
            self.pieces.append(
                {"file": name, "span": [round(first / FPS, 3), round((first + length) / FPS, 3)]}
            )
        return taken


def plan(sources: Sources, seed: int, easy: int, hard: int) -> list[Query]:
    """Which clip, edits and setting each query has: edits and settings in equal parts, clips used evenly."""
    rng = random.Random(f"{seed} plan")
    queries = []
    names = list(sources.edits)

    def drawn(name: str, heavy: bool) -> Parameters:
        return {"name": name, **sources.edits[name].draw(rng, heavy)}

    def fresh(pool: list[str], chain: list[str]) -> list[str]:
        families = {sources.edits[name].family for name in chain}
        return [name for name in pool if sources.edits[name].family not in families]

    def originals(count: int) -> list[str]:
        queried = sources.queried
        rounds = -(-count // len(queried))
        return [n for _ in range(rounds) for n in rng.sample(queried, len(queried))][:count]

    for i, original in enumerate(originals(easy)):
        edit = names[i % len(names)]
        setting = EASY_SETTINGS[i // len(names) % len(EASY_SETTINGS)]
        queries.append(Query(f"easy-{i:03}.mp4", "easy", setting, original, [drawn(edit, False)]))
    pool: list[str] = []
    chained = [name for name in names if sources.edits[name].chained]
    for i, original in enumerate(originals(hard)):
        chain: list[str] = []
        for _ in range(2 + i // len(HARD_SETTINGS) % 2):
            if not fresh(pool, chain):
                pool += rng.sample(chained, len(chained))
            chain.append(fresh(pool, chain)[0])
            pool.remove(chain[-1])
        edits = [drawn(name, True) for name in chain]
        setting = HARD_SETTINGS[i % len(HARD_SETTINGS)]
        backwards = bool(sources.notes) and i % REVERSED == REVERSED - 1
        queries.append(Query(f"hard-{i:03}.mp4", "hard", setting, original, edits, reversed=backwards))
    return queries


def cut(clip: Frames, query: Query, sources: Sources, rng: random.Random) -> Frames:
    """The stretch that is copied, under the query's edits; notes its span and rate."""
    seconds = LONGEST_COPY if query.half == "easy" else rng.uniform(2.5, 6)
    factors = [f for e in query.edits if isinstance(f := e.get("factor"), float)]
    for factor in factors:
        seconds = max(seconds, SHORTEST_COPY * factor)
    start, stop = sources.content(query.original, len(clip))
    length = min(stop - start, round(seconds * FPS))
    first = rng.randint(start, stop - length)
    query.original_span = (round(first / FPS, 3), round((first + length) / FPS, 3))
    copy = clip[first : first + length][:: -1 if query.reversed else 1]
    for values in query.edits:
        copy = sources.edits[str(values["name"])].apply(copy, values)
    query.rate = round(length / len(copy), 4)
    return copy


def inside_picture(
    copy: Frames, behind: Frames, rng: random.Random, placement: Parameters, smallest: float
) -> Frames:
    """The copy small over foreign footage, with a thin white edge on some."""
    height, width = behind[0].shape[:2]
    share = round(rng.uniform(smallest, 0.6), 3)
    h, w = copy[0].shape[:2]
    scale = share * min(width / w, height / h)
    small = resized(copy, max(2, round(w * scale)), max(2, round(h * scale)))
    h, w = small[0].shape[:2]
    left, top = rng.randint(0, width - w), rng.randint(0, height - h)
    edge = rng.choice([0, 2])
    placement.update(share=share, left=left, top=top, width=w, height=h, edge=edge)
    done = []
    for picture, background in zip(small, behind, strict=True):
        card = background.copy()
        card[max(0, top - edge) : top + h + edge, max(0, left - edge) : left + w + edge] = 255
        done.append(placed(card, picture, left, top))
    return done


def beside(
    copy: Frames, foreign: ForeignFootage, rng: random.Random, placement: Parameters, may_cut: bool
) -> Frames:
    """One half the copy, the other half foreign footage; filled, or whole with black beside."""
    across, cover, first = rng.random() < 0.5, may_cut and rng.random() < 0.5, rng.random() < 0.5
    placement.update(
        split="left/right" if across else "top/bottom", fit="cover" if cover else "contain", copy_first=first
    )
    width, height = foreign.width, foreign.height
    box = (width // 2, height) if across else (width, height // 2)
    halves = [fitted(copy, *box, cover), foreign.take(len(copy), box, cover)]
    if not first:
        halves.reverse()
    return [np.concatenate(pair, axis=1 if across else 0) for pair in zip(*halves, strict=True)]


def build_query(query: Query, sources: Sources, out: Path, seed: int) -> Query:
    """Make and encode one query; the plan's entry comes back with its spans."""
    rng = random.Random(f"{seed} {query.file}")
    clip = sources.load(query.original)
    height, width = clip[0].shape[:2]
    copy = cut(clip, query, sources, rng)
    foreign = ForeignFootage(sources, rng, width, height)
    ranges = {"alone": (0, 0), "inside": (10, 20), "buried": (20, 40)}
    if query.setting in ranges:
        extra = round(rng.uniform(*ranges[query.setting]) * FPS)
    else:
        extra = max(2 * FPS, round(rng.uniform(10, 30) * FPS) - len(copy))
    before = round(extra * rng.uniform(0.15, 0.85))
    head = foreign.take(before)
    # Shrunk twice or cropped twice, a copy would no longer be told by eye.
    chain = {values["name"] for values in query.edits}
    if query.setting == "picture-in-picture":
        smallest = 0.5 if chain & {"border", "letterbox", "phone"} else 0.35
        middle = inside_picture(copy, foreign.take(len(copy)), rng, query.placement, smallest)
    elif query.setting == "split-screen":
        middle = beside(copy, foreign, rng, query.placement, may_cut=not chain & {"crop", "vertical"})
    elif query.setting == "alone":
        h, w = copy[0].shape[:2]
        scale = SHORT_SIDE / min(h, w)
        middle = resized(copy, round(w * scale / 2) * 2, round(h * scale / 2) * 2)
    else:
        middle = fitted(copy, width, height, cover=False)
    tail = foreign.take(extra - before)
    query.query_span = (round(before / FPS, 3), round((before + len(copy)) / FPS, 3))
    query.foreign = foreign.pieces
    query.original = query.original.replace("/", "-")
    encode([*head, *middle, *tail], out / "queries" / query.file, QUERY_CRF)
    return query


def build_original(name: str, sources: Sources, out: Path) -> str:
    """Encode one clip of the database."""
    file = name.replace("/", "-")
    encode(sources.load(name), out / "database" / file, DATABASE_CRF)
    return file


def divide(videos: Path, folders: Sequence[str], seed: int, share: float = FOREIGN_SHARE) -> Sources:
    """So many of each folder's clips are foreign, the rest is the database."""
    rng = random.Random(f"{seed} foreign")
    originals: list[str] = []
    foreign: list[str] = []
    for folder in folders:
        paths = [p for p in (videos / folder).glob("*.mp4") if p.stem not in LEFT_OUT.get(folder, ())]
        names = sorted(f"{folder}/{path.name}" for path in paths)
        if len(names) < 2:
            raise FileError(
                videos / folder, "needs two .mp4 clips or more; VIDEOS is the folder of all sources"
            )
        picked = set(rng.sample(names, max(1, round(len(names) * share))))
        foreign += sorted(picked)
        originals += [n for n in names if n not in picked]
    return Sources(videos, tuple(originals), tuple(foreign))


def divide_wide(footage: Path, seed: int) -> Sources:
    """What ``wide_footage.py`` made: a part of each kind is foreign."""
    told = footage / "footage.json"
    if not told.is_file():
        raise FileError(told, "not there; make it with benchmarks/wide_footage.py")
    notes = {note["file"]: note for note in json.loads(told.read_text())["files"]}
    folders = list(dict.fromkeys(name.split("/")[0] for name in notes))
    return replace(divide(footage, folders, seed, WIDE_FOREIGN_SHARE), notes=notes)


def build(sources: Sources, out: Path, seed: int, easy: int, hard: int, processes: int = 2) -> list[Query]:
    """Database, queries and truth.json in ``out``."""
    if easy < 0 or hard < 0 or easy + hard == 0:
        raise UsageError(f"--easy {easy} --hard {hard}: ask for one query or more")
    for part in ("database", "queries"):
        (out / part).mkdir(parents=True, exist_ok=True)
        if any((out / part).iterdir()):
            raise FileError(out / part, "is not empty; name a new folder")
    planned = plan(sources, seed, easy, hard)
    with ProcessPoolExecutor(processes) as pool:
        database = list(
            pool.map(partial(build_original, sources=sources, out=out), sources.originals, chunksize=4)
        )
        queries = list(pool.map(partial(build_query, sources=sources, out=out, seed=seed), planned))
    truth: dict[str, Any] = {
        "sources": list(dict.fromkeys(name.split("/")[0] for name in sources.originals)),
        "seed": seed,
        "fps": FPS,
        "database": database,
        "foreign": list(sources.foreign),
        "queries": [asdict(query) for query in queries],
    }
    if sources.notes:
        truth["notes"] = {name.replace("/", "-"): sources.note(name) for name in sources.originals}
        truth["foreign_notes"] = {name: sources.note(name) for name in sources.foreign}
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")
    return queries


def main() -> None:
    """Read the arguments, build the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", choices=list(HELD_OUT["videos"]), default="test")
    parser.add_argument("--wide", action="store_true", help="VIDEOS was made by wide_footage.py")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--easy", type=int, default=120)
    parser.add_argument("--hard", type=int, default=150)
    args = parser.parse_args()
    try:
        if args.wide:
            sources = divide_wide(args.videos, args.seed)
        else:
            sources = divide(args.videos, HELD_OUT["videos"][args.split], args.seed)
        queries = build(sources, args.out, args.seed, args.easy, args.hard)
    except VisilError as error:
        sys.exit(f"error: {error}")
    print(f"{len(queries)} queries in {args.out}")


if __name__ == "__main__":
    main()
