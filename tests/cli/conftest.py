"""The command in the test's own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from embedded_once import embedded_once  # noqa: F401  # for all tests here
from visil.cli import main

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
