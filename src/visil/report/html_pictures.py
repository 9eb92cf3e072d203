"""Pictures for a report, small and inside the page: frames as JPEG, matrices as PNG, both as data URIs."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np

from visil.collection.catalogue import Catalogue, Video
from visil.collection.collection import Index
from visil.collection.duplicates import Pair
from visil.collection.identity import content_id, stamp_of
from visil.errors import VisilError
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.plots.axes import Axis, shrink
from visil.plots.heat import heat_png
from visil.video import Image, frames_at

FramesAt = Callable[[str, list[float], int], list[Image]]
"""Path, times, height: :func:`visil.video.frames_at`, or one that decodes in a process of its own."""

CARD = (160, 120)
"""Largest width and height of a video's picture,"""
STRIP = (128, 72)
"""of one frame of a strip,"""
TALL = (96, 128)
"""and of one where both videos are upright."""
COLUMNS = 6
"""Moments that a strip shows of both videos."""
CELLS = 160
"""Cells a side of a drawn matrix, at most."""
FRAMES = 960
"""Frames a side that a matrix is computed from, at most: of longer videos, every second frame, every third …"""


def pictures(
    catalogue: Catalogue,
    video: Video,
    times: list[float],
    largest: tuple[int, int],
    frames_at: FramesAt = frames_at,
) -> list[str] | str:
    """Data URIs of the frames at ``times``; why there are none, where no file holds the video any more."""
    reason = "no file holds it any more"
    for path in catalogue.paths(video.id) or [video.path]:
        try:
            known = catalogue.file(path)
            if known is not None and known != (video.id, stamp_of(Path(path))) and not _holds(path, video):
                reason = "the file has changed since it was added"
                continue
            return [jpeg(frame, largest) for frame in frames_at(path, times, largest[1])]
        except VisilError as error:
            reason = getattr(error, "reason", "cannot be read")
        except (OSError, ValueError, MemoryError):
            reason = "cannot be read"
    return reason


def _holds(path: str, video: Video) -> bool:
    """Whether a file with another time stamp has the same bytes: it was copied, or touched."""
    return stamp_of(Path(path)).size == video.bytes and content_id(Path(path)) == video.id


def moments(segments: list[Segment], count: int = COLUMNS) -> list[tuple[int, float, float]]:
    """(stretch, time in the query, time in the target) at even distances over all that a pair shares."""
    lengths = np.array([max(segment.query[1] - segment.query[0], 1e-3) for segment in segments])
    ends = np.cumsum(lengths)
    chosen = []
    for place in (np.arange(count) + 0.5) / count * ends[-1]:
        number = min(int(np.searchsorted(ends, place, "right")), len(segments) - 1)
        share = float(1 - (ends[number] - place) / lengths[number])
        (start, end), (other_start, other_end) = segments[number].query, segments[number].target
        chosen.append(
            (number, start + share * (end - start), other_start + share * (other_end - other_start))
        )
    return chosen


def matrix_picture(index: Index, pair: Pair) -> tuple[str, Axis, Axis] | None:
    """S_f as a data URI, the query downwards, with its axes; None where the features cannot be read."""
    try:
        query, target = (_thinned(index.store.read(video)) for video in (pair.query, pair.target))
        match = index.model.compare(query, target)
        rows, columns = Axis.of(match.query_times), Axis.of(match.target_times)
        cells = shrink(match.frame_matrix, rows.bins(CELLS), columns.bins(CELLS))
    except VisilError:
        return None
    return _uri("png", heat_png(cells)), rows, columns


def jpeg(frame: Image, largest: tuple[int, int]) -> str:
    """A frame as a data URI, whole and no larger than that."""
    from PIL import Image as pillow

    picture = pillow.fromarray(frame)
    picture.thumbnail(largest, pillow.Resampling.BILINEAR)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=72, optimize=True)
    return _uri("jpeg", file.getvalue())


def _uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _thinned(features: VideoFeatures) -> VideoFeatures:
    step = -(-len(features) // FRAMES)
    return VideoFeatures(features.vectors[::step], features.timestamps[::step])
