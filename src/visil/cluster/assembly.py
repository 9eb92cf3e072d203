"""One video's features put together from pieces that come in any order, some of them twice."""

from __future__ import annotations

import pickle
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from visil.cluster.ray_work import Ended
from visil.collection.store import FeatureWriter
from visil.video import VideoInfo

Piece = tuple[NDArray[np.float16], NDArray[np.float64], NDArray[np.bool_]]
"""Vectors, timestamps, which are blank."""


class Assembly:
    """Writes the piece that is next at once; others wait in a nameless file in ``folder``, not in memory."""

    def __init__(self, writer: FeatureWriter, parts: int, folder: Path | None) -> None:
        self.writer = writer
        self.parts = parts
        self.ends: dict[int, Ended] = {}
        self._folder = folder
        self._next = 0
        self._waiting: dict[int, tuple[int, int]] = {}
        self._spool: IO[bytes] | None = None

    def add(self, start: int, piece: Piece) -> int:
        """A piece that begins at sample ``start``. Returns how many frames of it are new."""
        if start < self._next or start in self._waiting:
            return 0
        if start > self._next:
            self._put_aside(start, piece)
        else:
            self._append(piece)
            while self._next in self._waiting:
                self._append(self._taken(self._next))
        return len(piece[1])

    def end(self, ended: Ended) -> None:
        """A part has told where it ends."""
        self.ends.setdefault(ended.part, ended)

    @property
    def complete(self) -> bool:
        """Whether every piece of every part is written."""
        return len(self.ends) == self.parts and self._next == self.ends[self.parts - 1].samples

    def joined(self) -> bool:
        """Whether the parts meet: each knows what the next begins with."""
        joints = [self.ends[part].joint for part in range(self.parts)]
        return all(a is not None and b is not None and a.tail == b.head for a, b in pairwise(joints))

    def facts(self) -> tuple[VideoInfo | None, float, int]:
        """What the file says about itself, the duration, and how many packets were damaged."""
        last = self.ends[self.parts - 1]
        return self.ends[0].info, last.duration, last.damaged

    def discard(self) -> None:
        """Forget everything."""
        self.writer.discard()
        self.close()

    def close(self) -> None:
        """Let go of what was put aside."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _append(self, piece: Piece) -> None:
        vectors, timestamps, blank = piece
        self.writer.append(torch.from_numpy(vectors.copy()), timestamps, torch.from_numpy(blank.copy()))
        self._next += len(timestamps)

    def _put_aside(self, start: int, piece: Piece) -> None:
        if self._spool is None:
            folder = self._folder if self._folder is not None and self._folder.is_dir() else None
            self._spool = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open until the video is whole
        data = pickle.dumps(piece, protocol=5)
        self._waiting[start] = (self._spool.seek(0, 2), len(data))
        self._spool.write(data)

    def _taken(self, start: int) -> Piece:
        assert self._spool is not None
        place, size = self._waiting.pop(start)
        self._spool.seek(place)
        piece: Piece = pickle.loads(self._spool.read(size))
        return piece
