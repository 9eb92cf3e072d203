"""Footage of video files: decoded once, kept on disk as JPEG, read back frame by frame.

A video's frames are one safetensors file, named by what the video holds and how it was sampled: ``times`` float64 [T],
``ends`` int64 [T] and ``jpeg`` uint8, in which frame k is the bytes from ``ends[k-1]`` to ``ends[k]``. A second run, or
one on a collection that was moved or renamed, finds the files and decodes nothing.
"""

from __future__ import annotations

import io
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
from visil.errors import FileError, UsageError, VideoError, printable
from visil.files import make_folder, replacing
from visil.processes import usable_cores
from visil.progress import Counted
from visil.video import Sampling, stream_frames

QUALITY = 90
"""Of the JPEGs; about 15 kB for a frame of 224 pixels."""

FORMAT = 1
"""Part of every file's name; raised when what is in the files changes."""

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
        with ThreadPoolExecutor(workers or usable_cores(), "visil-footage") as pool:
            self._read(pool, files, reported)

    def _read(self, pool: ThreadPoolExecutor, files: list[Path], reported: _Reported) -> None:
        failed: dict[Path, str] = {}
        first: dict[str, Path] = {}
        hashed = dict(_results(pool, lambda file: _or_reason(lambda: _identify(file)), files))
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
        stored = {file: self.cache / _file_name(content, self.sampling) for content, file in first.items()}

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
        return _read_frames(self._files[video], positions, self.sampling.crop)

    def _prepare(self, video: Path, stored: Path, stamp: Stamp) -> tuple[bool, Tensor]:
        """Times of a video's frames, and whether it had to be decoded for them."""
        times = _stored_times(stored)
        if times is not None:
            return False, times
        return True, _write_frames(video, stored, self.sampling, stamp)


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


# ---------------------------------------------------------------------- files


def _file_name(content: str, sampling: Sampling) -> str:
    """What the file is called that holds a video of this content, sampled so."""
    size = f"{sampling.resize}-{sampling.crop}-{sampling.fit}"
    how = f"{float(sampling.fps)!r}fps-{size}-{sampling.mode}-q{QUALITY}-v{FORMAT}"
    return f"{content}-{how}.safetensors"


def _identify(path: Path) -> tuple[str, Stamp]:
    """Hash of a video's bytes, and what tells that it has not changed since."""
    stamp = stamp_of(path)
    return content_id(path), stamp


def _write_frames(video: Path, stored: Path, sampling: Sampling, stamp: Stamp) -> Tensor:
    """Write the frames of a video to ``stored``; returns their times. ``stamp`` is from before it was hashed."""
    from PIL import Image
    from safetensors import SafetensorError
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
    with replacing(stored) as fresh:
        try:
            save_file({"times": seconds, "ends": np.array(ends, np.int64), "jpeg": data}, fresh)
        except SafetensorError as error:  # a full disk, which is not the video's fault
            raise OSError(None, str(error)) from error
    return torch.from_numpy(seconds)


def _stored_times(stored: Path) -> Tensor | None:
    """Times of the frames in a cache file; None where there is no such file or it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(stored, "np") as opened:
            times, ends = opened.get_tensor("times"), opened.get_tensor("ends")
            size = opened.get_slice("jpeg").get_shape()[0]
    except (OSError, SafetensorError):
        return None
    whole = len(times) == len(ends) > 0 and bool((np.diff(ends, prepend=0) > 0).all()) and ends[-1] == size
    return torch.from_numpy(times) if whole else None


def _read_frames(stored: Path, positions: Sequence[int], side: int) -> Tensor:
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
    return torch.from_numpy(pictures[back])
