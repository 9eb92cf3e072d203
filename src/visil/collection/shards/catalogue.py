"""The catalogues of all shards as one: asked together, written to where a video belongs.

A video's number is its number in its shard and the shard's place; videos come in the order in which they were first
added, whichever shard they are in.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visil.collection.catalogue import Failure, Judgement, NewVideo, Video
from visil.collection.entries import Order
from visil.collection.identity import Stamp, stamp_of
from visil.collection.shards import manifest as manifests
from visil.collection.shards.manifest import MOST
from visil.collection.shards.members import Members, by_place, number_of
from visil.errors import IndexFolderError


@dataclass(frozen=True)
class MergedOrder:
    """All videos of a collection in the order in which they came."""

    numbers: NDArray[np.int64]
    ids: list[str]
    doubled: NDArray[np.int64]
    """Numbers of videos that another shard has as well, while they are moved: not among ``numbers``."""

    @classmethod
    def of(cls, orders: Sequence[Order], folder: Path, *, moving: bool) -> MergedOrder:
        """From each shard's own; a video in two shards is refused, but where one is ``moving`` just now."""
        numbers = np.concatenate([number_of(i, 0) + one.numbers * MOST for i, one in enumerate(orders)])
        ids = [video for one in orders for video in one.ids]
        rising = np.lexsort((np.array(ids, "S"), np.concatenate([one.added for one in orders])))
        seen: dict[str, int] = {}
        kept: list[int] = []
        doubled: list[int] = []
        for i in rising.tolist():
            first = seen.setdefault(ids[i], i)
            (kept if first == i else doubled).append(i)
            if first != i and not moving:
                places = sorted(int(numbers[j]) % MOST for j in (first, i))
                raise IndexFolderError(
                    folder,
                    f"shards {places[0]} and {places[1]} both hold video {ids[i]}; "
                    "`visil shards rebalance` keeps one of the two",
                )
        return cls(numbers[kept], [ids[i] for i in kept], numbers[doubled])


