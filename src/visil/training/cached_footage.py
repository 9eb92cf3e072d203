"""Footage of video files: decoded once, kept on disk as JPEG, read back frame by frame.

A video's frames are one file (:mod:`visil.training.stored_frames`), named by what the video holds and how it was
sampled. A second run, or one on a collection that was moved or renamed, finds the files and decodes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.collection.identity import Stamp, content_id, stamp_of
from visil.errors import UsageError, VideoError, printable
from visil.files import make_folder
from visil.machine.processor import usable_cores
from visil.progress import Counted
from visil.training.stored_frames import Decoders, file_name, read_frames, stored_times
from visil.video import Sampling

AnyPath = str | os.PathLike[str]
Result = TypeVar("Result")


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
        progress: Counted | None = None,
    ) -> None:
        from visil.collection.discover import discover

        self.sampling = sampling or Sampling()
        self.cache = make_folder(cache, "the cache of footage")
        if workers is not None and workers < 1:
            raise UsageError(f"workers must be at least 1, not {workers}")
        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        files = list(discover(given))
        reported = _Reported(len(files), progress)
        self.names, self.failed, self.copies, self.decoded = [], [], [], 0
        self._files: list[Path] = []
        self._times: list[Tensor] = []
        self._read(workers or usable_cores(), files, reported)

    def _read(self, workers: int, files: list[Path], reported: _Reported) -> None:
        failed: dict[Path, str] = {}
        first: dict[str, Path] = {}
        hashed = dict(_results(workers, lambda file: _or_reason(lambda: _identify(file)), files))
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
        stored = {file: self.cache / file_name(content, self.sampling) for content, file in first.items()}

        held = dict(_results(workers, lambda file: stored_times(stored[file]), stored))
        times: dict[Path, NDArray[np.float64] | _Reason] = {}
        for file, seconds in held.items():
            if seconds is not None:
                times[file] = seconds
                reported(file)
        left = sorted((file for file in stored if file not in times), key=lambda file: -stamps[file].size)
        with Decoders(self.sampling, workers, len(left)) as decoders:

            def decode(file: Path) -> NDArray[np.float64] | _Reason:
                try:
                    return _or_reason(lambda: decoders.decode(file, stored[file], stamps[file]))
                finally:
                    reported(file)

            times |= _results(
                workers, decode, left
            )  # the largest first, or one may be begun when all others are done
        for file in files:
            outcome = times.get(file, failed.get(file))
            if isinstance(outcome, str):
                self.failed.append((os.fspath(file), outcome))
            elif outcome is not None:
                self.names.append(os.fspath(file))
                self._files.append(stored[file])
                self._times.append(torch.from_numpy(outcome))
                self.decoded += held[file] is None

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
        return torch.from_numpy(read_frames(self._files[video], positions, self.sampling.crop))


class _Reason(str):
    """Why a video is left out."""


def _or_reason(work: Callable[[], Result]) -> Result | _Reason:
    """The result of ``work``, or the fault of the video; a cache that cannot be written to is no fault of it."""
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

    def __init__(self, total: int, progress: Counted | None) -> None:
        self._total, self._progress = total, progress
        self._done = 0
        self._lock = threading.Lock()

    def __call__(self, path: Path) -> None:
        with self._lock:
            self._done += 1
            if self._progress is not None:
                self._progress(self._done, self._total, os.fspath(path))


def _results(
    threads: int, work: Callable[[Path], Result], items: Iterable[Path]
) -> Iterator[tuple[Path, Result]]:
    """Each item with the result of ``work``; the first error, or an interrupt, drops items not yet begun."""
    with ThreadPoolExecutor(threads, "visil-footage") as pool:
        waiting = {pool.submit(work, item): item for item in items}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            for future in waiting:
                future.cancel()


def _identify(path: Path) -> tuple[str, Stamp]:
    """Hash of a video's bytes, and what tells that it has not changed since."""
    stamp = stamp_of(path)
    return content_id(path), stamp
