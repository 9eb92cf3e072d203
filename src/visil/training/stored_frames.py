"""Frames of a video as JPEG in one safetensors file: written from the video, by processes for it where there are many,
checked, read back; without torch.

``times`` float64 [T], ``ends`` int64 [T] and ``jpeg`` uint8, in which frame k is the bytes from ``ends[k-1]`` to
``ends[k]``. The file is named by what the video holds and how it was sampled.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.collection.identity import Stamp, stamp_of
from visil.errors import FileError, VideoError, VisilError
from visil.files import replacing_tensors
from visil.machine.processes import Workers, WorkersError, available, quick
from visil.video import Sampling, stream_frames

QUALITY = 90
"""Of the JPEGs; about 15 kB for a frame of 224 pixels."""

FORMAT = 1
"""Part of every file's name; raised when the content of the files changes."""


def file_name(content: str, sampling: Sampling) -> str:
    """The name of the file for a video of this content, sampled so."""
    size = f"{sampling.resize}-{sampling.crop}-{sampling.fit}"
    how = f"{float(sampling.fps)!r}fps-{size}-{sampling.mode}-q{QUALITY}-v{FORMAT}"
    return f"{content}-{how}.safetensors"


def write_frames(video: Path, stored: Path, sampling: Sampling, stamp: Stamp) -> NDArray[np.float64]:
    """Write the frames of a video to ``stored``; returns their times. ``stamp`` is from before it was hashed."""
    from PIL import Image
    from safetensors.numpy import save_file

    jpeg = io.BytesIO()
    ends: list[int] = []
    times: list[NDArray[np.float64]] = []
    with stream_frames(video, sampling) as stream:
        for batch in stream:
            for picture in batch.images:
                Image.fromarray(picture).save(jpeg, "JPEG", quality=QUALITY)
                ends.append(jpeg.tell())
            times.append(batch.timestamps)
    if not ends:
        raise VideoError(video, "no frame could be decoded")
    if stamp_of(video) != stamp:
        raise VideoError(video, "changed while it was read; start again when it is whole")
    seconds = np.concatenate(times)
    data = np.frombuffer(jpeg.getbuffer(), np.uint8)
    with replacing_tensors(stored) as fresh:
        save_file({"times": seconds, "ends": np.array(ends, np.int64), "jpeg": data}, fresh)
    return seconds


def stored_times(stored: Path) -> NDArray[np.float64] | None:
    """Times of the frames in a cache file; None where there is no such file or it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(stored, "np") as opened:
            times, ends = opened.get_tensor("times"), opened.get_tensor("ends")
            size = opened.get_slice("jpeg").get_shape()[0]
    except (OSError, SafetensorError):
        return None
    whole = len(times) == len(ends) > 0 and bool((np.diff(ends, prepend=0) > 0).all()) and ends[-1] == size
    return times if whole else None


def read_frames(stored: Path, positions: Sequence[int], side: int) -> NDArray[np.uint8]:
    """Some frames of a cache file, uint8 [t, side, side, 3]; one that is asked for twice is decoded once."""
    from PIL import Image
    from safetensors import SafetensorError, safe_open

    distinct, back = np.unique(np.asarray(positions, np.int64), return_inverse=True)
    pictures = np.empty((len(distinct), side, side, 3), np.uint8)
    try:
        with safe_open(stored, "np") as opened:
            starts = np.concatenate([[0], opened.get_tensor("ends")])
            jpeg = opened.get_slice("jpeg")
            for slot, position in zip(pictures, distinct, strict=True):
                data = jpeg[int(starts[position]) : int(starts[position + 1])].tobytes()
                slot[...] = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except (OSError, SafetensorError, ValueError, IndexError) as error:
        raise FileError(stored, "was removed or damaged meanwhile; start again to decode it anew") from error
    return pictures[back]


THREADS = 2
"""So many at once are as fast as processes."""


@dataclass(frozen=True)
class Decoding:
    """A :class:`visil.machine.processes.Service`: takes a video, writes its frames, tells their times or a failure."""

    sampling: Sampling

    def prepare(self) -> None:
        """Load what the first video would load in each of them."""
        import av  # noqa: F401
        import PIL.JpegImagePlugin  # noqa: F401
        import safetensors.numpy  # noqa: F401

    def __call__(self, connection: Connection) -> None:
        """See :class:`visil.machine.processes.Service`."""
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
    """Processes that store videos' frames, up to ``count`` at once, for ``videos`` in all; a context manager.

    Of threads in one process sixteen read no faster than two: around every packet and every picture there is some
    Python. Fewer, or a few videos, are not worth a process that takes half a second to start.
    """

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
