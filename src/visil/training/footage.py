"""Training videos as sampled frames: decoded once, kept on disk, read back frame by frame."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError, VideoError, printable
from visil.training import frame_cache
from visil.video import Sampling

if TYPE_CHECKING:
    from visil.collection.identity import Stamp

AnyPath = str | os.PathLike[str]
Progress = Callable[[int, int, str], None]
"""Called with the videos done, the videos there are, and the path of the one just done."""

Result = TypeVar("Result")


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


class ArrayFootage:
    """Footage that lies in memory already: a uint8 [T, H, W, 3] array a video."""

    def __init__(
        self,
        videos: Sequence[NDArray[np.uint8] | Tensor],
        times: Sequence[Sequence[float] | Tensor] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._videos = [torch.as_tensor(video) for video in videos]
        for video in self._videos:
            if video.dtype != torch.uint8 or video.ndim != 4 or video.shape[-1] != 3 or 0 in video.shape:
                raise UsageError(f"a video must be uint8 [T, H, W, 3], got {video.dtype} {list(video.shape)}")
            if video.shape[1:] != self._videos[0].shape[1:]:
                raise UsageError("all videos must have frames of one size")
        given = times if times is not None else [range(len(video)) for video in self._videos]
        self._times = [torch.as_tensor(t, dtype=torch.float64) for t in given]
        self.names = list(names) if names is not None else [f"video {i}" for i in range(len(self._videos))]
        if not len(self._videos) == len(self._times) == len(self.names):
            raise UsageError("videos, times and names must be as many")
        for video, seconds in zip(self._videos, self._times, strict=True):
            if len(video) != len(seconds):
                raise UsageError(f"a video of {len(video)} frames was given {len(seconds)} times")

    def __len__(self) -> int:
        return len(self._videos)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        return self._times[video]

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        return self._videos[video][torch.as_tensor(positions, dtype=torch.long)]


class CachedFootage:
    """Footage of video files: ``paths`` are files and folders, read as ``visil add`` reads them.

    What is not yet in the folder ``cache`` is decoded first, several videos at a time. Videos keep the order in which
    they are found. Two files of the same bytes are one video, under the first one's name.
    """

    names: list[str]
    failed: list[tuple[str, str]]
    """Videos left out, each with the reason."""
    copies: list[tuple[str, str]]
    """Files that hold the same bytes as an earlier one: (copy, the earlier one)."""
    decoded: int
    """Videos that had to be decoded; the others were in the cache."""

    def __init__(
        self,
        paths: AnyPath | Iterable[AnyPath],
        cache: AnyPath,
        sampling: Sampling | None = None,
        *,
        workers: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        from visil.collection.discover import discover

        self.sampling = sampling or Sampling()
        self.cache = _folder(cache)
        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        files = list(discover(given))
        reported = _Reported(len(files), progress)
        self.names, self.failed, self.copies, self.decoded = [], [], [], 0
        self._files: list[Path] = []
        self._times: list[Tensor] = []
        with ThreadPoolExecutor(workers or _workers(), "visil-footage") as pool:
            self._read(pool, files, reported)

    def _read(self, pool: ThreadPoolExecutor, files: list[Path], reported: _Reported) -> None:
        failed: dict[Path, str] = {}
        first: dict[str, Path] = {}
        hashed = dict(_results(pool, lambda file: _or_reason(lambda: frame_cache.identify(file)), files))
        stamps: dict[Path, Stamp] = {}
        for file in files:
            known = hashed[file]
            if isinstance(known, _Reason):
                failed[file] = known
                reported(file)
                continue
            content, stamps[file] = known
            if content in first:
                reported(file)
                self.copies.append((os.fspath(file), os.fspath(first[content])))
            else:
                first[content] = file
        stored = {
            file: self.cache / frame_cache.name(content, self.sampling) for content, file in first.items()
        }

        def prepare(file: Path) -> tuple[bool, Tensor] | _Reason:
            try:
                return _or_reason(lambda: self._prepare(file, stored[file], stamps[file]))
            finally:
                reported(file)

        ready = dict(_results(pool, prepare, stored))
        for file in files:
            outcome = ready.get(file, failed.get(file))
            if isinstance(outcome, str):
                self.failed.append((os.fspath(file), outcome))
            elif outcome is not None:
                fresh, times = outcome
                self.decoded += fresh
                self.names.append(os.fspath(file))
                self._files.append(stored[file])
                self._times.append(times)

    def __len__(self) -> int:
        return len(self.names)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame from the first: float64 [T]."""
        return self._times[video]

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions, RGB uint8 [t, crop, crop, 3]: read and decoded now, nothing is kept."""
        count = len(self._times[video])
        if any(not 0 <= position < count for position in positions):
            raise UsageError(f"{printable(self.names[video])}: has frames 0 to {count - 1} only")
        return frame_cache.read(self._files[video], positions, self.sampling.crop)

    def _prepare(self, video: Path, stored: Path, stamp: Stamp) -> tuple[bool, Tensor]:
        """Times of a video's frames, and whether it had to be decoded for them."""
        times = frame_cache.stored_times(stored)
        if times is not None:
            return False, times
        return True, frame_cache.write(video, stored, self.sampling, stamp)


class _Reason(str):
    """Why a video is left out."""


def _or_reason(work: Callable[[], Result]) -> Result | _Reason:
    """What ``work`` gives, or what is wrong with the video; a cache that cannot be written to is no fault of it."""
    try:
        return work()
    except VideoError as error:
        return _Reason(error.reason)
    except UsageError:
        raise
    except Exception as error:  # whatever else a hostile file sets off must not end the work on the others
        return _Reason(f"could not be read ({type(error).__name__}: {error})")


class _Reported:
    """Counts videos done, from any thread, and tells."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress = total, progress
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> None:
        with self._lock:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total, os.fspath(path))


def _results(
    pool: ThreadPoolExecutor, work: Callable[[Path], Result], items: Iterable[Path]
) -> Iterator[tuple[Path, Result]]:
    """Each item with what ``work`` gives for it; the first error, or an interrupt, drops what has not begun."""
    waiting = {pool.submit(work, item): item for item in items}
    try:
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    finally:
        for future in waiting:
            future.cancel()


def _workers() -> int:
    return max(1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _folder(path: AnyPath) -> Path:
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"{printable(os.fspath(path))}: cannot be made the cache of footage: {reason}"
        ) from error
    return folder
