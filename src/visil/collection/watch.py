"""Folders whose videos join a collection as they come, and the matches of each."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from visil.collection.discover import discover, discover_at
from visil.collection.identity import Stamp, stamp_of
from visil.collection.selection import Selection
from visil.errors import VideoError, printable

if TYPE_CHECKING:
    from visil.collection.index import Index
    from visil.collection.search import Hit

logger = logging.getLogger("visil")

Clock = Callable[[], float]


@dataclass(frozen=True)
class Arrival:
    """A file that came, and what became of it."""

    path: str
    id: str | None = None
    reason: str | None = None
    """Why it could not be added."""
    same_bytes: list[str] = field(default_factory=list)
    """Files that hold the same, byte for byte."""
    hits: list[Hit] = field(default_factory=list)
    """Other videos that share footage with it."""

    def to_dict(self) -> dict[str, object]:
        """As ``visil watch --json`` prints it."""
        if self.reason is not None:
            return {"path": self.path, "error": self.reason}
        hits = [hit.to_dict() for hit in self.hits]
        return {"path": self.path, "id": self.id, "same_bytes": self.same_bytes, "hits": hits}


class Growing:
    """Files that may still be written to; each is let go once it has stayed as it is for ``settle`` seconds."""

    def __init__(self, settle: float, clock: Clock = time.monotonic) -> None:
        self.settle = settle
        self._clock = clock
        self._seen: dict[Path, tuple[Stamp, float]] = {}

    def add(self, path: Path) -> None:
        """A file that was found, or has changed."""
        stamp = _stamp(path)
        if stamp is not None:
            known = self._seen.get(path)
            if known is None or known[0] != stamp:
                self._seen[path] = stamp, self._clock()

    def whole(self) -> list[Path]:
        """Files that have stopped growing, each once; those that are gone are forgotten."""
        found = []
        for path, (stamp, since) in list(self._seen.items()):
            now = _stamp(path)
            if now is None:
                del self._seen[path]
            elif now != stamp:
                self._seen[path] = now, self._clock()
            elif self._clock() - since >= self.settle:
                del self._seen[path]
                found.append(path)
        return found


@dataclass(frozen=True)
class Matching:
    """The matches of a file that are told."""

    k: int = 10
    min_confidence: float = 0.5
    verdicts: Collection[str] | None = None


def watch(
    index: Index,
    folders: Iterable[str | os.PathLike[str]],
    changes: Iterable[Iterable[str]],
    *,
    selection: Selection,
    settle: float,
    matching: Matching,
    clock: Clock = time.monotonic,
) -> Iterator[Arrival]:
    """Every video that is in ``folders`` and not in the collection, or comes later, once it is added.

    ``changes`` gives the paths where something happened since the last time, also when nothing did: that is when files
    are looked at that have stopped growing. It ends when ``changes`` does.
    """
    roots = [Path(os.path.abspath(folder)) for folder in folders]
    growing = Growing(settle, clock)
    own = os.path.abspath(index.folder)
    first = True
    for changed in changes:
        if first:  # only now: what comes while the folders are searched is among the changes
            first = False
            _add_all(growing, discover(roots, selection))
        for name in changed:
            for root, path in _places(Path(name), roots):
                if not path.is_relative_to(own):
                    _add_all(growing, discover_at(root, path, selection))
        files = [path for path in growing.whole() if not _known(index, path)]
        if files:
            yield from _take_in(index, files, selection, matching)


def _places(path: Path, roots: list[Path]) -> Iterator[tuple[Path, Path]]:
    """The folders that a path lies in, and the path by their names: some systems tell where links lead."""
    for root in roots:
        for name in (root, Path(os.path.realpath(root))):
            if path.is_relative_to(name):
                yield root, root / path.relative_to(name)
                break


def _add_all(growing: Growing, files: Iterable[Path]) -> None:
    for file in files:
        growing.add(file)


def _take_in(index: Index, files: list[Path], selection: Selection, matching: Matching) -> Iterator[Arrival]:
    # By name they were chosen already, by their place in the folder.
    report = index.add(files, selection=replace(selection, include=(), exclude=()))
    failed = dict(report.failed)
    passed_over = {path for path, _ in report.passed_over}
    for path in map(os.fspath, files):
        if path in failed:
            yield Arrival(path, reason=failed[path])
        elif path not in passed_over:
            yield _arrived(index, path, matching)


def _arrived(index: Index, path: str, matching: Matching) -> Arrival:
    video = index.catalogue.video(path)
    if video is None:
        return Arrival(path, reason="was removed from the collection meanwhile")
    hits = index.search(
        path, matching.k + 1, min_confidence=matching.min_confidence, verdicts=matching.verdicts
    )
    same = [other for other in index.catalogue.paths(video.id) if other != path and os.path.lexists(other)]
    others = [hit for hit in hits if hit.id != video.id and (matching.verdicts or hit.shares)]
    logger.info("matched: %s: %d videos", printable(path), len(others))
    return Arrival(path, video.id, same_bytes=same, hits=others[: matching.k])


def _known(index: Index, path: Path) -> bool:
    """Whether a file is in the collection as it is, or could not be read as it is."""
    stamp, name = _stamp(path), os.fspath(path)
    known = index.catalogue.file(name)
    if stamp is None or (known is not None and known[1] == stamp):
        return True
    return index.catalogue.failed_before(name, stamp) is not None


def _stamp(path: Path) -> Stamp | None:
    try:
        return stamp_of(path)
    except VideoError:
        return None
