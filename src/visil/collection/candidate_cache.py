"""The candidate cache on disk, kept in step with the catalogue by one process at a time."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from visil.collection.candidates import CandidateIndex
from visil.collection.lock import exclusive

if TYPE_CHECKING:
    from visil.collection.catalogue import Catalogue, Video
    from visil.collection.store import PartFeatures

LOCK = "frames.lock"

STALE_SHARE = 0.2
"""Share of removed videos in the cache from which it is made anew."""

Stamps = dict[int, list[int] | None]
"""Of videos by number: size and time of change of a feature file; None where it is missing."""


class LeftOut(Protocol):
    """Remembers which videos were left out, as a text."""

    def read(self) -> str | None:
        """The text that was written last; None before any was."""

    def write(self, text: str) -> None:
        """Remember it, as far as that is possible."""


class CandidateCache:
    """``frames*`` of a collection.

    Videos whose features cannot be read are left out with a warning. Which they were is remembered by ``left_out``,
    so they are tried again when their file changes, and not each time.
    """

    def __init__(
        self, folder: Path, dim: int, catalogue: Catalogue, store: PartFeatures, left_out: LeftOut
    ) -> None:
        self.folder = folder
        self.dim = dim
        self.catalogue = catalogue
        self.store = store
        self.left_out = left_out
        self._candidates: CandidateIndex | None = None
        self._version: object = None
        """Of the catalogue when the candidates were last seen to fit it, with nothing left out."""

    def refresh(self, *, save: bool) -> CandidateIndex:
        """Candidates that are up to date with the catalogue; what changed is only kept on disk if told to."""
        if self._candidates is None:
            self._candidates = CandidateIndex(self.folder, self.dim)
            self._candidates.load()
        version = self.catalogue.version()
        if version == self._version:  # not a look at a million numbers for each search
            return self._candidates
        present = set(self.catalogue.numbers())
        self._update(present, save)
        self._candidates.gone = self._candidates.numbers - present
        self._version = version if present <= self._candidates.numbers else None
        return self._candidates

    def _update(self, present: set[int], save: bool) -> None:
        assert self._candidates is not None
        wanted = present - self._left_out().keys()
        if wanted <= self._candidates.numbers and not _worn(self._candidates, present):
            return
        if not save:
            self._candidates, _ = self._updated(present)
            return
        with exclusive(self.folder / LOCK):
            self._candidates, left_out = self._updated(present)
            self._candidates.save()
            self.left_out.write(json.dumps(left_out))
            _delete_leftovers(self.folder)

    def _updated(self, present: set[int]) -> tuple[CandidateIndex, Stamps]:
        """The index on disk with all missing videos that are readable, and the unreadable ones."""
        candidates = CandidateIndex(self.folder, self.dim)
        fits = candidates.load(writable=True) and not candidates.outgrown and not _worn(candidates, present)
        videos = self.catalogue.numbered(sorted(present - candidates.numbers if fits else present))
        inorder = [videos[number] for number in sorted(videos)]
        if fits:
            candidates.extend(inorder, self.store)
        else:
            candidates.build(inorder, self.store)
        left_out = self._left_out() if fits else {}
        for number in videos.keys() - candidates.numbers:
            left_out[number] = self._stamp(videos[number])
        return candidates, left_out

    def _left_out(self) -> Stamps:
        """Videos left out before that are as unreadable as then: the warning is repeated, the attempt is not."""
        known = json.loads(self.left_out.read() or "{}")
        stamps: Stamps = {int(number): stamp for number, stamp in known.items()}
        videos = self.catalogue.numbered(list(stamps)).values()
        same = [video for video in videos if self._stamp(video) == stamps[video.number]]
        for video in same:
            self.store.try_read(video)
        return {video.number: stamps[video.number] for video in same}

    def _stamp(self, video: Video) -> list[int] | None:
        stamp = self.store.stamp(video.id)
        return None if stamp is None else [stamp.size, stamp.modified_ns]


def clear_leftovers(folder: Path) -> None:
    """Delete what killed processes left of the cache, unless one is writing it now."""
    with suppress(BlockingIOError), exclusive(folder / LOCK, wait=False):
        _delete_leftovers(folder)


def _delete_leftovers(folder: Path) -> None:
    try:
        current = json.loads((folder / "frames.json").read_text("utf-8"))["file"]
    except (OSError, ValueError, KeyError, TypeError):
        current = None
    for pattern in ("frames-*.faiss", ".frames-*.json"):
        for path in folder.glob(pattern):
            if path.name != current:
                with suppress(OSError):
                    path.unlink()  # readers that have it mapped keep it until they close


def _worn(candidates: CandidateIndex, present: set[int]) -> bool:
    return len(candidates.numbers - present) > STALE_SHARE * len(candidates.numbers)
