"""The command in the test's own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from visil.cli import main
from visil.compare.visil import ViSiL

Here = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Here:
    """``visil`` in this process: for what needs no process of its own, and is many times as fast."""

    def run(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("COLUMNS", "100")
        words = ["visil", *(os.fspath(argument) for argument in arguments)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as end:
            main()
        return subprocess.CompletedProcess(words, int(end.value.code or 0), *capfd.readouterr())

    return run


KNOWN: dict[tuple[str, torch.Size, bytes], torch.Tensor] = {}
"""What weights made of frames."""


@pytest.fixture(scope="module", autouse=True)
def embedded_once() -> Iterator[None]:
    """The same frames are embedded once by the same weights: tests compare the same videos again and again."""
    real = ViSiL.features

    def features(model: ViSiL, frames: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            return real(model, frames)
        key = (model.fingerprint(), frames.shape, frames.numpy().tobytes())
        if key not in KNOWN:
            KNOWN[key] = real(model, frames)
        return KNOWN[key].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ViSiL, "features", features)
        yield
