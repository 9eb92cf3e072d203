"""Which paths are videos, and what stands at one: a file, a folder of images, or nothing readable."""

from __future__ import annotations

import os
import stat
from os import PathLike
from pathlib import Path
from typing import Literal

from visil.errors import VideoError

AnyPath = str | PathLike[str]

# fmt: off
VIDEO_SUFFIXES = frozenset((
    ".3g2", ".3gp", ".asf", ".avi", ".dv", ".f4v", ".flv", ".gif", ".h264", ".h265", ".hevc", ".ivf", ".m1v",
    ".m2t", ".m2ts", ".m2v", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".ogm",
    ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".wtv", ".y4m",
))
# fmt: on
IMAGE_SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))


def is_video_path(path: AnyPath) -> bool:
    """Whether a path is named like a video file. Looks at the name only."""
    return _suffix(path) in VIDEO_SUFFIXES


def is_image_path(path: AnyPath) -> bool:
    """Whether a path is named like an image file. Looks at the name only; GIF counts as both."""
    return _suffix(path) in IMAGE_SUFFIXES


def kind_of(path: AnyPath) -> Literal["video", "image", "folder"]:
    """What to read a path as; a :class:`VideoError` where there is nothing local and regular to read."""
    try:
        name = os.fspath(path)
        status = os.stat(name)
        if stat.S_ISDIR(status.st_mode):
            return "folder"
        if not stat.S_ISREG(status.st_mode):
            raise VideoError(path, "not a regular file (a pipe, socket or device)")
        if not os.access(name, os.R_OK):
            raise VideoError(path, "permission denied")
    except (OSError, ValueError) as error:
        raise VideoError(path, reason_of_os_error(error)) from error
    if status.st_size == 0:
        raise VideoError(path, "the file is empty")
    # An animated GIF is a video; every other image is one frame.
    return "image" if is_image_path(name) and not is_video_path(name) else "video"


def reason_of_os_error(error: OSError | ValueError) -> str:
    """What the operating system had against a path, in plain words."""
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "no such file"
        case PermissionError():
            return "permission denied"
        case OSError(strerror=str(said)) if said:
            return said[0].lower() + said[1:]
        case OSError():
            return "cannot be read"
    return "no such file: its name holds characters that no file name can"


def _suffix(path: AnyPath) -> str:
    return Path(path).suffix.lower()
