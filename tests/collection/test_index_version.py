"""A search over a collection that nobody has changed looks through no list of all its videos."""

from __future__ import annotations

from pathlib import Path

import pytest

import visil
from visil.collection.catalogue import Catalogue
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL

from .inside import candidates, part


def test_a_version_stays_until_somebody_writes(folder: Path, model: ViSiL) -> None:
    with visil.Index(folder, model=model) as mine, visil.Index(folder, model=model) as other:
        first = mine.catalogue.version()
        assert mine.catalogue.version() == first
        assert len(mine) == len(other) == 8
        other.remove([next(other.catalogue.videos()).id])
        second = mine.catalogue.version()
        assert second != first
        assert len(mine) == len(other) == 7
        mine.remove([next(mine.catalogue.videos()).id])
        assert mine.catalogue.version() not in (first, second)
        assert len(mine) == len(other) == 6


def test_candidates_follow_the_catalogue_and_are_left_alone_else(
    folder: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Catalogue] = []
    real = Catalogue.numbers

    def counted(self: Catalogue) -> list[int]:
        listed.append(self)
        return real(self)

    monkeypatch.setattr(Catalogue, "numbers", counted)
    with visil.Index(folder, model=model) as mine, visil.Index(folder, model=model) as other:
        mine.refresh()
        before = len(listed)
        for _ in range(3):
            assert candidates(mine).gone == set()
        assert len(listed) == before
        video = next(other.catalogue.videos())
        other.remove([video.id])
        assert candidates(mine).gone == {video.number}
        assert len(listed) == before + 1


def test_a_refresh_reads_each_new_feature_file_once(
    folder: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From nothing, and for one video more; where nothing is new, none."""
    read: list[str] = []
    real = FeatureStore.read

    def counted(self: FeatureStore, video: str, *, path: str | None = None) -> visil.VideoFeatures:
        read.append(video)
        return real(self, video, path=path)

    (folder / "frames.json").unlink()
    with visil.Index(folder, model=model) as index:
        known = [video.id for video in index.catalogue.videos()]
        monkeypatch.setattr(FeatureStore, "read", counted)
        index.refresh()
        assert read == known
        index.refresh()
        assert read == known
        again = part(index)
        entry, file = again.transfers.entry(known[2]), again.store.path(known[2]).read_bytes()
        assert entry is not None
        index.remove([known[2]])
        again.transfers.receive(known[2], file)
        again.transfers.put(entry)
        index.refresh()
        assert read == [*known, known[2]]
