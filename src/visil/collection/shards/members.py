"""The shards of a collection as they are just now, and the features of all of them as one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.connection import Connection
from visil.collection.feature_writer import FeatureWriter
from visil.collection.part import Part
from visil.collection.shards.manifest import MOST, Manifest, home
from visil.collection.state import PartFacts
from visil.collection.store import Features
from visil.errors import IndexFolderError, UsageError

if TYPE_CHECKING:
    from visil.model.features import VideoFeatures


class Members:
    """The manifest of a sharded collection and the connection to its shards: both change when shards are added.

    A video's number in the collection is made of its number in its shard and the shard's place.
    """

    def __init__(self, folder: Path, manifest: Manifest, connection: Connection) -> None:
        self.folder = folder
        self.manifest = manifest
        self.connection = connection

    @property
    def places(self) -> range:
        """Of all shards."""
        return range(len(self.manifest.shards))

    def local(self, place: int) -> Part:
        """A shard that is open in this process: for what only whoever has its folder at hand can do."""
        parts = self.connection.parts
        if parts is None:
            raise UsageError(
                f"{self.folder}: its shards are open elsewhere; open it here (without --ray) to change it"
            )
        return parts[place]

    def ask(self, place: int, method: str, *arguments: Any) -> Any:
        """The answer of one shard's catalogue."""
        return self.connection.call(place, f"catalogue.{method}", *arguments)

    def ask_each(self, method: str, *arguments: Any) -> list[Any]:
        """The answers of all shards' catalogues."""
        return self.connection.each(f"catalogue.{method}", *arguments)

    def home(self, key: str | bytes) -> int:
        """The place of the shard that something belongs to by its name."""
        return home(key, self.manifest.names)

    def where(self, video: str) -> int | None:
        """The place of the shard that has a video; the one that it belongs to, where it is in two."""
        found = [place for place, has in enumerate(self.ask_each("has", video)) if has]
        belongs = self.home(video)
        return belongs if belongs in found else next(iter(found), None)

    def place_for(self, video: str) -> int:
        """Where a video is or, where it is nowhere, belongs."""
        here = self.where(video)
        return self.home(video) if here is None else here


class ShardedFeatures(Features):
    """The features of all shards."""

    def __init__(self, members: Members) -> None:
        super().__init__()
        self._members = members

    def path(self, video: str) -> Path:
        """See :meth:`Features.path`."""
        place = self._members.place_for(video)
        found: Path = self._members.connection.call(place, "store.path", video)
        return found

    def writer(self, video: str) -> FeatureWriter:
        """See :meth:`Features.writer`: where the video belongs."""
        return self._members.local(self._members.place_for(video)).store.writer(video)

    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """See :meth:`Features.read`: from the shard that has it."""
        place = self._members.place_for(video)
        found: VideoFeatures = self._members.connection.call(place, "read", video, path)
        return found

    def ids(self) -> Iterator[str]:
        """See :meth:`Features.ids`."""
        for some in self._members.connection.each("store.ids"):
            yield from some


def number_of(place: int, local: int) -> int:
    """A video's number in the whole collection."""
    return local * MOST + place


def by_place(numbers: Iterable[int]) -> dict[int, list[int]]:
    """Numbers in the whole collection as {place: numbers there}."""
    found: dict[int, list[int]] = defaultdict(list)
    for number in numbers:
        found[int(number) % MOST].append(int(number) // MOST)
    return dict(found)


def check_alike(folder: Path, manifest: Manifest, facts: Sequence[PartFacts]) -> None:
    """Refuse shards that another model made, or whose features are kept another way, than the collection's."""
    wanted = manifest.facts
    for shard in facts:
        if shard.fingerprint is not None and shard.fingerprint != wanted.get("fingerprint"):
            raise IndexFolderError(
                shard.location,
                f"was made with the model {shard.model}, and the collection {folder} with "
                f"{wanted.get('model', 'none yet')}: features of two models cannot be compared",
            )
        if shard.codes is not None and shard.codes != wanted.get("codes"):
            raise IndexFolderError(
                shard.location,
                f"keeps its features as {shard.codes}, and the collection {folder} as "
                f"{wanted.get('codes', 'nothing yet')}: shards must be of one kind",
            )
