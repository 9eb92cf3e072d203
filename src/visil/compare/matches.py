"""Features to matches: one pair in bounded memory, or one query with many targets beside each other.

What :class:`visil.ViSiL` offers as ``compare`` and ``compare_many``; scores and matrices come from
:class:`visil.kernels.Scorer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.reading import Common, PairReading, read_together
from visil.errors import UsageError
from visil.kernels import Scorer
from visil.kernels.packing import runs
from visil.kernels.torch_engine import finite
from visil.matching.calibration import verdict
from visil.matching.localize import (
    WALL,
    LocalizeConfig,
    Localizer,
    Path,
    grown,
    neutral,
    segments,
    walled_spans,
)
from visil.matching.match import Match, Matrices
from visil.model.comparator import SHORTEST
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.network import Network

LongVideos = Literal["exact", "authors"]

KEPT_CELLS = 1 << 25
"""A match keeps its matrices up to this many frame pairs (128 MB); beyond, it computes them again when asked."""

AUTHORS_CHUNK = 2048
"""Target frames that the authors' code compares at once (``long_videos="authors"``)."""

WIDE_FRAMES = 4096
"""Target frames that are compared beside each other: some 50 MB of half-precision features."""

NOTHING_SHOWN = -1.0
"""The score without blank frames of a pair that has no others."""


def compare(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    target: VideoFeatures,
    long_videos: LongVideos = "exact",
    common: Common | None = None,
) -> Match:
    """How two videos relate, and where; memory for one strip, and for the matrices while they are small.

    ``common`` [X] is taken off the similarities of each query frame before they are judged (``index.background``);
    score and matrices stay as they are.
    """
    check(model, query, "query")
    check(model, target, "target")
    keep = len(query) * len(target) <= KEPT_CELLS
    rows: list[Tensor] = []
    outputs: list[Tensor] = []
    query_blank, target_blank = _blank(query), _blank(target)
    config = model.config.localize.for_length(min(len(query), len(target)))
    localizer = Localizer(len(target), config)
    tracer = localizer if config.faint is None else Localizer(len(target), config.for_evidence)

    reading = PairReading(model, query, target, common)
    read = 0

    def on_frames(start: int, strip: Tensor) -> None:
        nonlocal read
        # A video of 1 to 3 frames was repeated for the comparator: its own frames are the first ones.
        strip = strip[: max(0, len(query) - start), : len(target)].cpu()
        for seen in reading.feed(strip):
            rows_blank = None if query_blank is None else query_blank[read : read + len(seen)]
            for reader in {localizer, tracer}:
                reader.feed(neutral(seen, reader.config, rows_blank, target_blank))
            read += len(seen)
        if keep:
            rows.append(strip.float())

    def on_output(_: int, strip: Tensor) -> None:
        if keep:
            outputs.append(strip.cpu().float())

    plain = scorer.pair(query.vectors, target.vectors, on_frames, on_output)
    if long_videos == "authors":
        plain = chunked_score(scorer, query.vectors, target.vectors)
    kept: Matrices | None = (torch.cat(rows).numpy(), torch.cat(outputs).numpy()) if keep else None

    def both() -> Matrices:
        return kept if kept is not None else scorer.matrices(query.vectors, target.vectors)

    shown = plain
    if _has_blank(query) or _has_blank(target):
        q, t = query.vectors[_shown(query)], target.vectors[_shown(target)]
        shown = scorer.pair(q, t) if len(q) and len(t) else NOTHING_SHOWN
    (stretch,) = tracer.strengths([(0, len(target))])
    return _judged(model.config, query, target, plain, shown, stretch, localizer.paths(), both, common)


