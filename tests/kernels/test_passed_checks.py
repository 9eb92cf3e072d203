"""A check that was passed on this machine is remembered for the same circumstances; and so is the name of Triton."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from visil.kernels.passed_checks import passed, remember_key

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Check:
    """Says what it is told to, and counts."""

    def __init__(self, result: bool) -> None:
        self.result, self.made = result, 0

    def __call__(self) -> bool:
        self.made += 1
        return self.result


def test_what_was_passed_is_not_checked_again() -> None:
    check = Check(True)
    assert passed(check, "products", CPU)
    assert passed(check, "products", CPU)
    assert check.made == 1
    assert passed(check, "maps", CPU)
    assert check.made == 2


def test_what_failed_is_checked_each_time() -> None:
    check = Check(False)
    assert not passed(check, "products", CPU)
    assert not passed(check, "products", CPU)
    assert check.made == 2


def test_other_weights_or_versions_are_checked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Check(True)
    passed(check, "network", CPU, [torch.ones(3)])
    passed(check, "network", CPU, [torch.zeros(3)])
    assert check.made == 2
    monkeypatch.setattr(torch, "__version__", "99")
    passed(check, "network", CPU, [torch.ones(3)])
    assert check.made == 3


def test_a_cache_that_cannot_be_written_is_no_error(cache: Path) -> None:
    cache.write_text("a file")
    check = Check(True)
    assert passed(check, "products", CPU)
    assert passed(check, "products", CPU)
    assert check.made == 2


def test_the_name_of_triton_is_the_same_and_not_reckoned_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    triton, kept = pytest.importorskip("triton"), pytest.importorskip("triton.runtime.cache")
    monkeypatch.setattr(kept, "visil_remembers", False, raising=False)
    name = f"{triton.__version__}-some-digest"
    times: list[int] = []

    def reckoned() -> str:
        times.append(1)
        return name

    for _ in range(2):  # as two processes
        monkeypatch.setattr(kept, "visil_remembers", False)
        monkeypatch.setattr(kept, "triton_key", reckoned)
        remember_key()
        assert kept.triton_key() == name
    assert len(times) == 1