class ShardedCatalogue:
    """The answers of :class:`visil.collection.catalogue.Catalogue`, for all shards together."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._order: tuple[object, MergedOrder] | None = None

    def version(self) -> object:
        """Equals an earlier answer only where no video came or went in between."""
        return self._members.connection.each("version")

    def order(self) -> MergedOrder:
        """All videos in the order in which they came; kept until one comes or goes."""
        version = self.version()
        if self._order is None or self._order[0] != version:
            members = self._members
            orders = members.connection.each("order")
            self._order = (version, MergedOrder.of(orders, members.folder, moving=members.manifest.moving))
        return self._order[1]

    def ranks(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which place each video has in :meth:`order`; one that has just gone comes last."""
        order = self.order().numbers
        rising = np.argsort(order)
        at = np.searchsorted(order, numbers, sorter=rising)
        known = at < len(order)
        ranks = np.full(len(numbers), len(order), np.int64)
        ranks[known] = np.where(order[rising[at[known]]] == numbers[known], rising[at[known]], len(order))
        return ranks

    def changed(self) -> None:
        """Forget cached facts about the shards: they are others, or videos move."""
        self._order = None

    # ------------------------------------------------------------------ facts about the collection

    def fact(self, key: str) -> str | None:
        """A fact about the whole collection."""
        return self._members.manifest.facts.get(key)

    def set_fact(self, key: str, value: str) -> None:
        """Settle something for all shards."""
        self.settle(**{key: value})

    def settle(self, **facts: str) -> None:
        """Record what the whole collection is made with: in ``shards.json`` first, then in each shard."""
        members = self._members
        with manifests.held(members.folder, alone=False):
            members.manifest = manifests.read(members.folder).with_facts(**facts)
            manifests.write(members.folder, members.manifest)
        members.connection.each("settle", members.manifest.facts)

    # ------------------------------------------------------------------ changing

    def add(
        self,
        video: NewVideo,
        path: str,
        stamp: Stamp,
        *,
        reference: bool = False,
        place: Callable[[], object] | None = None,
    ) -> list[str]:
        """A video into the shard that it belongs to; killed on the way, its path is known to none, and added anew."""
        belongs = self._members.place_for(video.id)
        gone = self._forget_elsewhere(path, belongs)
        own = self._members.local(belongs).catalogue
        return gone + own.add(video, path, stamp, reference=reference, place=place)

    def add_file(self, video: str, path: str, stamp: Stamp, *, reference: bool = False) -> list[str]:
        """Another file of a video, to the shard that has it."""
        here = self._members.where(video)
        if here is None:
            raise LookupError(video)
        gone = self._forget_elsewhere(path, here)
        return gone + self._members.local(here).catalogue.add_file(video, path, stamp, reference=reference)

    def _forget_elsewhere(self, path: str, but: int) -> list[str]:
        """Forget a path in other shards: it holds something else now."""
        gone: list[str] = []
        for place in self._members.places:
            if place != but:
                gone += self._members.ask(place, "forget", path)
        return gone

    def forget(self, path: str) -> list[str]:
        """Forget a path in every shard; returns the videos that no file holds since."""
        return self._forget_elsewhere(path, -1)

    def mark_reference(self, path: str) -> None:
        """Mark a file in whichever shard has it."""
        self._members.ask_each("mark_reference", path)

    def fail(self, path: str, reason: str, stamp: Stamp) -> list[str]:
        """A file that cannot be read, kept by the shard that its name belongs to."""
        belongs = self._members.home(os.fsencode(path))
        gone = self._forget_elsewhere(path, belongs)
        return gone + list(self._members.ask(belongs, "fail", path, reason, stamp))

    # ------------------------------------------------------------------ asking

    def file(self, path: str) -> tuple[str, Stamp] | None:
        """The video that a path held; of two answers the one that is true now."""
        found: list[tuple[str, Stamp]] = [
            one for one in self._members.ask_each("file", path) if one is not None
        ]
        if len(found) > 1:
            with suppress(Exception):
                now = stamp_of(Path(path))
                found.sort(key=lambda one: one[1] != now)
        return found[0] if found else None

    def failed_before(self, path: str, stamp: Stamp) -> str | None:
        """Why this very file could not be read before."""
        return next(
            (one for one in self._members.ask_each("failed_before", path, stamp) if one is not None), None
        )

    def failures(self) -> list[Failure]:
        """All files that cannot be read."""
        found = {one.path: one for some in self._members.ask_each("failures") for one in some}
        return [found[path] for path in sorted(found, key=os.fsencode)]

    def has(self, video: str) -> bool:
        """Whether some shard has a video."""
        return any(self._members.ask_each("has", video))

    def count(self) -> tuple[int, int, float]:
        """Videos, frames and seconds in all."""
        if self._members.manifest.moving:
            chosen = list(self.videos())
            return len(chosen), sum(v.frames for v in chosen), sum(v.duration for v in chosen)
        counts = self._members.ask_each("count")
        return sum(c[0] for c in counts), sum(c[1] for c in counts), sum(c[2] for c in counts)

    def videos(self) -> Iterator[Video]:
        """All videos in the order in which they came, a page at a time."""
        numbers = self.order().numbers.tolist()
        for start in range(0, len(numbers), 1000):
            page = self.numbered(numbers[start : start + 1000])
            yield from (page[number] for number in numbers[start : start + 1000] if number in page)

    def video(self, id_or_path: str) -> Video | None:
        """A video by id, the beginning of its id, or path; None where that fits none, or several."""
        found: dict[str, Video] = {}
        for place, video in enumerate(self._members.ask_each("video", id_or_path)):
            if video is not None:
                found.setdefault(video.id, replace(video, number=number_of(place, video.number)))
        if id_or_path in found:
            return found[id_or_path]
        by_path = [video for video in found.values() if not video.id.startswith(id_or_path)]
        if len(by_path) > 1:  # several remember the path: the one that holds it now
            known = self.file(os.path.abspath(id_or_path))
            return None if known is None else found.get(known[0])
        if by_path:
            return by_path[0]
        return next(iter(found.values())) if len(found) == 1 else None

    def numbered(self, numbers: Sequence[int]) -> dict[int, Video]:
        """Videos by number; those that are gone are left out."""
        asked = {place: (some,) for place, some in by_place(numbers).items()}
        return {
            number_of(place, local): replace(video, number=number_of(place, local))
            for place, some in self._members.connection.some("catalogue.numbered", asked).items()
            for local, video in some.items()
        }

    def sample(self, count: int) -> list[Video]:
        """So many videos, by id: those that one collection of all would name."""
        found = {
            video.id: replace(video, number=number_of(place, video.number))
            for place, some in enumerate(self._members.ask_each("sample", count))
            for video in some
        }
        return [found[key] for key in sorted(found)[:count]]

    def numbers(self) -> list[int]:
        """The numbers of all videos, in the order in which they came."""
        return [int(number) for number in self.order().numbers]

    def paths(self, video: str) -> list[str]:
        """Every file that holds a video."""
        found = {path for some in self._members.ask_each("paths", video) for path in some}
        return sorted(found, key=os.fsencode)

    def files(self, video: str) -> list[tuple[str, Stamp, bool]]:
        """Every file that holds a video, by path: (path, its stamp when added, whether it is a reference)."""
        found = {file[0]: file for some in self._members.ask_each("files", video) for file in some}
        return [found[path] for path in sorted(found, key=os.fsencode)]

    def known_paths(self) -> list[str]:
        """Every file that is in some shard, or could not be read."""
        found = {path for some in self._members.ask_each("known_paths") for path in some}
        return sorted(found, key=os.fsencode)

    def copies(self) -> dict[str, list[tuple[str, bool]]]:
        """The videos that several files hold, in the order in which they came."""
        found: dict[str, list[tuple[str, bool]]] = {}
        for some in self._members.ask_each("copies"):
            found |= some
        places = {video: i for i, video in enumerate(self.order().ids)} if found else {}
        return {video: found[video] for video in sorted(found, key=lambda v: places.get(v, len(places)))}

    # ------------------------------------------------------------------ people's verdicts

    def judge(self, a: str, b: str, verdict: Judgement | None) -> None:
        """Record what someone said, in the shard that the pair belongs to, and nowhere else."""
        belongs = self._members.home(min(a, b))
        if verdict is not None:
            self._members.ask(belongs, "judge", a, b, verdict)
        for place in self._members.places:
            if place != belongs or verdict is None:
                self._members.ask(place, "judge", a, b, None)

    def verdicts(self) -> dict[tuple[str, str], Judgement]:
        """{(id, id): verdict}; the last one, where two shards have one."""
        rows = sorted(
            (row for some in self._members.connection.each("transfers.verdicts") for row in some), key=_when
        )
        return {(a, b): verdict for a, b, verdict, _ in rows}


def _when(row: tuple[Any, ...]) -> float:
    return float(row[3])
