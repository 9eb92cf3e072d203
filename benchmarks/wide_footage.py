"""Footage of every kind from the sources of one split, as clips that ``copyset.py --wide`` takes.

    python benchmarks/wide_footage.py DATA FOOTAGE --split test

Filmed clips, screencasts and animation are taken as they are, at 256 px on the short side and at most 16 : 9. Slides,
screens, charts, maps, documents, games, art and photos are shown one after another in videos of 8 to 15 s, all pictures
of a video from one source, no picture in two videos: two slide shows of one conference, two walks through one program
look alike and share nothing. Of every ten videos of a kind one lies in a plain border, one has black and one a title
card before and after it.

FOOTAGE gets a folder for each kind and ``footage.json``: kind, source and dressing of each file, and which of its
seconds show what it is of. The same DATA, split and seed give the same files.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from shared.copyset_edits import FPS, SHORT_SIDE, Frames, encode, resized
from shared.edits import read_clip
from shared.footage_split import Item, Part, Split, items
from shared.picture_videos import most_pictures, show, title_card
from visil.edits.frames import framed
from visil.errors import FileError, VisilError

CRF = 20
SHORTEST_S, LONGEST_S = 3.0, 20.0
WIDEST = 16 / 9
FEWEST_PICTURES = 5
PLAIN_SHARE, PLAIN_LEVELS = 0.95, 12
"""A frame is plain where so much of it is one colour, to so many levels of 255."""

TAKEN: dict[Split, dict[Part, dict[str, int]]] = {
    "test": {
        "videos": {"shorts": 16, "livestream": 14, "sitcom": 12},
        "clips": {
            "wasabeef/awesome-android-ui": 14,
            "godotengine/godot-docs": 12,
            "peter2valid/exercises-gifs": 16,
            "umi-gripper/umi-gripper.github.io": 7,
            "hypernerf/hypernerf.github.io": 8,
            "mobile-aloha/mobile-aloha.github.io": 3,
            "sssssqew/youtube-shorts-clone": 3,
            "udacity/CarND-LaneLines-P1": 1,
        },
        "pictures": {
            "holtzy/R-graph-gallery": 10,
            "libretro-thumbnails/ScummVM": 10,
            "godotengine/godot-docs": 10,
            "openlayers/openlayers": 5,
            "CppCon/CppCon2021": 16,
            "zzzDavid/ICDAR-2019-SROIE": 8,
            "yuhonas/free-exercise-db": 6,
            "deb:wallpapers": 4,
            "maxvoltar/photo-stream": 4,
            "LoganSevin/1000-Paintings-Challenge": 8,
            "ELY3M/my-wallpapers-and-images": 5,
        },
    },
    "validation": {
        "videos": {"demo": 14, "drills": 8},
        "clips": {
            "flutter/assets-for-api-docs": 9,
            "lgvalle/Material-Animations": 5,
            "nerfies/nerfies.github.io": 6,
            "talmolab/sleap": 5,
            "charmbracelet/bubbletea": 2,
            "sutdcv/Animal-Kingdom": 1,
        },
        "pictures": {
            "boostcon/cppnow_presentations_2019": 14,
            "libretro-thumbnails/Sega_-_Dreamcast": 9,
            "flutter/assets-for-api-docs": 5,
            "microsoft/Web-Dev-For-Beginners": 4,
            "deb:marble-data": 6,
            "marcusklasson/GroceryStoreDataset": 6,
            "linuxdotexe/nordic-wallpapers": 6,
            "Unity-Technologies/ml-agents": 4,
        },
    },
}
"""How many videos are made of each source, where it has as many."""

SAME_THING = {
    "deb:marble-data": r"([^/]+)$",
    "microsoft/Web-Dev-For-Beginners": r"([^/.]+)[^/]*$",
    "marcusklasson/GroceryStoreDataset": r"([^/]+)/[^/]+$",
    "yuhonas/free-exercise-db": r"exercises/([^/]+)",
    "libretro-thumbnails/Sega_-_Dreamcast": r"([^(]+)",
    "libretro-thumbnails/ScummVM": r"([^(]+)",
    "linuxdotexe/nordic-wallpapers": r"dynamic-wallpapers/([^/]+)/|(.+)",
    "holtzy/R-graph-gallery": r"(\d+)[-_]",
    "godotengine/godot-docs": r"([^/]*?)\d*\.\w+$",
    "wasabeef/awesome-android-ui": r"([^/]*?)[\d_]*\.\w+$",
    "flutter/assets-for-api-docs": r"(Colors|blend_mode|floating_action|content_based|resize_image|owl)|([^/]+)$",
    "nerfies/nerfies.github.io": r"([^/]*?)(?:-[^/]*)?\.mp4",
    "hypernerf/hypernerf.github.io": r"([^/]+?\d*)_?(?:rgb|depth)?\.mp4",
    "umi-gripper/umi-gripper.github.io": r"[^_/]+_([^_/.]+)[^/]*\.mp4",
}
"""What two files of a source have in common in their names where they show the same: a screenshot in several languages,
a wallpaper by day and by night, a chart in two sizes, one crate of apples. One of them is used."""

TOGETHER = {
    "openlayers/openlayers": (
        r"cases/(heatmap-layer-sh|icon-symbol|multiple-la|rotated|webgl-layer|webgl-mix|webgl-op)|satellite/1/0/0",
        r"cases/(layer-group|layer-image-ext|layer-vector-back|webgl-icons|webgl-shapes)|tiles/(osm|south)",
        r"cases/(layer-tile-none|webgl-tilewms|text-style-linestring-nice|linestring-style|rich-text)|tiles/512",
        r"cases/(cog-math|cog-f32|cog-rgb-auto|cog-rotation|cog-model)|raster/(umbra|dop)",
        r"-resources/|images/|cases/(deferred|webgl-fill-pattern|webgl-line-pattern|vector-id)|retina",
    )
}
"""Sources whose pictures vary a few: one video is made of those that a pattern finds, since others would share them."""


@dataclass(frozen=True)
class Made:
    """One file of FOOTAGE."""

    file: str
    kind: str
    source: str
    dressing: str
    content: tuple[float, float]
    """Seconds that show what the file is of; the others are black or a title."""
    plain: float
    """Share of those seconds that show next to nothing."""
    made_of: list[str]


@dataclass(frozen=True)
class Planned:
    """What one file is to be made of."""

    file: str
    items: tuple[Item, ...]
    dressing: str


DRESSINGS = ("none", "border", "none", "none", "black", "none", "none", "title", "none", "none")


def distinct(found: Sequence[Item]) -> list[Item]:
    """The first of those that show the same thing."""
    kept: dict[tuple[str, ...], Item] = {}
    for item in found:
        rule = SAME_THING.get(item.source)
        match = re.search(rule, item.name) if rule else None
        thing = tuple(g for g in match.groups() if g) if match else (item.name, item.file)
        kept.setdefault((item.source, *thing), item)
    return list(kept.values())


def plan(data: Path, split: Split, seed: int, taken: dict[Part, dict[str, int]]) -> list[Planned]:
    """Which files each video is made of; pictures of a video are neighbours by name, videos of a source far apart."""
    chosen: dict[str, list[tuple[Item, ...]]] = defaultdict(list)
    for part, sources in taken.items():
        found = distinct(items(data, part, split))
        for source, count in sources.items():
            own = [item for item in found if item.source == source]
            rng = random.Random(f"{seed} {part} {source}")
            if part != "pictures":
                groups = alone(data, own, count, rng)
            elif source in TOGETHER:
                groups = [together(own, pattern) for pattern in TOGETHER[source][:count]]
            else:
                groups = neighbours(own, count)
            if not groups:
                raise FileError(data / part, f"holds nothing of {source} in {split}")
            for group in groups:
                chosen[group[0].kind].append(group)
    return [
        Planned(
            f"{kind.replace(' ', '-')}/{_plain(group[0].source)}-{i:03}.mp4",
            group,
            DRESSINGS[i % len(DRESSINGS)],
        )
        for kind, groups in chosen.items()
        for i, group in enumerate(groups)
    ]


def neighbours(own: Sequence[Item], count: int) -> list[tuple[Item, ...]]:
    """So many runs of pictures that follow each other by name, with as many as possible left out between them."""
    count = max(1, min(count, len(own) // FEWEST_PICTURES))
    starts = [i * len(own) // count for i in range(count + 1)]
    return [tuple(own[start : min(stop, start + most_pictures())]) for start, stop in pairwise(starts)]


def together(own: Sequence[Item], pattern: str) -> tuple[Item, ...]:
    """The pictures whose names a pattern finds, as many as fit into a video, from all over the list."""
    found = [item for item in own if re.search(pattern, item.name)]
    return tuple(found[:: max(1, len(found) // most_pictures())][: most_pictures()])


def alone(data: Path, own: Sequence[Item], count: int, rng: random.Random) -> list[tuple[Item, ...]]:
    """So many clips that last long enough, each for itself."""
    long = (item for item in rng.sample(own, len(own)) if long_enough(data / item.file))
    return [(item,) for item in islice(long, count)]


def _plain(source: str) -> str:
    return re.sub(r"\W+", "-", source.rsplit("/", 1)[-1].removesuffix(".github.io"))


def long_enough(path: Path) -> bool:
    """Whether a clip lasts as long as is copied of it."""
    clip = read_clip(path)
    return len(clip.frames) / clip.fps >= SHORTEST_S


def clip_frames(path: Path) -> Frames:
    """A clip at 15 fps, 256 px on the short side, cut to 16 : 9 where it is longer, 20 s at the most."""
    clip = read_clip(path)
    count = round(min(len(clip.frames) / clip.fps, LONGEST_S) * FPS)
    frames = [clip.frames[min(int(i * clip.fps / FPS + 1e-6), len(clip.frames) - 1)] for i in range(count)]
    height, width = frames[0].shape[:2]
    w, h = min(width, round(height * WIDEST)), min(height, round(width * WIDEST))
    left, top = (width - w) // 2, (height - h) // 2
    frames = [frame[top : top + h, left : left + w] for frame in frames]
    scale = SHORT_SIDE / min(w, h)
    return resized(frames, *(round(side * scale / 2) * 2 for side in (w, h)))


def plain_share(frames: Frames) -> float:
    """Of one frame a second, how many are plain."""
    plain = []
    for frame in frames[::FPS]:
        pixels = frame[::4, ::4].reshape(-1, 3).astype(int)
        near = np.abs(pixels - np.median(pixels, axis=0)).max(axis=1) <= PLAIN_LEVELS
        plain.append(near.mean() >= PLAIN_SHARE)
    return round(float(np.mean(plain)), 3)


def dressed(frames: Frames, dressing: str, rng: random.Random) -> tuple[Frames, tuple[float, float]]:
    """The frames with what is around them, and the seconds that are theirs."""
    height, width = frames[0].shape[:2]
    if dressing == "border":
        share = rng.uniform(0.5, 0.75)
        ground = rng.choice([(0, 0, 0), (255, 255, 255), (rng.randint(0, 255), 90, 140)])
        return list(framed(round(width * share), round(height * share), ground)(frames)), (
            0,
            len(frames) / FPS,
        )
    if dressing == "none":
        return frames, (0, len(frames) / FPS)
    lengths = [round(rng.uniform(1.5, 3) * FPS) for _ in range(2)]
    if dressing == "black":
        cards = [np.zeros((height, width, 3), np.uint8)] * 2
    else:
        cards = [title_card((width, height), rng) for _ in range(2)]
    head, tail = ([card] * length for card, length in zip(cards, lengths, strict=True))
    return [*head, *frames, *tail], (round(len(head) / FPS, 3), round((len(head) + len(frames)) / FPS, 3))


def make(planned: Planned, data: Path, out: Path, seed: int) -> Made:
    """One file."""
    rng = random.Random(f"{seed} {planned.file}")
    first = planned.items[0]
    paths = [data / item.file for item in planned.items]
    frames = show(paths, rng) if first.part == "pictures" else clip_frames(paths[0])
    plain = plain_share(frames)
    frames, content = dressed(frames, planned.dressing, rng)
    encode(frames, out / planned.file, CRF)
    used = [item.file for item in planned.items]
    return Made(planned.file, first.kind, first.source, planned.dressing, content, plain, used)


def build(
    data: Path, out: Path, split: Split, seed: int, taken: dict[Part, dict[str, int]], processes: int = 2
) -> list[Made]:
    """All files of a split, and ``footage.json``."""
    if (out / "footage.json").exists():
        raise FileError(out, "holds footage already; name a new folder")
    planned = plan(data, split, seed, taken)
    for one in planned:
        (out / one.file).parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool:
        made = list(pool.map(partial(make, data=data, out=out, seed=seed), planned, chunksize=4))
    told = {"split": split, "seed": seed, "files": [asdict(one) for one in made]}
    (out / "footage.json").write_text(json.dumps(told, indent=1) + "\n")
    return made


def main() -> None:
    """Read the arguments, make the footage."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--split", choices=list(TAKEN), default="test")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    try:
        made = build(args.data, args.footage, args.split, args.seed, TAKEN[args.split])
    except VisilError as error:
        sys.exit(f"error: {error}")
    print(f"{len(made)} videos in {args.footage}")


if __name__ == "__main__":
    main()
