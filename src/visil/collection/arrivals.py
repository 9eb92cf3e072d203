"""Feature files on their way into a part from another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from visil.collection.feature_writer import FeatureCopy
from visil.collection.store import PartFeatures


class Arrivals:
    """Those that a store is receiving, by video: seen by nobody until they are whole and placed."""

    def __init__(self, store: PartFeatures) -> None:
        self._store = store
        self._copies: dict[str, FeatureCopy] = {}

    def receive(self, video: str, data: bytes) -> None:
        """Some bytes more."""
        if video not in self._copies:
            self._copies[video] = self._store.copy(video)
        self._copies[video].append(data)

    def take(self, video: str, file: str) -> None:
        """All of a file that this process can read."""
        self._copies[video] = self._store.copy(video)
        self._copies[video].take(file)

    @contextmanager
    def whole(self, video: str) -> Iterator[Callable[[], None] | None]:
        """What puts a video's features in their place, None where none came; an error in the block forgets them."""
        copy = self._copies.pop(video, None)
        if copy is None:
            yield None
            return
        try:
            copy.seal()
            yield copy.place
        except BaseException:
            copy.discard()
            raise

    def give_up(self, video: str) -> None:
        """Forget what came of a video."""
        copy = self._copies.pop(video, None)
        if copy is not None:
            with suppress(OSError):
                copy.discard()

    def close(self) -> None:
        """Forget everything that came."""
        for copy in self._copies.values():
            copy.discard()
        self._copies = {}
