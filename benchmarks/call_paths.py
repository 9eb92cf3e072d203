"""Which modules a call walks through: add, search and duplicates over a folder, a training run; counted as they run.

    python benchmarks/call_paths.py            # the lists behind "Call paths" in docs/design.md

Every function of visil that is entered counts its module once, in any thread; what is only imported does not count.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import visil
from visil.demo import photograph, render_scene, write_video
from visil.training.config import DataConfig, FrameStage, OptimConfig, TrainConfig
from visil.training.run import train


@contextmanager
def walked(modules: dict[str, None]) -> Iterator[None]:
    """Note every module of visil that is entered, in the order of the first time."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("visil.") and frame.f_code.co_name != "<module>":
            modules.setdefault(name)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def told(what: str, call: Callable[[], object]) -> None:
    """Walk, and print."""
    modules: dict[str, None] = {}
    with walked(modules):
        call()
    rooms: dict[str, list[str]] = {}
    for name in modules:
        _, room, *rest = name.split(".")
        rooms.setdefault(room, []).append(".".join(rest) or room)
    print(f"{what}: {len(modules)} modules, {len(rooms.get('collection', []))} of them of collection")
    for room, names in rooms.items():
        print(f"  {room}: {', '.join(names)}")


def main() -> None:
    """Three small videos, two of which share footage."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, (picture, seconds) in enumerate((("chelsea", 6), ("coffee", 6), ("chelsea", 4))):
            write_video(
                folder / f"{i}.mp4", render_scene(photograph(picture), seconds, 4, (192, 108), seed=7), 4
            )
        index = visil.Index(folder / "all.visil")
        assert index.model is not None
        told("add", lambda: index.add(folder))
        told("search", lambda: index.search(folder / "2.mp4"))
        told("duplicates", index.find_duplicates)
        index.close()
        walk_training(folder)


def walk_training(folder: Path) -> None:
    """Both stages on five small videos; a run before, so that everything is imported."""
    videos = folder / "training"
    videos.mkdir()
    for i, picture in enumerate(("chelsea", "coffee", "rocket", "coins", "astronaut")):
        write_video(videos / f"{i}.mp4", render_scene(photograph(picture), 5, 4, (192, 108)), 4)
    data = DataConfig(videos=(str(videos),), window=4, triplets=2)
    frames, optim = FrameStage(steps=1, batch=3), OptimConfig(epochs=1, batch=2)
    for what in ("train, once before", "train"):
        config = TrainConfig(data, optim=optim, frames=frames, out=str(folder / what), device="cpu")
        told(what, partial(train, config, report=lambda _: None))


if __name__ == "__main__":
    main()
