"""Frames, pictures with the time each was taken from: streamed in batches, however long the video is."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from visil.errors import UsageError, VideoError, printable
from visil.video import images
from visil.video.animations import Animation
from visil.video.container import AnyPath, kind_of, open_video, plain_errors
from visil.video.decoding import Decoder, TimedFrame, frame_rate
from visil.video.info import VideoInfo, image_info, video_info
from visil.video.opencv import resize_and_crop
from visil.video.pictures import LARGE_PIXELS, Converter, Image
from visil.video.sampling import (
    DEFAULT_SAMPLING,
    Sampling,
    Skipper,
    TimeGrid,
    believable_rate,
    every_nth,
    stamp_tolerance,
)

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

logger = logging.getLogger("visil")

DECODERS_HOLD = 4
"""Frames that a decoder may hold at the same time."""

ANIMATIONS_HOLD = 36
"""Bytes for each pixel of an animation: Pillow and its decoder hold several copies of a picture."""

MOST_HELD = 750_000_000
"""Bytes of them from which a line says what it takes: with all else, a process stays below 1 GiB up to there."""


class Sample(NamedTuple):
    """One kept frame and its time in seconds from the first frame."""

    image: Image
    timestamp: float


@dataclass(frozen=True)
class Frames:
    """Frames of one video, in order."""

    images: NDArray[np.uint8]
    """[T, H, W, 3], RGB."""
    timestamps: NDArray[np.float64]
    """[T], seconds from the first frame."""

    def __len__(self) -> int:
        return len(self.timestamps)

    @classmethod
    def from_samples(cls, samples: list[Sample], side: int) -> Frames:
        """Stack samples of ``side`` x ``side`` pixels; none at all gives arrays of length zero."""
        images = np.empty((len(samples), side, side, 3), np.uint8)
        for slot, sample in zip(images, samples, strict=True):
            slot[...] = sample.image
        return cls(images, np.array([sample.timestamp for sample in samples], np.float64))


def batched(samples: Iterable[Sample], batch_size: int, side: int) -> Generator[Frames, None, None]:
    """Group samples into :class:`Frames` of ``batch_size``, the last one shorter; holds one batch at most."""
    batch: list[Sample] = []
    for sample in samples:
        batch.append(sample)
        if len(batch) == batch_size:
            yield Frames.from_samples(batch, side)
            batch = []
    if batch:
        yield Frames.from_samples(batch, side)


class FrameStream:
    """An iterator over a video's :class:`Frames`, a batch at a time.

    Made by :func:`stream_frames`. Opening it decodes the first frame, so a file that is no video fails at once. Use
    it in a ``with`` block, or read it to the end, or call :meth:`close`: all three close the file.
    """

    info: VideoInfo
    """The file's facts about itself."""
    duration: float
    """Seconds from the first frame to the end of the last one read so far; final once iteration is over."""
    damaged: int
    """Packets that could not be decoded so far."""

    def __init__(
        self,
        path: AnyPath,
        sampling: Sampling = DEFAULT_SAMPLING,
        batch_size: int = 32,
        threads: int = 1,
        *,
        fast: bool = False,
        keyframes: bool = False,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        if threads < 0:
            raise UsageError(f"threads must be 0 (as many as there are cores) or more, not {threads}")
        if (fast or keyframes) and sampling.mode == "count":
            raise UsageError("fast decoding leaves frames out: it goes with mode 'time' only")
        self.path = path
        self.sampling = sampling
        self.fast = fast
        self.keyframes = keyframes
        self.duration = 0.0
        self.damaged = 0
        kind = kind_of(path)
        if kind == "video":
            self._samples = self._video_samples(threads)
        elif kind == "animation":
            self._samples = self._animation_samples()
        else:
            self._samples = self._image_samples(images.image_files(path))
        # Runs the generator up to its first sample, which sets ``info`` or fails.
        first = next(self._samples)
        self._batches = batched(chain([first], self._samples), batch_size, sampling.crop)

    def __iter__(self) -> Iterator[Frames]:
        return self

    def __next__(self) -> Frames:
        return next(self._batches)

    def close(self) -> None:
        """Close the file; iteration ends here."""
        self._batches.close()
        self._samples.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _image_samples(self, files: list[Path]) -> Generator[Sample, None, None]:
        fps = self.sampling.fps
        self.info = image_info(self.path, files, fps)
        for index, file in enumerate(files):
            try:
                image = images.square_image(file, self.path, self.sampling)
            except VideoError as error:
                self.damaged += 1
                if self.damaged == len(files):
                    raise
                logger.warning("%s: it is left out", error)
                continue
            self.duration = (index + 1) / fps
            yield Sample(image, index / fps)

    def _animation_samples(self) -> Generator[Sample, None, None]:
        animation = Animation(self.path)
        self.info = animation.info
        width, height = animation.size
        _warn_of_size(self.path, width, height, ANIMATIONS_HOLD * width * height)
        yield from self._by_time(self._watched(animation), animation, Converter(None))

    def _video_samples(self, threads: int) -> Generator[Sample, None, None]:
        with open_video(self.path, threads, fast=self.fast) as (container, stream), plain_errors(self.path):
            decoder = Decoder(container, stream, self.path, keyframes=self.keyframes)
            exact = self.sampling.mode == "time" and not self.fast and not self.keyframes
            if exact and not decoder.clockless:
                decoder.skipper = Skipper(self.sampling.fps, stamp_tolerance(decoder.tick), decoder.tick)
            converter = Converter(stream.sample_aspect_ratio)

            def on_first(frame: VideoFrame) -> None:
                held = DECODERS_HOLD * sum(plane.buffer_size for plane in frame.planes)
                _warn_of_size(self.path, frame.width, frame.height, held)
                size = converter.display_size(frame)
                self.info = video_info(self.path, container, stream, size, frame)

            by_rule = self._by_time if self.sampling.mode == "time" else self._by_count
            yield from by_rule(self._watched(decoder, on_first), decoder, converter)

    def _watched(
        self, decoder: Decoder | Animation, on_first: Callable[[VideoFrame], None] | None = None
    ) -> Iterator[TimedFrame]:
        """The decoder's frames, with this stream's public counters kept up to date; none is held back here."""
        for timed in decoder.frames():
            self.duration, self.damaged = decoder.end, decoder.damaged
            if on_first is not None:
                on_first(timed.frame)
                on_first = None
            yield timed
            del timed
        self.duration, self.damaged = decoder.end, decoder.damaged

    def _by_time(
        self, frames: Iterable[TimedFrame], decoder: Decoder | Animation, converter: Converter
    ) -> Iterator[Sample]:
        """The frame on display at each time of the grid, or the nearest key frame; no other is converted."""
        grid = TimeGrid(self.sampling.fps, stamp_tolerance(decoder.tick))
        shown: VideoFrame | Image | None = None
        since = 0.0
        for frame, time in frames:
            if shown is not None:
                until = (since + time) / 2 if self.keyframes else time
                yield from self._repeated(shown, grid.until(until), converter)
            large = frame.width * frame.height > LARGE_PIXELS
            shown = self._sample(frame, converter) if large else frame  # though it may be no sample
            since = time
            del frame
        if shown is not None:
            yield from self._repeated(shown, grid.finish(decoder.end), converter)

    def _repeated(self, shown: VideoFrame | Image, indices: range, converter: Converter) -> Iterator[Sample]:
        if indices:
            image = shown if isinstance(shown, np.ndarray) else self._sample(shown, converter)
            for index in indices:
                yield Sample(image, index / self.sampling.fps)

    def _sample(self, frame: VideoFrame, converter: Converter) -> Image:
        if self.sampling.fit == "whole":
            return converter.whole(frame, self.sampling.crop)
        return converter.square(frame, self.sampling.resize, self.sampling.crop)

    def _by_count(
        self, frames: Iterable[TimedFrame], decoder: Decoder, converter: Converter
    ) -> Iterator[Sample]:
        """Every n-th frame, as the authors read videos."""
        rate = frame_rate(decoder.stream)
        step = every_nth(rate, self.sampling.fps)
        for index, (frame, _) in enumerate(frames):
            if index % step == 0:
                image = resize_and_crop(converter.as_opencv(frame), self.sampling.resize, self.sampling.crop)
                yield Sample(image, index / believable_rate(rate))


def _warn_of_size(path: AnyPath, width: int, height: int, held: int) -> None:
    if held > MOST_HELD:
        logger.warning(
            "%s: frames of %dx%d pixels: decoding them takes some %.1f GB",
            *(printable(os.fspath(path)), width, height, held / 1e9),
        )


def stream_frames(
    path: AnyPath,
    sampling: Sampling = DEFAULT_SAMPLING,
    batch_size: int = 32,
    *,
    threads: int = 1,
    fast: bool = False,
    keyframes: bool = False,
) -> FrameStream:
    """Open a video, or a folder of images, and iterate over its sampled frames in batches.

    Memory does not grow with the length of the video. ``threads`` is for decoding; 0 means one per core.
    ``fast`` takes the last frame before each time of the grid that is cheap to decode, some tenths of a second early,
    with block edges: about twice as fast for H.264. ``keyframes`` takes the key frame nearest to each time, which many
    times may share, and decodes hardly anything else; where none is within some seconds, the frame itself.
    """
    return FrameStream(path, sampling, batch_size, threads, fast=fast, keyframes=keyframes)


def read_frames(path: AnyPath, sampling: Sampling = DEFAULT_SAMPLING, *, threads: int = 1) -> Frames:
    """All sampled frames of a video at once."""
    with stream_frames(path, sampling, threads=threads) as stream:
        batches = list(stream)
    return Frames(
        np.concatenate([batch.images for batch in batches]),
        np.concatenate([batch.timestamps for batch in batches]),
    )
