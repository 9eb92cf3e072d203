"""Triton's name of itself is reckoned once, and found again by the next process."""

from __future__ import annotations

from pathlib import Path

import pytest

triton = pytest.importorskip("triton")
cache = pytest.importorskip("triton.runtime.cache")


def test_the_name_is_the_same_and_not_reckoned_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from visil.kernels.passed_checks import remember_key

    monkeypatch.setenv("VISIL_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "visil_remembers", False, raising=False)
    name = f"{triton.__version__}-some-digest"
    times: list[int] = []

    def reckoned() -> str:
        times.append(1)
        return name

    for _ in range(2):  # as two processes
        monkeypatch.setattr(cache, "visil_remembers", False)
        monkeypatch.setattr(cache, "triton_key", reckoned)
        remember_key()
        assert cache.triton_key() == name
    assert len(times) == 1
