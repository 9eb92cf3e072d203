"""Decoding in another process, so that a hostile file ends that process and nothing else."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from visil.errors import VideoError
from visil.video import Sampling
from visil.web.settings import GIB, Limits

MOST_HEADER = 1 << 20
MOST_DATA = GIB
"""Of one answer: a batch of the largest frames is less."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Threads reserve address space, and the processor is wanted elsewhere."""


@dataclass(frozen=True)
class Facts:
    """What a video says about itself."""

    width: int
    height: int
    duration: float | None
    codec: str


class Decoder:
    """One such process, started when first needed and again after it was ended; one request at a time."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            for pipe in (self._child.stdin, self._child.stdout):
                if pipe is not None:
                    pipe.close()
            self._child = None

    def probe(self, path: Path) -> Facts:
        """What a video says about itself; a :class:`VideoError` where it is none."""
        with self._asked(path, "probe", self.limits.decode_picture_s) as answers:
            header, _ = next(answers)
            return Facts(
                int(header["width"]), int(header["height"]), header["duration"], str(header["codec"])
            )

    def picture(self, path: Path, times: Sequence[float], width: int, height: int) -> bytes:
        """The frames at some times side by side, as one JPEG."""
        with self._asked(
            path,
            "picture",
            self.limits.decode_picture_s,
            times=list(times),
            width=width,
            height=height,
        ) as answers:
            return next(answers)[1]

    def frame(self, path: Path, time: float, height: int) -> NDArray[np.uint8]:
        """The frame at a time, RGB [H, W, 3]."""
        with self._asked(path, "raw", self.limits.decode_picture_s, time=time, height=height) as answers:
            header, data = next(answers)
            return np.frombuffer(data, np.uint8).reshape(header["shape"])

    def frames(
        self, path: Path, sampling: Sampling
    ) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.float64], float | None]]:
        """Batches of sampled frames with their times; the third is how many frames there may be in all.

        At last an empty batch, whose third is the duration.
        """
        with self._asked(path, "frames", self.limits.decode_query_s, sampling=asdict(sampling)) as answers:
            expected: float | None = None
            for header, data in answers:
                if "expected" in header:
                    expected = header["expected"]
                    continue
                times = np.array(header.get("times", []), np.float64)
                side = int(header.get("side", 1))
                images = np.frombuffer(data, np.uint8).reshape(len(times), side, side, 3)
                if "duration" in header:
                    yield images, times, float(header["duration"])
                    return
                yield images, times, expected

    @contextmanager
    def _asked(
        self, path: Path, do: str, seconds: float, **more: object
    ) -> Iterator[Iterator[tuple[dict[str, Any], bytes]]]:
        """The answers to one request; a process that fails or is too slow is ended, as is one left half-read."""
        with self._lock:
            child = self._started()
            assert child.stdin is not None
            assert child.stdout is not None
            slow = threading.Event()

            def end() -> None:
                slow.set()
                child.kill()

            timer = threading.Timer(3 * seconds, end)
            timer.daemon = True
            timer.start()
            request = {"do": do, "path": os.fspath(path), "seconds": seconds, **more}
            try:
                child.stdin.write(json.dumps(request).encode() + b"\n")
                child.stdin.flush()
                yield _answers(child.stdout, path)
            except VideoError as error:
                if not isinstance(error, _Refused):
                    self.close()
                    raise
                raise VideoError(path, error.reason) from error
            except (OSError, ValueError, KeyError, TypeError, EOFError, struct.error) as error:
                self.close()
                reason = "takes too long to decode" if slow.is_set() else "damaged: its decoder gave up on it"
                raise VideoError(path, reason) from error
            except BaseException:
                self.close()
                raise
            finally:
                timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self.close()
            self._child = subprocess.Popen(
                [sys.executable, "-m", "visil.web.decoder", str(self.limits.decode_memory)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the server, which ends its children itself
                env=os.environ | ONE_THREAD,
            )
        return self._child


class _Refused(VideoError):
    """The decoder itself says why a file cannot be read: it is well."""


def _answers(pipe: IO[bytes], path: Path) -> Iterator[tuple[dict[str, Any], bytes]]:
    while True:
        (length,) = struct.unpack("!I", _exactly(pipe, 4))
        if length > MOST_HEADER:
            raise ValueError(length)
        header = json.loads(_exactly(pipe, length))
        if "error" in header:
            raise _Refused(path, str(header["error"]))
        if not 0 <= header["bytes"] <= MOST_DATA:
            raise ValueError(header["bytes"])
        yield header, _exactly(pipe, header["bytes"])


def _exactly(pipe: IO[bytes], count: int) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise EOFError  # the process was ended
    return data
