"""A collection of random features that nobody has had a first look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import visil
from collection.random_collection import Made, random_videos, small_model, write
from visil.compare.visil import ViSiL

COUNT = 40


@pytest.fixture(scope="module")
def small() -> ViSiL:
    return small_model()


@pytest.fixture(scope="module")
def made() -> list[Made]:
    return random_videos(3, COUNT)


@pytest.fixture
def place(tmp_path: Path, made: list[Made], small: ViSiL) -> Path:
    """Where it is."""
    write(tmp_path / "i", made, small)
    return tmp_path / "i"


@pytest.fixture
def opened(place: Path, small: ViSiL) -> Iterator[visil.Index]:
    with visil.Index(place, model=small) as index:
        yield index
