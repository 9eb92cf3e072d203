"""What pair cases are made of: clips, screencasts, slide decks and photographs of one split, as frames at 15 fps.

A split is made of whole sources: nothing of one is ever in the other.
"""

from __future__ import annotations

import csv
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image as pillow
from PIL import ImageDraw

from copyset import fitted, load
from shared.copy_sets import LEFT_OUT
from shared.copyset_edits import FPS, Frames
from visil.errors import FileError
from visil.video import Image

CANVAS = (456, 256)
"""Width and height of videos made of pictures."""

STILL_SHARE = 0.6
"""Share of a picture that hardly changes over a clip, from which its camera stands still."""
STILL_LEVELS = 9.0
MOVING_LEVELS = 0.8
"""Mean change from second to second below which nothing moves before that camera."""


@dataclass(frozen=True)
class Split:
    """Sources: folders of clips, and names in the lists of further clips and of pictures."""

    videos: tuple[str, ...]
    still: tuple[str, ...]
    """Folders among them whose camera often stands still."""
    filmed: tuple[str, ...]
    programs: tuple[str, ...]
    slides: str
    photographs: tuple[str, ...]


SPLITS = {
    "validation": Split(
        ("demo", "drills"),
        ("drills", "demo"),
        ("nerfies/nerfies.github.io",),
        (
            "flutter/assets-for-api-docs",
            "lgvalle/Material-Animations",
            "talmolab/sleap",
            "charmbracelet/bubbletea",
        ),
        "boostcon/cppnow_presentations_2019",
        ("marcusklasson/GroceryStoreDataset", "linuxdotexe/nordic-wallpapers"),
    ),
    "test": Split(
        ("shorts", "livestream"),
        ("livestream", "sitcom"),
        (
            "umi-gripper/umi-gripper.github.io",
            "mobile-aloha/mobile-aloha.github.io",
            "hypernerf/hypernerf.github.io",
        ),
        ("godotengine/godot-docs", "wasabeef/awesome-android-ui"),
        "CppCon/CppCon2021",
        ("maxvoltar/photo-stream", "deb:wallpapers"),
    ),
}

PLACES = {
    "validation": (
        *(
            ("drills", a, b)
            for a, b in (("22", "23"), ("27", "28"), ("30", "31"), ("39", "40"), ("43", "44"))
        ),
        *(("drills", a, b) for a, b in (("149", "150"), ("162", "163"), ("167", "168"))),
        ("demo", "sample-videos-asl_gestures__again", "sample-videos-asl_gestures__book"),
    ),
    "test": (
        *(
            ("sitcom", f"video_{a}", f"video_{b}")
            for a, b in ((101, 102), (205, 207), (208, 209), (305, 309))
        ),
        *(
            ("sitcom", f"video_{a}", f"video_{b}")
            for a, b in ((207, 208), (326, 328), (425, 426), (193, 195))
        ),
    ),
}
"""Two clips each that were numbered one after the other: mostly one room and one camera, at two moments."""


def rows(folder: Path) -> list[dict[str, str]]:
    """The list of a folder's files: kind, source, path."""
    listed = folder / "SOURCES.csv"
    if not listed.is_file():
        raise FileError(listed, "not there; DATA holds videos/, clips/ and pictures/")
    with listed.open(newline="") as file:
        return list(csv.DictReader(file))


def canvas(picture: Image) -> Image:
    """A picture on the canvas, whole, black beside it."""
    return fitted([picture], *CANVAS, cover=False)[0]


def held(pictures: Sequence[Image], seconds: Sequence[float]) -> Frames:
    """Each picture for some seconds."""
    return [p for p, s in zip(pictures, seconds, strict=True) for _ in range(max(1, round(s * FPS)))]


