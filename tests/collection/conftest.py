"""A small collection for the tests of this folder, made once; each test works on a copy."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visil
from forked import Child, fork
from synthetic import write_video
from visil.cli import main
from visil.collection.identity import content_id
from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.demo import photograph, render_scene
from visil.errors import VideoError
from visil.footage.containment import Span
from visil.footage.proof import File, Proof, Prover
from visil.video import Image

FPS = 6
SIZE = (160, 120)


@dataclass(frozen=True)
class Done:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output, which must be one JSON document."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """What it said of its failure: exit status 1 and one line, no traceback."""
        assert self.status == 1, self.err
        (line,) = self.err.splitlines()
        assert line.startswith("visil: ")
        return line


Command = Callable[..., Done]
Start = Callable[..., Child]


def footage(name: str, seconds: float, part: tuple[float, float] | None = None) -> list[Image]:
    return list(render_scene(photograph(name), seconds, FPS, SIZE, part=part))


@pytest.fixture(scope="session")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three copies of one video (whole, smaller, cut), one video inside another, three that share nothing."""
    folder = tmp_path_factory.mktemp("videos")
    for name in ("copies", "inside", "alone"):
        (folder / name).mkdir()
    cat, coffee = footage("chelsea", 8), footage("coffee", 5)
    half = (SIZE[1] // 2, 2, SIZE[0] // 2, 2, 3)
    small = [image.reshape(half).mean(axis=(1, 3)).astype(np.uint8) for image in cat]
    write_video(folder / "copies" / "cat.mp4", cat, FPS)
    write_video(folder / "copies" / "cat small.mkv", small, FPS)
    write_video(folder / "copies" / "cut.mp4", cat[FPS : 6 * FPS], FPS, options={"crf": "30"})
    write_video(folder / "inside" / "long.mp4", [*footage("rocket", 3), *coffee], FPS)
    write_video(folder / "inside" / "coffee.mp4", coffee, FPS, options={"crf": "26"})
    for name in ("astronaut", "retina", "motorcycle_left"):
        write_video(folder / "alone" / f"{name}.mp4", footage(name, 5), FPS)
    return folder


@pytest.fixture(scope="session")
def model() -> Iterator[ViSiL]:
    """The default model, which remembers what it made of each frame: tests add the same videos again and again."""
    loaded = visil.load()
    real = loaded.features
    known: dict[tuple[bytes, torch.Size], torch.Tensor] = {}

    def features(frames: torch.Tensor) -> torch.Tensor:
        keys = [(frame.numpy().tobytes(), frame.shape) for frame in frames]
        new = [place for place, key in enumerate(keys) if key not in known]
        if new:
            known.update(zip([keys[place] for place in new], real(frames[new]), strict=True))
        return torch.stack([known[key] for key in keys])

    fingerprint = loaded.fingerprint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaded, "features", features)
        patch.setattr(loaded, "fingerprint", lambda: fingerprint)
        yield loaded


@pytest.fixture(scope="session")
def proofs() -> dict[tuple[str, str], Proof]:
    """What is known of two files, by content."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def proved_once(proofs: dict[tuple[str, str], Proof]) -> Iterator[None]:
    """Two files are compared picture by picture once, by content: the same ones lie in many folders here."""
    real, known = Prover.prove, proofs

    def prove(prover: Prover, first: File, second: File, matching: Sequence[tuple[Span, Span]]) -> Proof:
        try:
            key = (content_id(Path(first.path)), content_id(Path(second.path)))
        except VideoError:
            return real(prover, first, second, matching)
        if key not in known:
            known[key] = real(prover, first, second, matching)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Prover, "prove", prove)
        yield


@pytest.fixture(scope="session")
def built(videos: Path, model: ViSiL, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection of all of :func:`videos`; never opened by a test."""
    folder = tmp_path_factory.mktemp("built") / "all.visil"
    with visil.Index(folder, model=model) as index:
        report = index.add(videos, workers=1)
    assert (report.added, report.failed) == (8, [])
    return folder


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    """A copy of the collection to do things to."""
    return Path(shutil.copytree(built, tmp_path / "all.visil"))


@pytest.fixture
def index(folder: Path, model: ViSiL) -> Iterator[visil.Index]:
    with visil.Index(folder, model=model) as opened:
        yield opened


@pytest.fixture
def empty(tmp_path: Path, model: ViSiL) -> Iterator[visil.Index]:
    """A new collection."""
    with visil.Index(tmp_path / "new.visil", model=model) as opened:
        yield opened


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, model: ViSiL) -> Command:
    """The command line in this process, with the model loaded once: arguments in, exit status and output out."""

    _load_at_once(model, monkeypatch)

    def command(*arguments: str | os.PathLike[str]) -> Done:
        # As strict as a terminal: pytest's own would put question marks for what cannot be encoded.
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "argv", ["visil", *(os.fspath(argument) for argument in arguments)])
            with pytest.raises(SystemExit) as ended:
                main()
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, _written(out), _written(err))

    return command


@pytest.fixture
def process(model: ViSiL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """``visil`` as a process of its own, after some lines of Python that get in its way; ended with the test."""
    started: list[Child] = []

    def start(*arguments: str | os.PathLike[str], before: str = "") -> Child:
        def command() -> None:
            _load_at_once(model, pytest.MonkeyPatch())
            sys.argv = ["visil", *(os.fspath(argument) for argument in arguments)]
            exec(before, {})
            main()

        started.append(fork(command, tmp_path_factory.mktemp("said")))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.wait(10)


def _written(stream: io.TextIOWrapper) -> str:
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def _load_at_once(model: ViSiL, patch: pytest.MonkeyPatch) -> None:
    """The default model is the one that is loaded already."""

    def loaded(name: str | None = None) -> ViSiL:
        return model if name is None else load(name)

    patch.setattr("visil.collection.model.load", loaded)
