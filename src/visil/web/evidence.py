"""Files made of one match: a report, its stretches as a timeline, and a small copy of each video.

All of it is made in an engine, and every file is read by a decoder of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from visil.compare.visil import ViSiL
from visil.matching.localize import Segment
from visil.matching.match import Match
from visil.model.features import VideoFeatures
from visil.report.exports import export
from visil.report.one_pair import Reader, write_pair_report
from visil.report.relations import Media, Relation
from visil.video import Image
from visil.video.sampling import Sampling
from visil.video.writer import write_video
from visil.web.export import OnceFailed
from visil.web.pictures import picture_size
from visil.web.sandbox import DecodedStream, Decoder
from visil.web.settings import Limits

RATE = 12.0
"""Frames a second of a small copy."""
SIDE = 256
"""Pixels a side of the square that its frames pass through, and the height of most copies."""
QUALITY = 30
"""Of the encoder (crf)."""


def small_copy(limits: Limits, path: Path, file: Path) -> None:
    """A file as a small video without sound that every browser plays."""
    sampling = Sampling(fps=RATE, crop=SIDE, fit="whole")
    with Decoder(limits) as decoder, decoder.stream(path, sampling, limits.decode_query_s) as stream:
        width, height = stream.info.width, stream.info.height
        size = picture_size(round(SIDE * width / max(1, height)), width, height)
        even = (max(2, size[0] // 2 * 2), max(2, size[1] // 2 * 2))
        write_video(file, _images(stream), RATE, crf=QUALITY, size=even, threads=1, keyframes=round(RATE))


def _images(stream: DecodedStream) -> Iterator[Image]:
    for frames in stream:
        yield from frames.images


def report(
    limits: Limits,
    model: ViSiL,
    sides: tuple[VideoFeatures, VideoFeatures],
    request: dict[str, Any],
) -> None:
    """One match, as it was told, as an HTML file; the request holds paths and names of the files."""
    first, second = (
        replace(features, path=path) for features, path in zip(sides, request["paths"], strict=True)
    )
    told = request["match"]
    match = Match(
        *(told["score"], told["confidence"], told["verdict"], _segments(told)),
        calibrated=model.config.calibration is not None,
        query_path=first.path,
        target_path=second.path,
        query_times=first.timestamps.numpy(),
        target_times=second.timestamps.numpy(),
        note=told["note"],
        _matrices=partial(model.scorer().matrices, first.vectors, second.vectors),
    )
    with Decoder(limits) as decoder:
        write_pair_report(
            *(model, first, second, match, request["file"]),
            names=(request["names"][0], request["names"][1]),
            reader=Reader(decoder.probe, OnceFailed(decoder.frames_at)),
        )


def stretches(limits: Limits, request: dict[str, Any]) -> None:
    """The shared stretches of a match for other programs, as the ending of the file's name says."""
    told = request["match"]
    with Decoder(limits) as decoder:
        media = tuple(
            Media(name, None if path is None else _rate(decoder, Path(path), seconds))
            for name, path, seconds in zip(
                request["names"], request["paths"], request["seconds"], strict=True
            )
        )
    relation = Relation(
        *(media[0].path, media[1].path, told["score"], told["confidence"], told["verdict"], _segments(told)),
        media=(media[0], media[1]),
    )
    export([relation], request["file"])


def _segments(told: dict[str, Any]) -> list[Segment]:
    return [
        Segment(tuple(one["query"]), tuple(one["target"]), one["score"], one["confidence"], one["reversed"])
        for one in told["segments"]
    ]


def _rate(decoder: Decoder, path: Path, seconds: float | None) -> tuple[float | None, float | None]:
    info = decoder.probe(path)
    return info.fps, info.duration or seconds
