"""Which footage teaches, which chooses and which judges: a split by source, made once, for every benchmark.

DATA holds three parts. ``videos/`` has a folder for each source; ``clips/`` and ``pictures/`` have a folder for each
kind and a SOURCES.csv that names the source of each file. Nothing of one source is in two splits; what is named
neither for validation nor for test is for training.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from shared.copy_sets import LEFT_OUT
from visil.errors import FileError

Split = Literal["train", "validation", "test"]
Part = Literal["videos", "clips", "pictures"]
PARTS: tuple[Part, ...] = ("videos", "clips", "pictures")

HELD_OUT: dict[Part, dict[Split, tuple[str, ...]]] = {
    "videos": {"validation": ("demo", "drills"), "test": ("shorts", "livestream", "sitcom")},
    "clips": {
        "validation": (
            "flutter/assets-for-api-docs",
            "lgvalle/Material-Animations",
            "nerfies/nerfies.github.io",
            "talmolab/sleap",
            "charmbracelet/bubbletea",
            "faressoft/terminalizer",
            "sutdcv/Animal-Kingdom",
        ),
        "test": (
            "wasabeef/awesome-android-ui",
            "godotengine/godot-docs",
            "peter2valid/exercises-gifs",
            "umi-gripper/umi-gripper.github.io",
            "hypernerf/hypernerf.github.io",
            "mobile-aloha/mobile-aloha.github.io",
            "sssssqew/youtube-shorts-clone",
            "udacity/CarND-LaneLines-P1",
        ),
    },
    "pictures": {
        "validation": (
            "boostcon/cppnow_presentations_2019",
            "libretro-thumbnails/Sega_-_Dreamcast",
            "flutter/assets-for-api-docs",
            "microsoft/Web-Dev-For-Beginners",
            "deb:marble-data",
            "marcusklasson/GroceryStoreDataset",
            "linuxdotexe/nordic-wallpapers",
            "Unity-Technologies/ml-agents",
        ),
        "test": (
            "holtzy/R-graph-gallery",
            "libretro-thumbnails/ScummVM",
            "godotengine/godot-docs",
            "openlayers/openlayers",
            "CppCon/CppCon2021",
            "zzzDavid/ICDAR-2019-SROIE",
            "yuhonas/free-exercise-db",
            "deb:wallpapers",
            "maxvoltar/photo-stream",
            "LoganSevin/1000-Paintings-Challenge",
            "ELY3M/my-wallpapers-and-images",
        ),
    },
}
"""Validation has neither charts nor documents: of charts there is one other source, which trains."""

FOLDER_KINDS = {"shorts": "phone video", "livestream": "talking head", "sitcom": "sitcom", "drills": "sport"}
CLIP_KINDS = {"screen": "screencast", "cartoon": "animation", "photo": "filmed", "other": "filmed"}
"""What a kind of ``clips/`` is called where pictures have the name as well."""


@dataclass(frozen=True)
class Item:
    """One file of DATA: a clip or a picture."""

    part: Part
    file: str
    """From DATA."""
    kind: str
    source: str
    name: str
    """What it is called at its source."""


def split_of(part: Part, source: str) -> Split:
    """The split of a source."""
    for split, sources in HELD_OUT[part].items():
        if source in sources:
            return split
    return "train"


def items(data: Path, part: Part, split: Split) -> list[Item]:
    """The files of a part that are in a split, in the order of their names."""
    found = _of_folders(data) if part == "videos" else _of_table(data, part)
    return [item for item in found if split_of(part, item.source) == split]


def _of_folders(data: Path) -> list[Item]:
    return [
        Item(
            "videos",
            str(path.relative_to(data)),
            FOLDER_KINDS.get(path.parent.name, "filmed"),
            path.parent.name,
            path.stem,
        )
        for path in sorted((data / "videos").glob("*/*.mp4"))
        if path.stem not in LEFT_OUT.get(path.parent.name, ())
    ]


def _of_table(data: Path, part: Part) -> list[Item]:
    table = data / part / "SOURCES.csv"
    if not table.is_file():
        raise FileError(table, "not there; DATA is the folder that holds videos, clips and pictures")
    with table.open(newline="") as rows:
        read = [
            Item(
                part,
                f"{part}/{row['file']}",
                CLIP_KINDS.get(row["kind"], row["kind"]) if part == "clips" else row["kind"],
                row["source"],
                row["path"],
            )
            for row in csv.DictReader(rows)
        ]
    return sorted(read, key=lambda item: (item.source, item.name, item.file))


def training_pictures(data: Path, folder: Path, every: int = 1) -> Path | None:
    """A folder of links to every so-manieth training picture that is there, by kind; None where there are none."""
    kinds = folder / "pictures"
    for item in items(data, "pictures", "train")[::every]:
        link = kinds / item.kind / Path(item.file).name
        if (data / item.file).is_file() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to((data / item.file).absolute())
    return kinds if kinds.is_dir() else None
