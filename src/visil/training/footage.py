"""Training videos as sampled frames, and the ways to hold them: in memory, remembered once read, a part of others.

Footage of video files: :mod:`visil.training.cached_footage`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

REMEMBERED = 4 << 30
"""Bytes of pictures kept in memory: about 8 hours at a frame a second."""


class Footage(Protocol):
    """Videos as frames of one size; whatever a trainer reads pictures from."""

    @property
    def names(self) -> Sequence[str]:
        """One a video: its path."""

    def __len__(self) -> int: ...

    def times(self, video: int) -> Tensor:
        """Seconds of each frame from the first: float64 [T], rising."""

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions, RGB uint8 [t, H, W, 3]; every video has the same H × W."""


class SomeFootage:
    """Some videos of other footage, numbered from 0."""

    def __init__(self, footage: Footage, videos: Sequence[int]) -> None:
        self._footage, self._videos = footage, list(videos)
        self.names = [footage.names[video] for video in videos]

    def __len__(self) -> int:
        return len(self._videos)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        return self._footage.times(self._videos[video])

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        return self._footage.images(self._videos[video], positions)


class JoinedFootage:
    """All videos of several footages, numbered one after the other; their frames have one size."""

    def __init__(self, parts: Sequence[Footage]) -> None:
        self._videos = [(part, video) for part in parts for video in range(len(part))]
        self.names = [part.names[video] for part, video in self._videos]

    def __len__(self) -> int:
        return len(self._videos)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        footage, own = self._videos[video]
        return footage.times(own)

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        footage, own = self._videos[video]
        return footage.images(own, positions)


class RememberedFootage:
    """Other footage, whose videos are read whole when first asked for and kept until ``room`` bytes are full."""

    def __init__(self, footage: Footage, room: int = REMEMBERED) -> None:
        self._footage = footage
        self._room = room
        self._kept: dict[int, Tensor] = {}
        self._lock = threading.Lock()
        self.names = list(footage.names)

    def __len__(self) -> int:
        return len(self._footage)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        return self._footage.times(video)

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        kept = self._kept.get(video)
        if kept is None:
            some = self._footage.images(video, positions)
            count = len(self.times(video))
            size = count * some[0].nbytes if len(some) else 0
            with self._lock:
                fits = 0 < size <= self._room
                self._room -= size if fits else 0
            if not fits:
                return some
            kept = self._footage.images(video, range(count))
            with self._lock:
                if video in self._kept:  # another thread was faster
                    self._room += size
                self._kept[video] = kept
        return kept[torch.as_tensor(list(positions), dtype=torch.long)]


def read_frames(footage: Footage, frames: Sequence[tuple[int, int]]) -> Tensor:
    """Frames named by (video, position), in order; each video is asked once."""
    wanted: dict[int, list[int]] = {}
    for video, position in frames:
        wanted.setdefault(video, []).append(position)
    if len(wanted) == 1:
        ((video, positions),) = wanted.items()
        return footage.images(video, positions)
    read = {video: iter(footage.images(video, positions)) for video, positions in wanted.items()}
    return torch.stack([next(read[video]) for video, _ in frames])
