"""How a file sounds, roughly: how loud each band of pitch is, 16 times a second. Enough to tell two tracks apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.video.container import AnyPath, kind_of, open_video, plain_errors

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer

Bands = NDArray[np.float32]
"""[n, bands]: decibels below full scale, n of them at BLOCKS a second from the first frame of the video on."""

RATE = 8000
"""Samples a second that sound is brought to."""
BLOCKS = 16
HOP = RATE // BLOCKS
WINDOW = 4 * HOP
"""Samples that one measurement covers: a quarter of a second."""
EDGES = np.array([100, 200, 300, 450, 700, 1000, 1500, 2300, 3600])
"""Of the bands, in hertz."""
FULL_SCALE = 1.5 * (WINDOW / 4) ** 2
"""Power of the loudest tone, in the three frequencies that the window spreads it over."""
SILENCE = -100.0
"""Decibels of what is not heard."""


def read_sound(path: AnyPath) -> list[Bands]:
    """Every sound track of a file; none of an animation, or of images."""
    if kind_of(path) != "video":
        return []
    with open_video(path) as (container, video), plain_errors(path):
        start = float((video.start_time or 0) * (video.time_base or 0))
        tracks = [_Track(stream, start) for stream in container.streams.audio]
        for place, samples in _samples(container, tracks):
            tracks[place].take(samples)
        return [track.bands() for track in tracks]


def _samples(container: InputContainer, tracks: list[_Track]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Sound as it comes, each piece with the number of its track; what cannot be decoded is left out."""
    import av.error

    places = {track.stream.index: place for place, track in enumerate(tracks)}
    for packet in container.demux([track.stream for track in tracks]) if tracks else ():
        place = places[packet.stream.index]
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            continue
        for frame in frames:
            if isinstance(frame, av.AudioFrame):
                yield place, tracks[place].resampled(frame)


class _Track:
    """One sound track while it is read."""

    def __init__(self, stream: AudioStream, start: float) -> None:
        import av

        self.stream = stream
        self._start = start
        self._resampler = av.AudioResampler(format="fltp", rate=RATE)  # all channels: mixed, some cancel out
        self._rest: NDArray[np.float32] | None = None
        self._parts: list[Bands] = []

    def resampled(self, frame: object) -> NDArray[np.float32]:
        import av

        assert isinstance(frame, av.AudioFrame)
        if self._rest is None:  # what comes before the first picture is left out, what comes late is awaited
            ahead = round(((frame.time or 0.0) - self._start) * RATE)
            channels = frame.layout.nb_channels
            self._rest = np.zeros((channels, min(max(ahead, 0), 3600 * RATE)), np.float32)
            self._skipped = max(-ahead, 0)
        pieces = [one.to_ndarray() for one in self._resampler.resample(frame)]
        samples = np.concatenate([self._rest[:, :0], *pieces], axis=1)
        skipped = min(self._skipped, samples.shape[1])
        self._skipped -= skipped
        return samples[:, skipped:]

    def take(self, samples: NDArray[np.float32]) -> None:
        assert self._rest is not None
        self._rest = np.concatenate([self._rest, samples], axis=1)
        if self._rest.shape[1] >= 64 * HOP:
            self._measure()

    def bands(self) -> Bands:
        if self._rest is not None:
            self._rest = np.pad(self._rest, ((0, 0), (0, WINDOW)))
            self._measure()
        return np.concatenate(self._parts) if self._parts else np.empty((0, len(EDGES) - 1), np.float32)

    def _measure(self) -> None:
        """Windows that lie over each other; their power is that of all channels together."""
        assert self._rest is not None
        count = (self._rest.shape[1] - WINDOW) // HOP + 1
        if count < 1:
            return
        windows = np.lib.stride_tricks.sliding_window_view(self._rest, WINDOW, axis=1)[:, : count * HOP : HOP]
        shape = np.hanning(WINDOW).astype(np.float32)
        power = (np.abs(np.fft.rfft(windows * shape, axis=2)) ** 2).sum(axis=0)
        bounds = EDGES * WINDOW // RATE
        sums = np.add.reduceat(power[:, : bounds[-1]], bounds[:-1], axis=1) / FULL_SCALE
        self._parts.append(np.maximum(10 * np.log10(sums + 1e-12), SILENCE).astype(np.float32))
        self._rest = self._rest[:, count * HOP :]
