"""What a command imports before it answers: what needs no network waits for none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import visil
from synthetic import write_video
from visil.collection.catalogue import NewVideo
from visil.collection.identity import Stamp

NOTE = """
import sys
from visil.cli import main
heavy = ("torch", "torch._dynamo", "torch._inductor", "triton", "av", "faiss", "matplotlib", "scipy", "pandas")
try:
    main()
finally:
    print(*(name for name in heavy if name in sys.modules), file=sys.stderr)
"""


def imported(*arguments: str | os.PathLike[str]) -> set[str]:
    """Of the heavy packages, those that a command has imported when it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", NOTE, *(os.fspath(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Two videos, whose features are numbers of nobody."""
    with visil.Index(tmp_path / "two.visil") as index:
        for name in ("a" * 32, "b" * 32):
            writer = index.store.writer(name)
            writer.append(torch.ones(3, 2, 256) / 16, np.arange(3.0), torch.zeros(3, dtype=torch.bool))
            writer.seal(3.0)
            new = NewVideo(name, 3, 3.0, 64, 48, "h264", None, 1000, 0)
            index.catalogue.add(new, f"/videos/{name}.mp4", Stamp(1000, 5), place=writer.place)
        index.refresh()
    return tmp_path / "two.visil"


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["search", "--help"], ["models", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert imported(*words) == set()


def test_the_state_of_a_collection_needs_no_network(collection: Path) -> None:
    a, b = "a" * 32, "b" * 32
    assert imported("info", collection) == set()
    assert imported("judge", collection, a, b, "same") == set()
    assert imported("verify", collection) == {"faiss"}, "whose file is among what is verified"
    assert imported("remove", collection, a) == set()


def test_comparing_imports_no_compiler(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (6, 48, 64, 3), np.uint8)
    write_video(tmp_path / "a.mp4", frames, 2)
    assert imported("compare", tmp_path / "a.mp4", tmp_path / "a.mp4", "--json") == {"torch", "av"}
