"""Whether two files, or folders of images, hold the same bytes: then they are copies, whatever they show."""

from __future__ import annotations

import filecmp
import os

from visil.errors import VideoError
from visil.video.container import AnyPath
from visil.video.images import list_images


def same_bytes(a: AnyPath, b: AnyPath) -> bool:
    """Compared from end to end where they are of one size; what cannot be read is the same as nothing."""
    try:
        if os.path.samefile(a, b):
            return True
        if not (os.path.isdir(a) and os.path.isdir(b)):
            return os.path.isfile(a) and os.path.isfile(b) and filecmp.cmp(a, b, shallow=False)
        pairs = list(zip(list_images(a), list_images(b), strict=True))
        return all(filecmp.cmp(*pair, shallow=False) for pair in pairs)
    except (OSError, ValueError, VideoError):
        return False
