"""Videos from one shard to another, not embedded again; killed at any moment, nothing is lost or counts twice.

A video is copied (features, then its entry, in one transaction of the shard that it goes to), brought to the disk, and
only then taken out where it was. In between it is in two shards, and ``shards.json`` says that this may be: whoever
reads the collection counts it once. Running it again goes on where it stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from visil.collection.connection import Connect, Connection, LocalConnection
from visil.collection.entries import Entry
from visil.collection.lock import can_write
from visil.collection.shards import manifest as manifests
from visil.collection.shards.manifest import home
from visil.collection.shards.members import check_alike
from visil.collection.transfers import PIECE
from visil.errors import IndexFolderError

TOGETHER = 50
"""Videos that are in two shards at a time."""

OnMoved = Callable[[int, int], None]
"""Called with videos moved, and videos to move in all."""


def rebalance(folder: Path, *, connect: Connect = LocalConnection.to, progress: OnMoved | None = None) -> int:
    """Every video into the shard that its content belongs to, and people's verdicts into that of the pair.

    Returns how many videos were moved.
    """
    manifest = manifests.read(folder)
    if not can_write(folder):
        raise IndexFolderError(folder, "the folder cannot be written to")
    with manifests.held(folder, alone=True):
        manifest = manifests.read(folder)
        shards = connect(manifest.locations(folder))
        try:
            check_alike(folder, manifest, shards.each("facts"))
            for location, writable in zip(shards.locations, shards.each("writable"), strict=True):
                if not writable:
                    raise IndexFolderError(location, "the folder cannot be written to")
            shards.each("clear_leftovers")
            wanted = misplaced(shards, manifest.names)
            manifests.write(folder, replace(manifest, moving=True))
            if manifest.facts:
                shards.each("settle", manifest.facts)
            done = _move_all(shards, wanted, progress)
            _move_verdicts(shards, manifest.names)
            shards.each("prepare")
            manifests.write(folder, replace(manifest, moving=False))
        finally:
            shards.close()
    return done


def misplaced(shards: Connection, names: Sequence[str]) -> dict[tuple[int, int], list[str]]:
    """{(from, to): ids} of the videos that are not in the shard that they belong to."""
    found: dict[tuple[int, int], list[str]] = defaultdict(list)
    for place, order in enumerate(shards.each("order")):
        for video in order.ids:
            belongs = home(video, names)
            if belongs != place:
                found[place, belongs].append(video)
    return dict(found)


def _move_all(shards: Connection, wanted: dict[tuple[int, int], list[str]], progress: OnMoved | None) -> int:
    total = sum(map(len, wanted.values()))
    moved = 0
    for (source, target), videos in wanted.items():
        for start in range(0, len(videos), TOGETHER):
            some = videos[start : start + TOGETHER]
            for video in some:
                copy(shards, source, target, video)
            shards.call(target, "keep")
            for video in some:
                shards.call(source, "remove", video)
                moved += 1
                if progress is not None:
                    progress(moved, total)
            shards.call(source, "keep")
    return moved


def copy(shards: Connection, source: int, target: int, video: str) -> None:
    """A video into another shard; one whose feature file is missing goes without, and is as damaged there as here."""
    entry: Entry | None = shards.call(source, "transfers.entry", video)
    if entry is None:
        return
    try:
        here = shards.call(target, "catalogue.has", video)
        if not here and shards.call(source, "store.stamp", video) is not None:
            _send(shards, source, target, video)
        shards.call(target, "transfers.put", entry)
    except BaseException:
        shards.call(target, "transfers.give_up", video)
        raise


def _send(shards: Connection, source: int, target: int, video: str) -> None:
    if shards.parts is not None:
        shards.call(target, "transfers.take", video, shards.call(source, "transfers.file", video))
        return
    start = 0
    while True:
        data: bytes = shards.call(source, "transfers.piece", video, start)
        shards.call(target, "transfers.receive", video, data)
        start += len(data)
        if len(data) < PIECE:
            return


def _move_verdicts(shards: Connection, names: Sequence[str]) -> None:
    for place, rows in enumerate(shards.each("transfers.verdicts")):
        leaving: dict[int, list[tuple[object, ...]]] = defaultdict(list)
        for row in rows:
            leaving[home(row[0], names)].append(row)
        _hand_over(shards, place, ((to, some) for to, some in leaving.items() if to != place))


def _hand_over(
    shards: Connection, source: int, leaving: Iterable[tuple[int, list[tuple[object, ...]]]]
) -> None:
    for target, rows in leaving:
        shards.call(target, "transfers.add_verdicts", rows)
        shards.call(target, "keep")
        shards.call(source, "transfers.drop_verdicts", rows)
        shards.call(source, "keep")
