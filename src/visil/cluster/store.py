"""The features of all shards as one store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.catalogue import Video
from visil.collection.identity import Stamp
from visil.collection.store import FeatureStore, FeatureWriter
from visil.errors import IndexFolderError
from visil.model.codes import Codes
from visil.model.features import VideoFeatures

if TYPE_CHECKING:
    from visil.cluster.sharded import ShardedIndex


class ShardedStore(FeatureStore):
    """What :class:`visil.collection.store.FeatureStore` offers, over the shards of ``index``."""

    def __init__(self, index: ShardedIndex, codes: Codes = "fp16") -> None:
        super().__init__(index.folder, codes)
        self._index = index

    def _at(self, video: str, method: str, *arguments: Any) -> Any:
        return self._index.shards.call(
            self._index.catalogue.place_for(video), "ask", "store", method, *arguments
        )

    def _own(self, video: str) -> FeatureStore:
        return self._index.local(self._index.catalogue.place_for(video)).store

    def path(self, video: str) -> Path:
        """Where a video's features are, or would be."""
        found: Path = self._at(video, "path", video)
        return found

    def writer(self, video: str) -> FeatureWriter:
        """To write a video's features where it belongs."""
        return self._own(video).writer(video)

    def read(self, video: str, *, path: str | None = None) -> VideoFeatures:
        """A video's features, from the shard that has it."""
        place = self._index.catalogue.place_for(video)
        found: VideoFeatures = self._index.shards.call(place, "read", video, path)
        return found

    def try_read(self, video: Video) -> VideoFeatures | None:
        """A video's features; where they cannot be read, None and one line of warning, once for each video."""
        try:
            return self.read(video.id, path=video.path)
        except IndexFolderError as error:
            self.warn(video, error)
            return None

    def stamp(self, video: str) -> Stamp | None:
        """What tells that a feature file has changed."""
        found: Stamp | None = self._at(video, "stamp", video)
        return found

    def sound(self, video: str) -> str | None:
        """What is wrong with a feature file."""
        found: str | None = self._at(video, "sound", video)
        return found

    def remove(self, video: str) -> None:
        """Delete a video's features, wherever they are."""
        self._index.shards.each("ask", "store", "remove", video)

    def ids(self) -> Iterator[str]:
        """The videos that have a file in some shard."""
        for some in self._index.shards.each("ask", "store", "ids"):
            yield from some

    def clear_leftovers(self) -> None:
        """Delete what killed processes left half-written."""
        self._index.shards.each("ask", "store", "clear_leftovers")