class PairFootage:
    """Pools of one split; frames are read when asked for."""

    def __init__(self, data: Path, name: str) -> None:
        self.data, self.name, self.split = data, name, SPLITS[name]

    def _listed(self, kind: str, source: str) -> list[Path]:
        folder = self.data / kind
        return [folder / row["file"] for row in rows(folder) if row["source"] == source]

    def _folder(self, name: str) -> list[Path]:
        files = (self.data / "videos" / name).glob("*.mp4")
        return sorted(path for path in files if path.stem not in LEFT_OUT.get(name, ()))

    @cached_property
    def films(self) -> list[Path]:
        """Clips that somebody filmed."""
        found = [path for name in self.split.videos for path in self._folder(name)]
        return found + [path for source in self.split.filmed for path in self._listed("clips", source)]

    @cached_property
    def programs(self) -> dict[str, list[Path]]:
        """Screencasts by the program or the project that they show."""
        return {source: self._listed("clips", source) for source in self.split.programs}

    @cached_property
    def screencasts(self) -> list[Path]:
        """All of them."""
        return [path for paths in self.programs.values() for path in paths]

    @cached_property
    def decks(self) -> list[list[Path]]:
        """Slides of one talk each, eight or more, in order."""
        folder = self.data / "pictures"
        talks: dict[str, list[tuple[str, Path]]] = defaultdict(list)
        for row in rows(folder):
            if row["source"] == self.split.slides:
                talks[row["path"].split("_")[0]].append((row["path"], folder / row["file"]))
        return [[path for _, path in sorted(talk)] for _, talk in sorted(talks.items()) if len(talk) >= 8]

    @cached_property
    def photographs(self) -> list[Path]:
        """Pictures to hold."""
        return [path for source in self.split.photographs for path in self._listed("pictures", source)]

    @property
    def places(self) -> list[tuple[Path, Path]]:
        """Two clips of one place each."""
        folder = self.data / "videos"
        return [(folder / f / f"{a}.mp4", folder / f / f"{b}.mp4") for f, a, b in PLACES[self.name]]

    def clip(self, rng: random.Random, pool: Sequence[Path], shortest: float = 6.0) -> Frames:
        """Some clip of a pool that lasts long enough; of a pool of short ones, the longest of twenty."""
        best: Frames = []
        for path in rng.sample(list(pool), min(20, len(pool))):
            frames = load(path)
            if len(frames) >= shortest * FPS:
                return frames
            best = max(best, frames, key=len)
        return best

    def pictures(self, paths: Sequence[Path]) -> Frames:
        """Pictures on the canvas."""
        return [canvas(np.asarray(pillow.open(path).convert("RGB"), np.uint8)) for path in paths]

    def deck(self, rng: random.Random, slides: int) -> Frames:
        """Slides of one talk, some seconds each."""
        talk = rng.choice(self.decks)
        first = rng.randint(0, max(0, len(talk) - slides))
        chosen = self.pictures(talk[first : first + slides])
        return held(chosen, [rng.uniform(1.6, 4.2) for _ in chosen])

    def still_camera(self, rng: random.Random, shortest: float) -> Frames:
        """A clip of a camera that stands still while something moves before it."""
        pool = [path for name in self.split.still for path in self._folder(name)]
        rng.shuffle(pool)
        for path in pool:
            frames = load(path)
            if len(frames) >= shortest * FPS and stands_still(frames):
                return frames
        raise FileError(self.data / "videos", "no clip of a still camera is long enough")

    def foreign(self, rng: random.Random, seconds: float, like: Frames) -> Frames:
        """Other footage on the same canvas."""
        height, width = like[0].shape[:2]
        taken: Frames = []
        while len(taken) < seconds * FPS:
            taken += fitted(self.clip(rng, self.films, 2.0), width, height, cover=True)
        return taken[: max(1, round(seconds * FPS))]


def stands_still(frames: Frames) -> bool:
    """Whether most of the picture hardly changes while some of it does."""
    seconds = np.stack([picture[::8, ::8].mean(axis=2) for picture in frames[::FPS]])
    still = float((seconds.std(axis=0) < STILL_LEVELS).mean())
    return still >= STILL_SHARE and float(np.abs(np.diff(seconds, axis=0)).mean()) >= MOVING_LEVELS


WORDS = (
    *(
        "map",
        "order",
        "signal",
        "river",
        "storage",
        "market",
        "engine",
        "garden",
        "letter",
        "motion",
        "window",
    ),
    *("harbour", "planet", "budget", "ticket", "morning", "bridge", "colour", "answer", "region", "carbon"),
)


def template_deck(template: int, rng: random.Random, slides: int) -> Frames:
    """Slides with other words on one ground: the template is the same for the same number."""
    look = random.Random(f"template {template}")
    ground = (
        tuple(look.randint(200, 255) for _ in range(3))
        if look.random() < 0.5
        else tuple(look.randint(0, 70) for _ in range(3))
    )
    band = tuple(look.randint(0, 255) for _ in range(3))
    ink = (20, 20, 30) if sum(ground) > 380 else (240, 240, 235)
    height = look.randint(28, 60)
    pictures = []
    for _ in range(slides):
        page = pillow.new("RGB", CANVAS, ground)
        draw = ImageDraw.Draw(page)
        draw.rectangle((0, 0, CANVAS[0], height), fill=band)
        draw.rectangle((0, CANVAS[1] - 14, CANVAS[0], CANVAS[1]), fill=band)
        draw.text(
            (16, height / 2 - 11), " ".join(rng.sample(WORDS, 3)).title(), fill=(255, 255, 255), font_size=22
        )
        for line in range(rng.randint(3, 6)):
            words = " ".join(rng.sample(WORDS, rng.randint(3, 6)))
            draw.text((24, height + 14 + 30 * line), f"• {words}", fill=ink, font_size=17)
        pictures.append(np.asarray(page, np.uint8).copy())
    return held(pictures, [rng.uniform(1.6, 4.2) for _ in pictures])
