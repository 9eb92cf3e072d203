"""Decoding in another process, so that a hostile file ends that process and nothing else."""

from __future__ import annotations

import json
import math
import os
import queue
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from visil.errors import IndexFolderError, VideoError
from visil.machine.processes import APART, environment, python
from visil.video import Frames, Sampling, VideoInfo
from visil.video.sound import Track
from visil.web.settings import GIB, Limits

T = TypeVar("T")

MOST_HEADER = 1 << 20
MOST_DATA = GIB
"""Of one answer: a batch of the largest frames is less."""
CLOCK = 3
"""Seconds on the clock allowed for each second of processor time: other work runs on the machine too."""
START_S = 60.0
"""Seconds until a new process must be ready; they do not count against the file."""

TIME_IS_UP: tuple[int, ...] = ()
"""How a process ends that the system has ended for the time it took; Windows ends none."""
if sys.platform != "win32":
    TIME_IS_UP = (-signal.SIGXCPU, -signal.SIGALRM)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads reserve address space, and the processor is wanted elsewhere."""

Image = NDArray[np.uint8]


class Decoder:
    """One such process, started when first needed and again after it was ended; one request at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._child: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    pipe.close()

    def kill(self) -> None:
        """Let another thread's request fail at once, also one that has yet to start its process."""
        self._ended = True
        child = self._child
        if child is not None:
            child.kill()

    def probe(self, path: Path) -> VideoInfo:
        """The facts of a video about itself; a :class:`VideoError` where it is none."""
        (info,) = self._picture_of(path, "probe", lambda header, _: _info(header))
        return info

    def picture(self, path: Path, times: Sequence[float], width: int, height: int) -> bytes:
        """The frames at some times side by side, as one JPEG."""
        size = {"times": list(times), "width": width, "height": height}
        (data,) = self._picture_of(path, "picture", lambda _, data: bytes(data), **size)
        return data

    def frames_at(self, path: str | os.PathLike[str], times: Sequence[float], height: int) -> list[Image]:
        """As :func:`visil.video.frames_at`."""

        def shot(header: dict[str, Any], data: bytearray) -> Image:
            return np.frombuffer(data, np.uint8).reshape(header["shape"])

        return self._picture_of(Path(path), "shots", shot, times=list(times), height=height)

    def samples_at(
        self, path: str | os.PathLike[str], times: Sequence[float], sampling: Sampling
    ) -> list[Image]:
        """As :func:`visil.video.samples_at`."""
        side = sampling.crop

        def sample(_: dict[str, Any], data: bytearray) -> Image:
            return np.frombuffer(data, np.uint8).reshape(side, side, 3)

        asked = {"times": list(times), "sampling": asdict(sampling)}
        found = list(self.answers(Path(path), "samples", self.limits.decode_query_s, sample, **asked))
        if len(found) != len(times):
            raise VideoError(path, "damaged: its decoder gave up on it")
        return found

    def sound(self, path: str) -> list[Track]:
        """As :func:`visil.video.sound.read_sound`."""

        def track(header: dict[str, Any], data: bytearray) -> Track:
            bands = np.frombuffer(data, np.float32).reshape(header["shape"])
            return Track(bands, str(header["codec"]), float(header["bits"]), int(header["channels"]))

        return list(self.answers(Path(path), "sound", self.limits.decode_query_s, track))

    def stream(self, path: Path, sampling: Sampling, seconds: float) -> DecodedStream:
        """As :func:`visil.video.stream_frames`; ``seconds`` are the processor's."""
        return DecodedStream(self, path, sampling, seconds)

    def _picture_of(
        self, path: Path, do: str, read: Callable[[dict[str, Any], bytearray], T], **more: object
    ) -> list[T]:
        return list(self.answers(path, do, self.limits.decode_picture_s, read, **more))

    def answers(
        self,
        path: Path,
        do: str,
        seconds: float,
        read: Callable[[dict[str, Any], bytearray], T],
        **more: object,
    ) -> Generator[T, None, None]:
        """The result of ``read`` on the answers to one request.

        A process that fails, talks nonsense or is too slow is ended, as is one whose answers are not all wanted.
        """
        idle = min(self.limits.decode_idle_s, CLOCK * seconds)
        request = {"do": do, "path": os.fspath(path), "seconds": seconds, "idle": idle, **more}
        with self._lock:
            well = False
            try:
                child = self._started()
                assert child.stdin is not None
                assert child.stdout is not None
                child.stdin.write(json.dumps(request).encode() + b"\n")
                left = CLOCK * seconds  # only waiting counts: what the answers are for takes its time
                while True:
                    asked = time.monotonic()
                    header, data = _answer(child.stdout, asked + min(idle, left))
                    left -= time.monotonic() - asked
                    if "error" in header:
                        well = True
                        raise VideoError(path, str(header["error"]))
                    if "end" in header:
                        well = True
                        return
                    yield read(header, data)
            except TimeoutError as error:
                raise VideoError(path, "takes too long to decode") from error
            except (OSError, ValueError, KeyError, TypeError, EOFError, struct.error) as error:
                slow = self._ended_by_time()
                reason = "takes too long to decode" if slow else "damaged: its decoder gave up on it"
                raise VideoError(path, reason) from error
            finally:
                if not well:
                    self.close()

    def _ended_by_time(self) -> bool:
        """Whether the process has been ended for the time it took."""
        if self._child is None:
            return False
        try:
            return self._child.wait(1) in TIME_IS_UP
        except subprocess.TimeoutExpired:
            return False

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                python("-m", "visil.web.decoder", str(self.limits.decode_memory)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=environment(ONE_THREAD),
                **APART,
            )
            if self._ended:  # said while the process was being started
                self._child.kill()
            assert self._child.stdout is not None
            _answer(self._child.stdout, time.monotonic() + START_S)
        return self._child


