"""Frames of a video as JPEG in one safetensors file: written from the video, checked, read back; without torch.

``times`` float64 [T], ``ends`` int64 [T] and ``jpeg`` uint8, in which frame k is the bytes from ``ends[k-1]`` to
``ends[k]``. The file is named by what the video holds and how it was sampled.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.collection.identity import Stamp, stamp_of
from visil.errors import FileError, VideoError
from visil.files import replacing
from visil.video import Sampling, stream_frames

QUALITY = 90
"""Of the JPEGs; about 15 kB for a frame of 224 pixels."""

FORMAT = 1
"""Part of every file's name; raised when what is in the files changes."""


def file_name(content: str, sampling: Sampling) -> str:
    """What the file is called that holds a video of this content, sampled so."""
    size = f"{sampling.resize}-{sampling.crop}-{sampling.fit}"
    how = f"{float(sampling.fps)!r}fps-{size}-{sampling.mode}-q{QUALITY}-v{FORMAT}"
    return f"{content}-{how}.safetensors"


def write_frames(video: Path, stored: Path, sampling: Sampling, stamp: Stamp) -> NDArray[np.float64]:
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
    return seconds


def stored_times(stored: Path) -> NDArray[np.float64] | None:
    """Times of the frames in a cache file; None where there is no such file or it is not whole."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(stored, "np") as opened:
            times, ends = opened.get_tensor("times"), opened.get_tensor("ends")
            size = opened.get_slice("jpeg").get_shape()[0]
    except (OSError, SafetensorError):
        return None
    whole = len(times) == len(ends) > 0 and bool((np.diff(ends, prepend=0) > 0).all()) and ends[-1] == size
    return times if whole else None


def read_frames(stored: Path, positions: Sequence[int], side: int) -> NDArray[np.uint8]:
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
    return pictures[back]
