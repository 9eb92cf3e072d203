"""A first look at a collection in shards: each looks at its own videos; only ids, numbers and scores travel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from visil.cluster.catalogue import number_of
from visil.collection.first_look import FirstLook, Look, Progress
from visil.compare.matches import Common
from visil.model.features import VideoFeatures

if TYPE_CHECKING:
    from visil.cluster.sharded import ShardedIndex


class ShardedFirstLook(FirstLook):
    """What :class:`visil.collection.first_look.FirstLook` offers, over the shards of ``index``; they keep the signs."""

    def __init__(self, index: ShardedIndex) -> None:  # no file of its own
        self._index = index

    def refresh(self, *, save: bool = True, progress: Progress | None = None) -> None:  # noqa: ARG002
        """Bring every shard's signs up to date; each writes them where it may."""
        places = len(self._index.shards.locations)
        if progress is None:
            self._index.shards.each("prepare_first_look")
            return
        for place in range(places):
            self._index.shards.call(place, "prepare_first_look")
            progress(place + 1, places)

    def nearest(self, query: VideoFeatures, common: Common | None, count: int) -> list[Look]:
        """The ``count`` videos of all shards that look most like a query, best first."""
        answers = self._index.shards.each("first_look", query, common, count)
        looks = (
            (score, video, number_of(place, number))
            for place, found in enumerate(answers)
            for score, video, number in found
        )
        return sorted(looks)[:count]
