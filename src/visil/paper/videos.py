"""The videos that tables are made on: the built-in benchmark of a folder, or a data set's own; ids in, frames out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.collection.discover import discover
from visil.compare.visil import BATCH
from visil.edits.clips import Heavy, Mild, PaperPositive, PictureTransform
from visil.errors import FileError, UsageError, VideoError, os_reason
from visil.evaluation.annotations import sha256_of
from visil.evaluation.benchmark import Benchmark
from visil.evaluation.evaluate import Task
from visil.evaluation.videos import PATTERN, files_of
from visil.paper.built_in import Copy, Edit, Plan, plan
from visil.paper.feature_kinds import batched
from visil.progress import Counted
from visil.training.cached_footage import CachedFootage
from visil.training.footage import read_frames
from visil.video import Frames, Sampling, probe, samples_at, stream_frames

MOVING_FPS = 25.0
"""Frames a second that I3D was trained on, and is fed with: those of Carreira and Zisserman (Sec. 2.5 there)."""

RECIPES: dict[Edit, Callable[[], PictureTransform]] = {"mild": Mild, "paper": PaperPositive, "heavy": Heavy}


class Videos(Protocol):
    """A benchmark, videos to learn from, and the frames of any of them by id."""

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark."""

    @property
    def learning(self) -> Sequence[str]:
        """Ids of videos that are only learned from."""

    @property
    def learning_files(self) -> Sequence[str]:
        """Their files."""

    @property
    def learning_paths(self) -> Sequence[str]:
        """Files or folders that hold them, and nothing else."""

    @property
    def learning_fps(self) -> float:
        """Frames a second that a whitening may be fitted on."""

    @property
    def present(self) -> frozenset[str] | None:
        """Ids of the benchmark that have a video here; None: all."""

    @property
    def failed(self) -> list[tuple[str, str]]:
        """Videos that could not be read, and why."""

    @property
    def sampling(self) -> Sampling:
        """How large frames are, and which part of the picture."""

    @property
    def described(self) -> str:
        """A description in one sentence, for a caption."""

    def key(self, name: str) -> str:
        """Changes whenever the features of this id would."""

    def file(self, name: str) -> tuple[str, Sampling]:
        """The file of a video of the database, and how it is sampled."""

    def batches(self, name: str) -> Iterator[Frames]:
        """The frames of an id as they come; a :class:`VideoError` where it cannot be read."""

    def moving(self, name: str) -> Iterator[Frames]:
        """The same at I3D's rate, 25 frames a second."""

    def pictures(self, name: str, places: Sequence[float]) -> NDArray[np.uint8]:
        """Frames of an id to be looked at, [t, H, W, 3]: at these places between 0, its begin, and 1, its end."""


