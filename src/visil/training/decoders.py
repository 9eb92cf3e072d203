"""Processes that decode videos for training and store their frames, one for each thread that asks.

Of threads in one process sixteen read no faster than two: around every packet and every picture there is some Python.
Fewer, or a few videos, are not worth a process that takes half a second to start.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.collection.identity import Stamp
from visil.errors import VideoError, VisilError
from visil.processes import Workers, WorkersError, available, quick
from visil.training.stored_frames import write_frames
from visil.video import Sampling

THREADS = 2
"""So many at once are as fast as processes."""


@dataclass(frozen=True)
class Decoding:
    """:class:`visil.processes.Service`: hears of a video and where its frames go, tells their times or what failed."""

    sampling: Sampling

    def prepare(self) -> None:
        """Load what the first video would load in each of them."""
        import av  # noqa: F401
        import PIL.JpegImagePlugin  # noqa: F401
        import safetensors.numpy  # noqa: F401

    def __call__(self, connection: Connection) -> None:
        """See :class:`visil.processes.Service`."""
        while True:
            video, stored, stamp = connection.recv()
            try:
                answer: object = write_frames(video, stored, self.sampling, stamp)
            except VisilError as error:
                answer = error
            except (
                Exception
            ) as error:  # whatever else a hostile file sets off must not end the work on the others
                answer = VideoError(video, f"could not be read ({type(error).__name__}: {error})")
            connection.send(answer)


class Decoders:
    """Up to ``count`` at once, for ``videos`` in all. To be closed, as a context manager."""

    def __init__(self, sampling: Sampling, count: int, videos: int) -> None:
        self._sampling = sampling
        self._idle: list[Connection] = []
        worth_it, at_once = min(count, videos) > THREADS and available(), quick()
        self._workers = Workers(Decoding(sampling)) if worth_it else None
        if self._workers is not None and at_once:
            self._workers.ready.wait()

    def __enter__(self) -> Decoders:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._idle:
            connection.close()
        if self._workers is not None:
            self._workers.close()

    def decode(self, video: Path, stored: Path, stamp: Stamp) -> NDArray[np.float64]:
        """Store a video's frames, and tell their times; in this thread until there are processes for it."""
        connection = self._connection()
        if connection is None:
            return write_frames(video, stored, self._sampling, stamp)
        try:
            connection.send((video, stored, stamp))
            answer: NDArray[np.float64] | VisilError = connection.recv()
        except (EOFError, OSError) as error:
            connection.close()
            reason = "ended the process that read it: damaged, or too large for the memory"
            raise VideoError(video, reason) from error
        self._idle.append(connection)
        if isinstance(answer, VisilError):
            raise answer
        return answer

    def _connection(self) -> Connection | None:
        """To a process that has nothing to do; None where there is none and none can be had now."""
        workers = self._workers
        if workers is None or not workers.ready.is_set():
            return None
        with suppress(IndexError):
            return self._idle.pop()
        with suppress(WorkersError):
            return workers.fork()
        return None
