"""Which modules a command walks through, in all its processes: counted while it runs on three small videos.

    python benchmarks/call_paths.py            # the lists behind "Call paths" in docs/design.md

A module counts once a function of it is entered, in any thread of any process; what runs on import does not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from visil.client import Client
from visil.demo import photograph, render_scene
from visil.video.writer import write_video

NOTE = """
import contextlib, os, sys, threading

seen = set()

def imported(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and str(frame.f_globals.get("__name__")).startswith("visil."):
            return True
        frame = frame.f_back
    return False

def note(frame, event, _):
    name = str(frame.f_globals.get("__name__"))
    if event == "call" and name.startswith("visil.") and name not in seen and not imported(frame):
        seen.add(name)
        with contextlib.suppress(OSError), open(os.environ["WALKED"], "a") as file:
            file.write(name + "\\n")  # where a process may write: a decoder that is shut in may not

threading.setprofile(note)
sys.setprofile(note)
"""
"""Every Python process runs this first: a ``sitecustomize``."""

TRAIN = """
data: {window: 4, triplets: 2}
frames: {steps: 1, batch: 3}
optim: {epochs: 1, batch: 2}
device: cpu
"""


class Walk:
    """Runs commands in ``folder`` and notes the modules they enter."""

    def __init__(self, folder: Path) -> None:
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(NOTE, "utf-8")
        self.notes = folder / "walked.txt"
        paths = os.pathsep.join([str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = os.environ | {"PYTHONPATH": paths, "WALKED": str(self.notes)}

    def command(self, *arguments: object) -> None:
        """Run a command to its end, and print what it entered."""
        command = [sys.executable, "-m", "visil", *map(str, arguments)]
        subprocess.run(command, env=self.environment, check=True, stdout=subprocess.DEVNULL)
        self.told(f"visil {arguments[0]}")

    def page(self, index: Path, clip: Path) -> None:
        """Start the server, then search for a clip as the page does."""
        command = [sys.executable, "-m", "visil", "serve", str(index), "--port", "0"]
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            self.told("visil serve")
            Client(address).search(file=clip)
            self.told("a search from the page")
            server.terminate()

    def told(self, what: str) -> None:
        """Print the modules entered since the last time, room by room."""
        modules = dict.fromkeys(self.notes.read_text("utf-8").split())
        self.notes.write_text("")
        rooms: dict[str, list[str]] = {}
        for name in modules:
            _, room, *rest = name.split(".")
            rooms.setdefault(room, []).append(".".join(rest) or room)
        print(f"{what}: {len(modules)} modules")
        for room, names in rooms.items():
            print(f"  {room} {len(names)}: {', '.join(names)}")


def main() -> None:
    """Every command of which docs/design.md shows the path."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        videos = folder / "videos"
        videos.mkdir()
        for i, (picture, seconds) in enumerate((("chelsea", 6), ("coffee", 6), ("chelsea", 4))):
            frames = render_scene(photograph(picture), seconds, 4, (192, 108), seed=7)
            write_video(videos / f"{i}.mp4", frames, 4)
        index = folder / "all.visil"
        walk = Walk(folder)
        walk.command("compare", videos / "0.mp4", videos / "2.mp4")
        walk.command("add", index, videos)
        walk.command("search", index, videos / "2.mp4")
        walk.command("duplicates", index)
        walk.page(index, videos / "2.mp4")
        (folder / "truth.txt").write_text("0 2 1\n0 1 0\n")
        walk.command("evaluate", "svd", "--annotations", folder / "truth.txt", "--videos", videos)
        (folder / "train.yaml").write_text(TRAIN)
        for i, picture in enumerate(("rocket", "coins", "astronaut"), 3):
            write_video(videos / f"{i}.mp4", render_scene(photograph(picture), 5, 4, (192, 108)), 4)
        walk.command("train", folder / "train.yaml", "--videos", videos, "--out", folder / "trained")


if __name__ == "__main__":
    main()
