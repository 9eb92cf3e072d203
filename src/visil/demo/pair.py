"""Two videos that share footage: the first thing a user sees visil do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from visil.demo.scenes import FPS, SIZE, Shot, photograph, render_film, render_scene
from visil.edits.frames import border, colour, crop, edited, overlay, recode, speed
from visil.files import make_folder
from visil.video import Image
from visil.video.writer import write_video

Span = tuple[float, float]

QUERY_SHOTS: tuple[Shot, ...] = tuple(
    (name, 5.0, take) for name in ("rocket", "chelsea", "coffee", "motorcycle_left") for take in (0, 1)
)
"""Four scenes of two shots each."""
CROPPED = (6.0, 20.0)
"""Seconds of the query that the target shows cropped, captioned, darker and squeezed: 14, over a cut."""
FASTER = (27.0, 37.0)
"""Seconds of the query that the target shows at :data:`FASTER_BY` times the speed."""
FASTER_BY = 1.25


@dataclass(frozen=True)
class DemoPair:
    """Two files and the truth about them."""

    query: Path
    target: Path
    truth: list[tuple[Span, Span]]
    """The stretches they share, in seconds: where in the query, where in the target."""


def make_pair(folder: str | os.PathLike[str], *, size: tuple[int, int] = SIZE, fps: float = FPS) -> DemoPair:
    """``query.mp4`` (40 s) and ``target.mp4`` (60 s) in ``folder``, rendered where they are not there yet."""
    place = make_folder(folder)
    query, target = place / "query.mp4", place / "target.mp4"

    def shot(name: str, seconds: float) -> Iterator[Image]:
        return render_scene(photograph(name), seconds, fps, size)

    def footage(start: float, end: float) -> Iterator[Image]:
        """The frames of the query from ``start`` to ``end``."""
        return render_film(QUERY_SHOTS, start, end, fps, size)

    length = sum(seconds for _, seconds, _ in QUERY_SHOTS)
    cropped = edited(
        footage(*CROPPED),
        crop(0.8, 0.4, 0.3),
        colour(brightness=0.8, contrast=1.15, saturation=0.8, middle=128),
        overlay("BEST OF THE WEEK"),
        recode(size[0] * size[1], fps),
    )
    faster = edited(footage(*FASTER), speed(FASTER_BY), border(0.12))
    parts: list[tuple[Iterator[Image], float, Span | None]] = [
        (shot("hubble_deep_field", 6), 6, None),
        (shot("retina", 5), 5, None),
        (shot("camera", 7), 7, None),
        (cropped, CROPPED[1] - CROPPED[0], CROPPED),
        (shot("coins", 6), 6, None),
        (shot("ihc", 6), 6, None),
        (faster, (FASTER[1] - FASTER[0]) / FASTER_BY, FASTER),
        (shot("astronaut", 8), 8, None),
    ]
    truth: list[tuple[Span, Span]] = []
    time = 0.0
    for _, seconds, shared in parts:
        if shared is not None:
            truth.append((shared, (time, time + seconds)))
        time += seconds
    wanted = {query: footage(0, length), target: chain.from_iterable(frames for frames, _, _ in parts)}
    with ThreadPoolExecutor() as both:
        missing = [path for path in wanted if not path.exists()]
        written = [both.submit(write_video, path, wanted[path], fps) for path in missing]
    for video in written:
        video.result()
    return DemoPair(query, target, truth)
