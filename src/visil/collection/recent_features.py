"""Features that were read a moment ago: while many videos of a collection are compared, each is read many times."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from visil.machine.prefetch import in_order

if TYPE_CHECKING:
    import torch

    from visil.collection.catalogue import Video
    from visil.collection.store import Features
    from visil.model.features import VideoFeatures

MOST_BYTES = 1 << 27
"""Of vectors that are kept in memory."""

READERS = 8
"""Threads that read features for a GPU."""

GPU_SHARE = 0.3
"""Of a GPU's memory that may hold vectors."""


class RecentFeatures:
    """Reads features, and keeps those read last where they are compared; as they are on disk at the first time."""

    def __init__(self, store: Features, device: torch.device) -> None:
        self._store = store
        self._device = device
        self._kept: OrderedDict[str, VideoFeatures] = OrderedDict()
        self._bytes = 0
        self._most = MOST_BYTES
        if device.type == "cuda":
            import torch

            self._most = int(GPU_SHARE * torch.cuda.get_device_properties(device).total_memory)

    def readable(self, videos: Iterable[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """See :meth:`Features.readable`."""
        wanted = list(videos)
        known = {video.id: self._kept[video.id] for video in wanted if video.id in self._kept}
        fresh = self._read([video for video in wanted if video.id not in known])
        following = next(fresh, None)
        for video in wanted:
            if video.id in known:
                if video.id in self._kept:
                    self._kept.move_to_end(video.id)
                yield video, known[video.id]
            elif following is not None and following[0].id == video.id:
                features = self._keep(video.id, following[1])
                following = next(fresh, None)
                yield video, features

    def _read(self, videos: Sequence[Video]) -> Iterator[tuple[Video, VideoFeatures]]:
        """Those that are readable; several at once for a GPU, where single copies are mostly waited for."""
        if self._device.type != "cuda" or len(videos) < 2:
            yield from self._store.readable(videos)
            return
        found = in_order(lambda video: self._placed(self._store.try_read(video)), videos, READERS)
        for video, features in zip(videos, found, strict=True):
            if features is not None:
                yield video, features

    def _placed(self, features: VideoFeatures | None) -> VideoFeatures | None:
        if features is None or self._device.type != "cuda":
            return features
        return replace(features, vectors=features.vectors.to(self._device))

    def try_read(self, video: Video) -> VideoFeatures | None:
        """See :meth:`Features.try_read`."""
        return next((features for _, features in self.readable([video])), None)

    def _keep(self, video: str, features: VideoFeatures) -> VideoFeatures:
        features = self._placed(features) or features
        self._kept[video] = features
        self._bytes += features.vectors.nbytes
        while self._bytes > self._most and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._bytes -= old.vectors.nbytes
        return features
