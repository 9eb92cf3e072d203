"""Several videos as one: their frames side by side, for few large products instead of many small ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from torch import Tensor


class Joined:
    """Videos [T, R, C] one after another, never copied whole."""

    def __init__(self, videos: Sequence[Tensor]) -> None:
        self.videos = videos
        self.ends = list(accumulate(len(video) for video in videos))
        self.shape = (self.ends[-1], *videos[0].shape[1:])

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where each video begins and ends."""
        return list(pairwise([0, *self.ends]))

    def pieces(self, start: int, stop: int) -> list[Tensor]:
        """Frames from ``start`` to before ``stop``, as views of the videos they belong to."""
        first = bisect_right(self.ends, start)
        found = []
        for video, end in zip(self.videos[first:], self.ends[first:], strict=True):
            begin = end - len(video)
            found.append(video[max(start - begin, 0) : stop - begin])
            if end >= stop:
                break
        return found
