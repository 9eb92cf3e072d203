"""Scenes: a camera that moves over a photograph. The same seed gives the same frames."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from visil.errors import UsageError
from visil.video import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Shot = tuple[str, float, int]
"""Name of a photograph, seconds, and the seed of the camera's move."""

FPS = 25
SIZE = (640, 360)
"""Width and height, as Pillow has them."""

# Those in scikit-image's wheel that look like something filmed, no two of the same thing.
_FILES = (
    *("rocket.jpg", "chelsea.png", "coffee.png", "motorcycle_left.png", "hubble_deep_field.jpg"),
    *("camera.png", "astronaut.png", "retina.jpg", "coins.png", "moon.png"),
    *("ihc.png", "brick.png", "gravel.png", "grass.png", "cell.png"),
)

# The photograph is enlarged so that a pixel of the frame is about this many of its own across, and the camera
# takes every one of them: four times as quick as interpolating, and as smooth.
_OVERSAMPLING = 2
_ZOOM = (1.15, 2.1)
_TILT = math.radians(2.5)
_SWAY = 0.004


@dataclass(frozen=True)
class Photograph:
    """A picture to film."""

    name: str
    path: Path


def photographs() -> list[Photograph]:
    """The photographs that scikit-image brings along; nothing is downloaded, and it is not even imported."""
    spec = find_spec("skimage")
    folders = [Path(place) / "data" for place in (spec.submodule_search_locations or ())] if spec else []
    found = [Photograph(Path(name).stem, folder / name) for name in _FILES for folder in folders]
    found = [photo for photo in found if photo.path.is_file()]
    if not found:
        raise UsageError("the demo needs the photographs in scikit-image: pip install 'visil[demo]'")
    return found


def photograph(name: str) -> Photograph:
    """The photograph of that name."""
    known = {photo.name: photo for photo in photographs()}
    if name not in known:
        raise UsageError(f"no photograph named {name!r}; there are {', '.join(known)}")
    return known[name]


def render_scene(
    photo: Photograph,
    seconds: float,
    fps: float = FPS,
    size: tuple[int, int] = SIZE,
    seed: int = 0,
    *,
    part: tuple[float, float] | None = None,
) -> Iterator[Image]:
    """``seconds`` of footage: the camera pans, zooms and tilts over the photograph, held by hand.

    With ``part``, only its frames from one time to another: the same as cutting it, but quicker.
    """
    from PIL import Image as pillow

    width, height = size
    count = round(seconds * fps)
    if count < 1 or width < 2 or height < 2:
        raise UsageError(f"a scene needs at least one frame of 2×2 pixels, not {count} of {width}×{height}")
    try:
        with pillow.open(photo.path) as file:
            picture = file.convert("RGB")
    except OSError as error:
        raise UsageError(f"{photo.path}: not a picture that can be read") from error
    wide = (width * _OVERSAMPLING, height * _OVERSAMPLING)
    scale = max(wide[0] / picture.width, wide[1] / picture.height) * (_ZOOM[0] + _ZOOM[1]) / 2
    picture = picture.resize(
        (math.ceil(picture.width * scale), math.ceil(picture.height * scale)), pillow.Resampling.BICUBIC
    )
    camera = _Camera(picture, wide, np.random.default_rng([seed, zlib.crc32(photo.name.encode())]))
    shown = range(count) if part is None else range(count)[round(part[0] * fps) : round(part[1] * fps)]
    return (camera.shoot(i / max(1, count - 1), i / fps) for i in shown)


def render_film(
    shots: Sequence[Shot], start: float, end: float, fps: float = FPS, size: tuple[int, int] = SIZE
) -> Iterator[Image]:
    """The frames that shots one after the other show from ``start`` to ``end``, in seconds."""
    begin = 0.0
    for name, seconds, take in shots:
        if start < begin + seconds and end > begin:
            part = (max(0.0, start - begin), min(seconds, end - begin))
            yield from render_scene(photograph(name), seconds, fps, size, take, part=part)
        begin += seconds


class _Camera:
    """A move from one view of the picture to another; shoots oversampled frames and shrinks them."""

    def __init__(self, picture: Picture, wide: tuple[int, int], random: np.random.Generator) -> None:
        self.picture = picture
        self.wide = wide
        self.fit = min(picture.width / wide[0], picture.height / wide[1])
        near, far = random.uniform(1.7, _ZOOM[1]), random.uniform(_ZOOM[0], 1.3)
        self.zoom = (near, far) if random.random() < 0.5 else (far, near)
        heading = random.uniform(0, 2 * math.pi)
        reach = random.uniform(0.8, 1.2)
        self.pan = (reach * math.cos(heading), reach * math.sin(heading))
        self.tilt = random.uniform(-_TILT, _TILT, 2)
        self.sway = random.uniform(0, 2 * math.pi, 4)

    def shoot(self, progress: float, time: float) -> Image:
        """The frame at ``progress`` from 0 to 1 of the move."""
        from PIL import Image as pillow

        eased = 0.5 * progress + 0.5 * progress * progress * (3 - 2 * progress)
        tilt = float(self.tilt[0] + (self.tilt[1] - self.tilt[0]) * eased)
        zoom = self.zoom[0] * (self.zoom[1] / self.zoom[0]) ** eased
        step = self.fit / zoom  # pixels of the picture per oversampled pixel
        cos, sin = math.cos(tilt), math.sin(tilt)
        width, height = self.wide
        # How far the turned view reaches from its middle, and so how far its middle may go.
        reach_x = (width * cos + height * abs(sin)) * step / 2
        reach_y = (height * cos + width * abs(sin)) * step / 2
        shrink = min(1.0, self.picture.width / 2 / reach_x, self.picture.height / 2 / reach_y)
        step, reach_x, reach_y = step * shrink, reach_x * shrink, reach_y * shrink
        sway_x = math.sin(1.9 * time + self.sway[0]) + 0.5 * math.sin(4.3 * time + self.sway[1])
        sway_y = math.sin(1.6 * time + self.sway[2]) + 0.5 * math.sin(3.7 * time + self.sway[3])
        course = 2 * eased - 1
        x = self._within(self.pan[0] * course, reach_x, self.picture.width) + sway_x * _SWAY * width * step
        y = self._within(self.pan[1] * course, reach_y, self.picture.height) + sway_y * _SWAY * width * step
        x = min(max(x, reach_x), self.picture.width - reach_x)
        y = min(max(y, reach_y), self.picture.height - reach_y)
        a, b, d, e = step * cos, -step * sin, step * sin, step * cos
        matrix = (a, b, x - (a * width + b * height) / 2, d, e, y - (d * width + e * height) / 2)
        shot = self.picture.transform(self.wide, pillow.Transform.AFFINE, matrix, pillow.Resampling.NEAREST)
        return np.asarray(shot.reduce(_OVERSAMPLING))

    @staticmethod
    def _within(course: float, reach: float, side: int) -> float:
        """Where from -1 to 1 the middle of the view is, in pixels that keep the view inside."""
        return side / 2 + course * (side / 2 - reach)
