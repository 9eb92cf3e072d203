"""Footage that stays in memory once it was read, as far as it fits."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from visil.training.footage import Footage

BYTES = 4 << 30
"""Of pictures kept: about 8 hours at a frame a second."""


class RememberedFootage:
    """Other footage, whose videos are read whole when first asked for and kept until ``room`` bytes are full."""

    def __init__(self, footage: Footage, room: int = BYTES) -> None:
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