def compare_many(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    targets: Iterable[VideoFeatures],
    common: Common | None = None,
) -> Iterator[Match]:
    """:func:`compare` with each of many targets: the same answers, several times faster for short videos.

    Their frames stand beside each other in one matrix with walls between, so that products, Chamfer similarity and the
    search for stretches are few large operations instead of many small ones.
    """
    check(model, query, "query")

    def checked(target: VideoFeatures) -> VideoFeatures:
        check(model, target, "target")
        return target

    most = min(WIDE_FRAMES, scorer.wide_cells // len(query))
    for run in runs(map(checked, targets), len, most):
        if len(query) * len(run[0]) > scorer.wide_cells:  # alone in its run
            yield compare(model, scorer, query, run[0], common=common)
        else:
            yield from _matches_together(model, scorer, query, run, common)


@torch.inference_mode()
def _matches_together(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    targets: list[VideoFeatures],
    common: Common | None,
) -> Iterator[Match]:
    frames = scorer.frames(query.vectors, [target.vectors for target in targets])
    lengths = [len(target) for target in targets]
    shown = _scores_of_shown(scorer, query, targets, frames)
    parts = frames.split(lengths, dim=1)
    seen = read_together(model, query, targets, parts, common)
    strips = [strip.float().cpu().numpy() for strip in parts]
    stretches, found = _stretches(model.config.localize, query, targets, seen)
    for place, (plain, output) in enumerate(scorer.read(frames, lengths)):
        kept = (strips[place], output.float().cpu().numpy())
        without_blank = shown.get(place, plain)
        yield _judged(
            model.config,
            query,
            targets[place],
            plain,
            without_blank,
            stretches[place],
            found[place],
            partial(_same, kept),
            common,
        )


def _scores_of_shown(
    scorer: Scorer, query: VideoFeatures, targets: Sequence[VideoFeatures], frames: Tensor
) -> dict[int, float]:
    """CS_v without blank frames, which any two videos have in common, by target; only where there are such frames."""
    every = range(len(targets))
    chosen = [place for place in every if _has_blank(query) or _has_blank(targets[place])]
    if not chosen:
        return {}
    found = dict.fromkeys(chosen, NOTHING_SHOWN)
    parts = frames.split([len(target) for target in targets], dim=1)
    rows = _shown(query).to(frames.device)
    left = [place for place in chosen if rows.any() and _shown(targets[place]).any()]
    if left:
        columns = [parts[place][rows][:, _shown(targets[place]).to(frames.device)] for place in left]
        lengths = [part.shape[1] for part in columns]
        read = scorer.read(torch.cat(columns, dim=1), lengths)
        found |= {place: score for place, (score, _) in zip(left, read, strict=True)}
    return found


def _stretches(
    config: LocalizeConfig,
    query: VideoFeatures,
    targets: Sequence[VideoFeatures],
    matrices: Sequence[NDArray[np.float32]],
) -> tuple[list[float], list[list[Path]]]:
    """For each target, the strongest stretch and the paths to be shown, from their matrices."""
    limits = [config.for_length(min(len(query), len(target))).min_gain for target in targets]

    def read(config: LocalizeConfig, chosen: Sequence[int]) -> tuple[Localizer, list[tuple[int, int]]]:
        columns, spans = walled_spans([len(targets[i]) for i in chosen])
        wide = np.full((len(query), columns), WALL, np.float32)
        for i, (start, stop) in zip(chosen, spans, strict=True):
            wide[:, start:stop] = neutral(matrices[i], config, _blank(query), _blank(targets[i]))
        localizer = Localizer(columns, replace(config, min_gain=min(limits)))
        localizer.feed(wide)
        return localizer, spans

    every = range(len(targets))
    tracer, spans = read(config.for_evidence, every)
    stretches = tracer.strengths(spans)
    if config.faint is None:
        return stretches, tracer.paths_within(spans, limits)
    # A path that gains enough above the threshold gains even more above a lower one.
    likely = [i for i, gain in zip(every, tracer.gains(spans), strict=True) if gain >= limits[i]]
    found: list[list[Path]] = [[] for _ in targets]
    if likely:
        localizer, spans = read(config, likely)
        for i, paths in zip(likely, localizer.paths_within(spans, [limits[i] for i in likely]), strict=True):
            found[i] = paths
    return stretches, found


def _same(kept: Matrices) -> Matrices:
    return kept


def _judged(
    config: ViSiLConfig,
    query: VideoFeatures,
    target: VideoFeatures,
    plain: float,
    shown: float,
    stretch: float,
    paths: list[Path],
    both: Callable[[], Matrices],
    common: Common | None,
) -> Match:
    """A match, from its score, the score without blank frames, the strongest stretch and those to be shown."""
    query_blank, target_blank = _blank(query), _blank(target)
    if query_blank is not None and target_blank is not None:
        paths = [grown(path, query_blank, target_blank) for path in paths]
    if common is not None:
        if config.reader is None:
            paths = [_as_alike_as_they_are(path, common) for path in paths]
        if _shown(query).any():
            shown -= float(common[_shown(query).numpy()].mean())
    calibration = config.calibration
    frame_pairs = len(query) * len(target)
    evidence = calibration.evidence(shown, stretch, frame_pairs) if calibration else plain
    confidence = min(max(plain, 0.0), 1.0)
    if calibration:
        confidence = calibration.confidence(shown, stretch, frame_pairs)
    return Match(
        score=plain,
        confidence=confidence,
        verdict=calibration.verdict(confidence) if calibration else verdict(confidence),
        evidence=evidence,
        stretch=stretch,
        segments=segments(paths, _times(query), _times(target)),
        calibrated=calibration is not None,
        query_path=query.path,
        target_path=target.path,
        query_times=query.timestamps.numpy(),
        target_times=target.timestamps.numpy(),
        _matrices=both,
    )


def _as_alike_as_they_are(path: Path, common: Common) -> Path:
    """A path whose score is the similarity that people see, nothing taken off."""
    first, last = path.query
    return replace(path, score=path.score + float(common[first : last + 1].mean()))


def chunked_score(scorer: Scorer, query: Tensor, target: Tensor) -> float:
    """As the authors' code: the target in chunks of 2048 frames, a last chunk under four dropped, plain mean.

    Scores long targets too low, since a query matches in few of the chunks; here to reproduce their numbers.
    """
    chunks = [c for c in target.split(AUTHORS_CHUNK) if len(c) >= SHORTEST or len(target) < SHORTEST]
    return float(np.mean([scorer.pair(query, chunk) for chunk in chunks]))


def check(model: Network, video: VideoFeatures, name: str) -> None:
    """Refuse features that another model made, or that are no numbers."""
    if video.vectors.shape[-1] != model.dim:
        raise UsageError(
            f"the {name}'s features have {video.vectors.shape[-1]} channels, this model makes {model.dim}: "
            "embed it with this model"
        )
    if not finite(video.vectors):
        raise UsageError(f"the {name}'s features contain NaN or infinity")


def _has_blank(video: VideoFeatures) -> bool:
    return video.blank is not None and bool(video.blank.any())


def _shown(video: VideoFeatures) -> Tensor:
    return torch.ones(len(video), dtype=torch.bool) if video.blank is None else ~video.blank


def _blank(video: VideoFeatures) -> NDArray[np.bool_] | None:
    return None if video.blank is None else video.blank.numpy()


def _times(video: VideoFeatures) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return video.timestamps.numpy(), video.ends.numpy()
