"""How a file sounds, roughly: how loud each band of pitch is, 16 times a second. Enough to tell two tracks apart,
and which of two that sound alike has more of it: more channels, higher pitches, more bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.errors import VideoError
from visil.video.container import AnyPath, kind_of, open_video, plain_errors

if TYPE_CHECKING:
    from av.audio.stream import AudioStream
    from av.container import InputContainer

Bands = NDArray[np.float32]
"""[n, bands]: decibels below full scale, n of them at BLOCKS a second from the first frame of the video on."""

RATE = 24000
"""Samples a second that sound is brought to."""
BLOCKS = 16
HOP = RATE // BLOCKS
WINDOW = 4 * HOP
"""Samples that one measurement covers: a quarter of a second."""
EDGES = np.array([100, 200, 300, 450, 700, 1000, 1500, 2300, 3600, 5000, 7000, 9000, 11500])
"""Of the bands, in hertz."""
VOICE = 8
"""Bands that identify sound. Those above are where sound that was coded with few bits ends."""
FULL_SCALE = 1.5 * (WINDOW / 4) ** 2
"""Power of the loudest tone, in the three frequencies that the window spreads it over."""
SILENCE = -100.0
"""Decibels of silence."""
APART = 1e-3
"""Part of the power of two channels that lies between them, from which they are two."""


@dataclass(frozen=True, eq=False)
class Track:
    """One sound track."""

    bands: Bands
    codec: str
    bits: float
    """A second."""
    channels: int
    """That differ from each other and are not silent."""


def read_sound(path: AnyPath) -> list[Track]:
    """Every sound track of a file; none of an animation, or of images; an error where most of one cannot be decoded."""
    if kind_of(path) != "video":
        return []
    with open_video(path) as (container, video), plain_errors(path):
        start = float((video.start_time or 0) * (video.time_base or 0))
        tracks = [_Reading(stream, start) for stream in container.streams.audio]
        for place, samples in _samples(container, tracks):
            tracks[place].take(samples)
        if any(2 * track.lost > track.bytes for track in tracks):
            raise VideoError(path, "its sound cannot be decoded")
        return [track.read() for track in tracks]


def _samples(container: InputContainer, tracks: list[_Reading]) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Sound as it comes, each piece with the number of its track; what cannot be decoded is left out."""
    import av.error

    places = {track.stream.index: place for place, track in enumerate(tracks)}
    for packet in container.demux([track.stream for track in tracks]) if tracks else ():
        place = places[packet.stream.index]
        tracks[place].bytes += packet.size
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            tracks[place].lost += packet.size
            continue
        for frame in frames:
            if isinstance(frame, av.AudioFrame):
                yield place, tracks[place].resampled(frame)


class _Reading:
    """One sound track while it is read."""

    def __init__(self, stream: AudioStream, start: float) -> None:
        import av

        self.stream = stream
        self.bytes = 0
        self.lost = 0
        """Bytes that could not be decoded."""
        self._start = start
        self._resampler = av.AudioResampler(format="fltp", rate=RATE)  # all channels: mixed, some cancel out
        self._rest: NDArray[np.float32] | None = None
        self._parts: list[Bands] = []
        self._samples = 0
        self._power: NDArray[np.float64] = np.zeros((0, 0))
        """Of each channel with each."""

    def resampled(self, frame: object) -> NDArray[np.float32]:
        import av

        assert isinstance(frame, av.AudioFrame)
        if self._rest is None:  # what comes before the first picture is left out, what comes late is awaited
            ahead = round(((frame.time or 0.0) - self._start) * RATE)
            self._skipped = max(-ahead, 0)
            late = min(max(ahead, 0), 24 * 3600 * RATE)
            silent = max(0, (late - WINDOW) // HOP)
            self._parts.append(np.full((silent, len(EDGES) - 1), SILENCE, np.float32))
            self._rest = np.zeros((frame.layout.nb_channels, late - silent * HOP), np.float32)
        pieces = [one.to_ndarray() for one in self._resampler.resample(frame)]
        samples = np.concatenate([self._rest[:, :0], *pieces], axis=1)
        skipped = min(self._skipped, samples.shape[1])
        self._skipped -= skipped
        return samples[:, skipped:]

    def take(self, samples: NDArray[np.float32]) -> None:
        assert self._rest is not None
        power = (samples @ samples.T).astype(np.float64)
        self._power = power if not len(self._power) else self._power + power
        self._samples += samples.shape[1]
        self._rest = np.concatenate([self._rest, samples], axis=1)
        if self._rest.shape[1] >= 64 * HOP:
            self._measure()

    def read(self) -> Track:
        """The sound that was read."""
        if self._rest is not None:
            self._rest = np.pad(self._rest, ((0, 0), (0, WINDOW)))
            self._measure()
        bands = np.concatenate(self._parts) if self._parts else np.empty((0, len(EDGES) - 1), np.float32)
        bits = 8 * self.bytes * RATE / max(self._samples, RATE)
        return Track(bands, self.stream.codec_context.name, bits, _distinct(self._power))

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


def _distinct(power: NDArray[np.float64]) -> int:
    """How many channels are neither silent nor the same as one before; by the power of each with each."""
    found: list[int] = []
    all_of_it = float(np.trace(power))
    for one in range(len(power)):
        between = (power[one, one] + power[other, other] - 2 * power[one, other] for other in found)
        if power[one, one] > APART * all_of_it and all(apart > APART * all_of_it for apart in between):
            found.append(one)
    return len(found)