class Decoders:
    """The decoding processes of one ``add``, as many as are used at once; threads may share them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all: list[Decoder] = []
        self._killed = False
        self._idle: queue.SimpleQueue[Decoder] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for decoder in self._all:
            decoder.close()

    def kill(self) -> None:
        """End the whole run at once: no video is to blame for what becomes of it."""
        self._killed = True
        for decoder in list(self._all):
            decoder.kill()

    @contextmanager
    def stream(self, path: Path, sampling: Sampling) -> Iterator[DecodedStream]:
        """A video that is added, decoded in one of them."""
        try:
            decoder = self._idle.get_nowait()
        except queue.Empty:
            decoder = Decoder(self.limits)
            self._all.append(decoder)
        try:
            with decoder.stream(path, sampling, self.limits.decode_add_s) as stream:
                yield stream
        except VideoError:
            if self._killed:
                raise IndexFolderError(path.parent, "adding it was stopped") from None
            raise
        finally:
            self._idle.put(decoder)


class DecodedStream:
    """A video that is decoded elsewhere: as :class:`visil.video.FrameStream`."""

    def __init__(self, decoder: Decoder, path: Path, sampling: Sampling, seconds: float) -> None:
        self.duration = 0.0
        self.damaged = 0
        self._side = sampling.crop
        self._batches = decoder.answers(path, "frames", seconds, self._read, sampling=asdict(sampling))
        next(self._batches, None)  # sets ``info`` or fails
        if not hasattr(self, "info"):
            raise VideoError(path, "damaged: its decoder gave up on it")

    info: VideoInfo

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._batches.close()

    def __iter__(self) -> Iterator[Frames]:
        for frames in self._batches:
            if frames is not None and len(frames):
                yield frames

    def _read(self, header: dict[str, Any], data: bytearray) -> Frames | None:
        if "info" in header:
            self.info = _info(header)
            return None
        self.duration, self.damaged = float(header["duration"]), int(header["damaged"])
        times = np.array(header["times"], np.float64)
        if not (math.isfinite(self.duration) and np.isfinite(times).all()):
            raise ValueError("times that are no numbers")
        images = np.frombuffer(data, np.uint8).reshape(len(times), self._side, self._side, 3)
        return Frames(images, times)


def _info(header: dict[str, Any]) -> VideoInfo:
    """The facts of a file as a decoder tells them, which nobody vouches for either."""
    told = header["info"]
    return VideoInfo(
        path=str(told["path"]),
        width=int(told["width"]),
        height=int(told["height"]),
        duration=None if told["duration"] is None else float(told["duration"]),
        fps=None if told["fps"] is None else float(told["fps"]),
        codec=str(told["codec"]),
        container=str(told["container"]),
        bit_rate=None if told["bit_rate"] is None else int(told["bit_rate"]),
        has_audio=bool(told["has_audio"]),
        videos=int(told["videos"]),
        sounds=int(told["sounds"]),
        subtitles=int(told["subtitles"]),
        chapters=int(told["chapters"]),
        attachments=int(told["attachments"]),
        depth=int(told["depth"]),
        chroma=float(told["chroma"]),
        transparent=bool(told["transparent"]),
        interlaced=bool(told["interlaced"]),
        hdr=bool(told["hdr"]),
    )


def _answer(pipe: IO[bytes], until: float) -> tuple[dict[str, Any], bytearray]:
    (length,) = struct.unpack("!I", exactly(pipe, 4, until))
    if length > MOST_HEADER:
        raise ValueError(length)
    header = json.loads(exactly(pipe, length, until))
    if not 0 <= header["bytes"] <= MOST_DATA:
        raise ValueError(header["bytes"])
    return header, exactly(pipe, header["bytes"], until)


def exactly(pipe: IO[bytes], count: int, until: float) -> bytearray:
    """So many bytes; EOFError where the process was ended, TimeoutError where they do not come in time."""
    data = bytearray(count)
    view, done = memoryview(data), 0
    read_some = _some_in_thread if sys.platform == "win32" else _some_when_ready
    while done < count:
        read = read_some(pipe, view[done:], max(0.0, until - time.monotonic()))
        if read == 0:
            raise EOFError
        done += read
    return data


def _some_when_ready(pipe: IO[bytes], into: memoryview, seconds: float) -> int:
    if sys.platform == "win32":
        raise NotImplementedError
    waiting = select.poll()  # select() itself cannot watch files of high numbers
    waiting.register(pipe, select.POLLIN)
    if not waiting.poll(seconds * 1e3):
        raise TimeoutError
    return os.readv(pipe.fileno(), [into])


def _some_in_thread(pipe: IO[bytes], into: memoryview, seconds: float) -> int:
    """Where pipes cannot be watched; a read that took too long ends with the process, which is then ended."""
    done: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=lambda: done.put(os.read(pipe.fileno(), len(into))), daemon=True).start()
    try:
        data = done.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    into[: len(data)] = data
    return len(data)
