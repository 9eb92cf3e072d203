"""Where Chromium is missing and cannot be had, the tests of the page say so, and soon."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from . import chromium


def stand_in(folder: Path, script: str) -> None:
    file = folder / "apt-get"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (
            "echo 'Err: Temporary failure resolving deb.debian.org' >&2; exit 100",
            "Temporary failure resolving",
        ),
        ("/bin/sleep 60", "`apt-get update` took longer than 0.2 s"),
        ("exit 0", "also after it was installed"),
    ],
)
def test_a_word_and_no_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    stand_in(tmp_path, script)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VISIL_INSTALL_CHROMIUM", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    path, why = chromium.installed(update_s=0.2 if "sleep" in script else 30)
    assert path is None
    assert words in why


def test_it_is_installed_where_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "chromium"
    stand_in(tmp_path, f'[ "$7" = install ] && echo > {made} && /bin/chmod 755 {made}; exit 0')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert chromium.installed() == (str(made), "no Chromium was found, also after it was installed")
    assert chromium.found() == str(made)


def test_who_may_not_install_is_told_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "apt-get install chromium" in chromium.installed()[1]
