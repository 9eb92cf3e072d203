"""Animated WebP images, which FFmpeg does not read: Pillow does, picture by picture.

Animated GIF and PNG are videos to FFmpeg.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from visil.errors import VideoError
from visil.video.container import AnyPath
from visil.video.decoding import Clock, TimedFrame
from visil.video.images import plain_errors, upright_rgb
from visil.video.info import VideoInfo

SHORTEST_S = 0.011
"""A picture that says it is shown more briefly is shown for :data:`USUAL_S`, as in browsers."""

USUAL_S = 0.1


class Animation:
    """An animated image, read from its start; :class:`visil.video.decoding.Decoder` of such files."""

    tick = 0.001
    """Seconds in which its times are counted."""

    def __init__(self, path: AnyPath) -> None:
        from PIL import Image as pillow

        self.path = Path(path)
        self.damaged = 0
        """Pictures that could not be read."""
        with plain_errors(self.path, path):
            self._held = _durations(self.path)
            with pillow.open(self.path) as image:
                self.size = image.size
        if not self._held:
            raise VideoError(path, "damaged: it is an animation without pictures")
        self.duration = sum(self._held)
        """Seconds, as declared."""
        self.clock = Clock(len(self._held) / self.duration, self.duration)

    @property
    def info(self) -> VideoInfo:
        """The facts in its headers."""
        return VideoInfo(
            path=os.fspath(self.path),
            width=self.size[0],
            height=self.size[1],
            duration=self.duration,
            fps=len(self._held) / self.duration,
            codec="webp",
            container="webp",
            bit_rate=round(8 * self.path.stat().st_size / self.duration),
            has_audio=False,
        )

    @property
    def end(self) -> float:
        """When the last picture so far leaves the display."""
        return self.clock.end

    def frames(self) -> Iterator[TimedFrame]:
        """All pictures in order, as far as they can be read; a :class:`VideoError` where not even the first can."""
        import av
        from PIL import Image as pillow

        stamp = 0.0
        with plain_errors(self.path, self.path), pillow.open(self.path) as image:
            for number, held in enumerate(self._held):
                try:
                    image.seek(number)
                    picture = np.asarray(upright_rgb(image))
                except Exception:  # Pillow raises nearly anything on damaged files
                    if number == 0:
                        raise
                    self.damaged = len(self._held) - number
                    return
                time = self.clock.tick(stamp, held)
                yield TimedFrame(av.VideoFrame.from_ndarray(picture, format="rgb24"), time)
                stamp += held


def _durations(path: Path) -> list[float]:
    """For how many seconds each picture of a WebP file is shown, from the headers of its parts."""
    found = []
    with path.open("rb") as file:
        file.seek(12)
        while len(header := file.read(8)) == 8:
            size = int.from_bytes(header[4:], "little")
            start = file.tell()
            if header[:4] == b"ANMF":
                seconds = int.from_bytes(file.read(15)[12:15], "little") / 1000
                found.append(seconds if seconds >= SHORTEST_S else USUAL_S)
            file.seek(start + size + size % 2)
    return found
