"""Frames that cross from a process that decodes to the one that embeds: in memory that both have.

Each worker has a few slots, each with room for one batch. It fills a free one and says so; the other side embeds what
is in it, on a GPU straight from there, and gives it back.
"""

from __future__ import annotations

import mmap
import os
import sys
from contextlib import suppress
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

SLOTS = 4
"""Batches of a worker that may wait: one is being filled, the others hide how long embedding takes."""


class SharedFrames:
    """Slots [slots, frames, side, side, 3] of bytes, in a file without a name that ``handle`` is open on."""

    def __init__(self, handle: int, shape: tuple[int, int, int, int, int], *, pin: bool = False) -> None:
        self.handle = handle
        self.shape = shape
        self._memory = mmap.mmap(handle, int(np.prod(shape)))
        self.slots: NDArray[np.uint8] = np.frombuffer(self._memory, np.uint8).reshape(shape)
        self._pinned = False
        if pin:  # where that is refused, the GPU's driver copies once more
            registered = torch.cuda.cudart().cudaHostRegister(self.slots.ctypes.data, self.slots.nbytes, 0)
            self._pinned = int(registered) == 0

    @classmethod
    def make(cls, frames: int, side: int, *, slots: int = SLOTS, pin: bool = False) -> Self:
        """New slots for batches of ``frames``; ``pin``: in memory that a GPU reads by itself."""
        if sys.platform != "linux":
            raise NotImplementedError("memory is shared with worker processes, which Linux alone has")
        shape = (slots, frames, side, side, 3)
        handle = os.memfd_create("visil-frames")
        os.ftruncate(handle, int(np.prod(shape)))
        return cls(handle, shape, pin=pin)

    def close(self) -> None:
        """Let go of the memory."""
        if self._pinned:
            torch.cuda.cudart().cudaHostUnregister(self.slots.ctypes.data)
        del self.slots
        with suppress(BufferError):  # somebody still looks at frames: it goes when they do not
            self._memory.close()
        os.close(self.handle)
