"""Images as video: a folder of them, one sample each, or a single file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from visil.errors import VideoError, printable
from visil.files import natural_order
from visil.video.container import AnyPath, is_image_path, is_video_path, reason_of_os_error
from visil.video.pictures import LONGEST_STRIP, Image, Size, centre_crop, is_strip, middle, scaled_to_shorter
from visil.video.sampling import Sampling

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

Read = TypeVar("Read")

EXIF_ORIENTATION = 0x0112
SIDEWAYS = (5, 6, 7, 8)


def list_images(folder: AnyPath) -> list[Path]:
    """The images of a folder in natural order of their names; hidden and other files are passed over.

    A :class:`VideoError` where there are none, or where there are videos beside them: then those are meant.
    """
    try:
        files = [entry for entry in Path(folder).iterdir() if not entry.name.startswith(".")]
        found = [entry for entry in files if is_image_path(entry) and entry.is_file()]
        videos = [entry for entry in files if entry not in found and is_video_path(entry) and entry.is_file()]
    except OSError as error:
        raise VideoError(folder, reason_of_os_error(error)) from error
    if videos:
        raise VideoError(folder, f"a folder of videos, not one video: name {printable(videos[0].name)} in it")
    if not found:
        raise VideoError(folder, "a folder without images")
    return sorted(found, key=lambda image: (natural_order(image.name), image.name))


def image_files(path: AnyPath) -> list[Path]:
    """The images of a folder, or the one image that ``path`` is."""
    return list_images(path) if os.path.isdir(path) else [Path(path)]


def square_image(file: Path, video: AnyPath, sampling: Sampling) -> Image:
    """One image as a sample of ``video``: its centre cut out, or all of it pressed into the square."""
    with plain_errors(file, video):
        image = _without_far_ends(_opened(file))
        if sampling.fit == "whole":
            return _resized(image, Size(sampling.crop, sampling.crop))
        size = scaled_to_shorter(image.width, image.height, sampling.resize)
        return np.ascontiguousarray(centre_crop(_resized(image, size), sampling.crop))


def thumbnail_image(file: Path, video: AnyPath, height: int) -> Image:
    """One whole image, ``height`` pixels high and at most ``LONGEST_STRIP`` times as wide."""
    with plain_errors(file, video):
        image = _without_far_ends(_opened(file))
        width = min(max(1, round(height * image.width / image.height)), LONGEST_STRIP * height)
        return _resized(image, Size(width, height))


def display_size(files: Sequence[Path], video: AnyPath) -> Size:
    """The size of the first image as seen, from its header; of the first that can be read."""
    from PIL import Image as pillow

    def seen(file: Path) -> Size:
        with plain_errors(file, video), pillow.open(file) as image:
            size = Size(*image.size)
            return (
                Size(size.height, size.width) if image.getexif().get(EXIF_ORIENTATION) in SIDEWAYS else size
            )

    return first_readable(files, seen)


def first_readable(files: Sequence[Path], read: Callable[[Path], Read]) -> Read:
    """The result of ``read`` on the first of some images that can be read; a :class:`VideoError` where none can."""
    failed: VideoError | None = None
    for file in files:
        try:
            return read(file)
        except VideoError as error:
            failed = failed or error
    assert failed is not None, "a folder of images holds at least one"
    raise failed


@contextmanager
def plain_errors(file: Path, video: AnyPath) -> Iterator[None]:
    """Turn whatever Pillow raises into a :class:`VideoError` of a video that names the image."""
    from PIL import Image as pillow
    from PIL import UnidentifiedImageError

    where = "" if Path(video) == file else f"the image {printable(file.name)} in it "
    try:
        yield
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning, MemoryError) as error:
        raise VideoError(video, f"{where or 'the image '}is too large to be meant") from error
    except UnidentifiedImageError as error:
        raise VideoError(video, f"{where or 'the file '}is not an image, or damaged") from error
    except (FileNotFoundError, PermissionError) as error:
        raise VideoError(video, f"{where}{reason_of_os_error(error)}") from error
    except Exception as error:
        # Pillow's readers raise nearly anything on damaged files: SyntaxError, struct.error, zlib.error, ...
        raise VideoError(video, f"{where or 'the image '}is damaged") from error


def _opened(file: Path) -> PillowImage:
    from PIL import Image as pillow

    with pillow.open(file) as opened:
        return upright_rgb(opened)


def upright_rgb(opened: PillowImage) -> PillowImage:
    """Decode an image the way it is meant to be seen; transparent parts come out black."""
    from PIL import Image as pillow
    from PIL import ImageOps

    opened.load()
    turned = opened.getexif().get(EXIF_ORIENTATION, 1) != 1
    image: PillowImage = (
        ImageOps.exif_transpose(opened) if turned else opened
    )  # not a copy of a large picture
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return pillow.fromarray(_eight_bit(np.asarray(image))).convert("RGB")
    if "A" in image.getbands() or "a" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        black = pillow.new("RGBA", image.size, (0, 0, 0, 255))
        return pillow.alpha_composite(black, image).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bit(deep: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> Image:
    """Grey levels of 16 bits, or floats from 0 to 1, as bytes; what already fits into bytes is kept."""
    levels = np.nan_to_num(deep.astype(np.float64))
    if deep.dtype.kind == "f" and levels.max() <= 1:
        levels = levels * 255
    elif deep.dtype.itemsize == 2 or levels.max() > 255:
        levels = levels / 257
    return np.clip(np.rint(levels), 0, 255).astype(np.uint8)


def _without_far_ends(image: PillowImage) -> PillowImage:
    if not is_strip(*image.size):
        return image
    rows, columns = middle(*image.size)
    return image.crop((columns.start, rows.start, columns.stop, rows.stop))


def _resized(image: PillowImage, size: Size) -> Image:
    from PIL.Image import Resampling

    return np.array(image.resize(size, Resampling.BICUBIC))