class BuiltInVideos:
    """The built-in benchmark of a folder: frames are decoded once and kept in ``cache``.

    Clips are sampled once a second; below 8 s twice, below 4 s four times a second. Twice as many frames are kept:
    every other one is the original's, those between are the copies'. ``sampling`` says how large and which part of
    the picture; ``clips`` how many videos of the folder are used at most.
    """

    present = None
    learning_fps = 4.0
    """Clips are short: a second has more to learn from than one frame."""

    def __init__(
        self,
        folder: Path,
        cache: Path,
        sampling: Sampling,
        *,
        clips: int | None = None,
        seed: int = 0,
        flat: bool = False,
        progress: Counted | None = None,
    ) -> None:
        if not folder.is_dir():
            raise FileError(folder, "is no folder of videos")
        root = Path(os.path.abspath(folder))
        files = [file for file in discover([folder]) if file != root]
        if not files:
            raise FileError(folder, "holds no videos")
        if clips is not None and clips < len(files):
            files = [
                files[i]
                for i in sorted(np.random.default_rng([seed, 2]).permutation(len(files))[:clips].tolist())
            ]
        rates: dict[float, list[Path]] = {}
        for file in files:
            rates.setdefault(_rate(file), []).append(file)
        self.failed: list[tuple[str, str]] = []
        self._clips: dict[str, tuple[CachedFootage, int, float]] = {}
        store = cache / f"frames-{sampling.fit}"
        before = 0
        for rate, some in sorted(rates.items()):
            footage = CachedFootage(
                some,
                store,
                replace(sampling, fps=2 * rate),
                progress=_counted(progress, before, len(files)),
            )
            before += len(some)
            self.failed += footage.failed
            for number, path in enumerate(footage.names):
                self._clips[Path(path).relative_to(root).as_posix()] = (footage, number, rate)
        self.sampling, self.root = sampling, root
        self._names = sorted(self._clips)
        self.plan: Plan = plan(
            self._names, [max(1, len(self.times(name)) // 2) for name in self._names], seed=seed, flat=flat
        )
        self.benchmark = self.plan.benchmark
        self.learning = [self._names[clip] for clip in self.plan.learning]
        self.learning_files = [os.fspath(root / name) for name in self.learning]
        self.learning_paths = self.learning_files
        self._copies = {copy.name: copy for copy in self.plan.copies}

    @property
    def described(self) -> str:
        """The benchmark by its numbers."""
        return (
            f"the built-in benchmark: {len(self.plan.copies)} edited copies to be found among "
            f"{len(self.plan.evaluated)} clips, {len(self.plan.learning)} others to learn from"
        )

    def times(self, name: str) -> Tensor:
        """Seconds of all kept frames of a clip."""
        footage, number, _ = self._clips[name]
        return footage.times(number)

    def frames(self, name: str) -> tuple[Tensor, Tensor]:
        """Frames uint8 [T, H, W, 3] of a clip or of a copy, and their seconds [T]."""
        if name in self._copies:
            return self._copied(self._copies[name])
        footage, number, _ = self._clips[name]
        positions = range(0, len(footage.times(number)), 2)
        return footage.images(number, positions), footage.times(number)[::2]

    def key(self, name: str) -> str:
        """The files' sizes and times of change, how they are sampled, and how a copy is made."""
        copy = self._copies.get(name)
        clips = [name] if copy is None else sorted({self._names[clip] for clip, _ in copy.frames})
        stamps = [(clip, *_stamp(self.root / clip)) for clip in clips]
        return repr((name, stamps, self.sampling, self.sampling.fit, copy))

    def file(self, name: str) -> tuple[str, Sampling]:
        """The file of a clip, and how it is sampled."""
        return os.fspath(self.root / name), replace(self.sampling, fps=self._clips[name][2])

    def batches(self, name: str) -> Iterator[Frames]:
        """The frames of a clip or of a copy."""
        images, times = self.frames(name)
        return batched(images, times.numpy())

    def moving(self, name: str) -> Iterator[Frames]:
        """A clip at I3D's rate; of a copy all that its clips show from one of its frames to the next."""
        copy = self._copies.get(name)
        if copy is None:
            yield from _streamed(self.root / name, self._moving)
            return
        wanted: dict[int, dict[int, Tensor]] = {}
        runs: list[list[tuple[int, int]]] = []
        for clip, sample in copy.frames:
            rate = self._clips[self._names[clip]][2]
            first, last = (round(MOVING_FPS * (sample + step) / rate) for step in (0.5, 1.5))
            runs.append([(clip, place) for place in range(first, last)])
        for clip in {clip for clip, _ in copy.frames}:
            places = {place for run in runs for number, place in run if number == clip}
            wanted[clip] = _some_frames(self.root / self._names[clip], self._moving, places)
        transform, shown = RECIPES[copy.edit](), 0
        for run in runs:
            pixels = torch.stack([wanted[clip][place] for clip, place in run])
            changed = transform(pixels.permute(0, 3, 1, 2)[None].float() / 255, [copy.seed])[0].clamp(0, 1)
            images = (changed * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
            yield Frames(images.numpy(), np.arange(shown, shown + len(run)) / MOVING_FPS)
            shown += len(run)

    @property
    def _moving(self) -> Sampling:
        return replace(self.sampling, fps=MOVING_FPS)

    def pictures(self, name: str, places: Sequence[float]) -> NDArray[np.uint8]:
        """Frames of a clip or of a copy."""
        images, _ = self.frames(name)
        return images[[min(int(place * len(images)), len(images) - 1) for place in places]].numpy()

    def _copied(self, copy: Copy) -> tuple[Tensor, Tensor]:
        frames = []
        for clip, sample in copy.frames:
            last = len(self.times(self._names[clip])) - 1
            frames.append((clip, min(2 * sample + 1, last)))
        pictures = read_frames(_Numbered(self), frames)
        pixels = pictures.permute(0, 3, 1, 2)[None].float() / 255
        changed = RECIPES[copy.edit]()(pixels, [copy.seed])[0].clamp(0, 1)
        images = (changed * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        steps = torch.tensor(
            [1 / self._clips[self._names[clip]][2] for clip, _ in frames], dtype=torch.float64
        )
        return images, steps.cumsum(0) - steps


class _Numbered:
    """All clips of the benchmark as one footage, by their number in the plan."""

    def __init__(self, videos: BuiltInVideos) -> None:
        self._videos = videos
        self.names = videos._names

    def __len__(self) -> int:
        return len(self.names)

    def times(self, video: int) -> Tensor:
        """Seconds of each kept frame."""
        return self._videos.times(self.names[video])

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """Kept frames as they stand."""
        footage, number, _ = self._videos._clips[self.names[video]]
        return footage.images(number, positions)


class DatasetVideos:
    """A dataset's own benchmark, as far as its videos are below ``folder``; learned from are those in ``training``."""

    learning_fps = 1.0

    def __init__(
        self,
        task: Task,
        folder: Path,
        sampling: Sampling,
        *,
        training: Path | None = None,
        pattern: str = PATTERN,
    ) -> None:
        self.task, self.sampling = task, sampling
        self.benchmark = task.benchmark()
        if "scores" not in self.benchmark.measures:
            raise UsageError(f"{task.dataset} has no scores of videos: no table can be made on it")
        found = files_of(self.benchmark, folder, pattern)
        self._files = {name: os.fspath(file) for name, file in found.items()}
        self.present = frozenset(self._files)
        self.learning_files = [os.fspath(file) for file in discover([training])] if training else []
        self.learning_paths = [os.fspath(training)] if training else []
        self.learning = [f"learning: {file}" for file in self.learning_files]
        self._files |= dict(zip(self.learning, self.learning_files, strict=True))
        self.failed: list[tuple[str, str]] = []

    @property
    def described(self) -> str:
        """The dataset, and how much of it is there."""
        queries = sum(query in self.present for query in self.benchmark.queries)
        database = len(self.present.intersection(self.benchmark.database))
        return (
            f"{self.task.dataset}: {queries} of {len(self.benchmark.queries)} queries and {database} of "
            f"{len(self.benchmark.database)} videos are here, annotation {sha256_of(self.task.annotations)[:12]}"
        )

    def key(self, name: str) -> str:
        """The file's size and time of change, and how it is sampled."""
        file = self._files[name]
        return repr((file, *_stamp(Path(file)), self.sampling, self.sampling.fit))

    def file(self, name: str) -> tuple[str, Sampling]:
        """The file of an id, and how it is sampled."""
        return self._files[name], self.sampling

    def batches(self, name: str) -> Iterator[Frames]:
        """The frames of the file, decoded as they are asked for."""
        return _streamed(self._files[name], self.sampling)

    def moving(self, name: str) -> Iterator[Frames]:
        """The same at I3D's rate."""
        return _streamed(self._files[name], replace(self.sampling, fps=MOVING_FPS))

    def pictures(self, name: str, places: Sequence[float]) -> NDArray[np.uint8]:
        """Frames of the file, found by seeking."""
        file = self._files[name]
        duration = probe(file).duration or 0.0
        return np.stack(samples_at(file, [place * duration for place in places], self.sampling))


def _streamed(file: str | os.PathLike[str], sampling: Sampling) -> Iterator[Frames]:
    with stream_frames(file, sampling, batch_size=BATCH) as stream:
        yield from stream


def _some_frames(file: Path, sampling: Sampling, places: set[int]) -> dict[int, Tensor]:
    """Frames uint8 [H, W, 3] by their number; beyond the end, the last one there is."""
    found: dict[int, Tensor] = {}
    count, last = 0, None
    for batch in _streamed(file, sampling):
        for picture in batch.images:
            last = torch.from_numpy(np.array(picture))
            if count in places:
                found[count] = last
            count += 1
    if last is None:
        raise VideoError(file, "no frame could be decoded")
    return found | {place: last for place in places if place >= count}


def _rate(file: Path) -> float:
    """Frames a second of a clip: few seconds are looked at more closely."""
    try:
        seconds = probe(file).duration
    except VideoError:
        return 1.0  # reading it will raise the error
    if seconds is None or seconds >= 8:
        return 1.0
    return 2.0 if seconds >= 4 else 4.0


def _stamp(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError as error:
        raise FileError(file, f"cannot be read: {os_reason(error)}") from error
    return status.st_size, status.st_mtime_ns


def _counted(progress: Counted | None, before: int, total: int) -> Counted | None:
    """A count of some files told as that of all."""
    if progress is None:
        return None
    return lambda done, _, path: progress(before + done, total, path)
