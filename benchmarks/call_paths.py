"""Which modules a call walks through: add, search and duplicates over a folder, counted as they run.

    python benchmarks/call_paths.py            # the lists behind "Call paths" in docs/design.md

Every function of visil that is entered counts its module once, in any thread; what is only imported does not count.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import visil
from visil.demo import photograph, render_scene, write_video


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


if __name__ == "__main__":
    main()
