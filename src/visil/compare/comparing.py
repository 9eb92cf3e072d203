"""Features to answers: one pair in bounded memory, or one query against many targets side by side.

What :class:`visil.ViSiL` offers as ``compare``, ``compare_many`` and ``scores``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import FrameMatrix, RunningPool, score_pair
from visil.kernels.cpu_comparator import fast_comparator
from visil.kernels.joined import Joined
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
from visil.model.comparator import SHORTEST, Comparator, hard_tanh, repeated
from visil.model.features import VideoFeatures

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL

LongVideos = Literal["exact", "authors"]
Common = NDArray[np.float32]
"""How common each frame of a query is, [X]."""

KEPT_CELLS = 1 << 25
"""A match keeps its matrices up to this many frame pairs (128 MB); beyond, it computes them again when asked."""

AUTHORS_CHUNK = 2048
"""Target frames that the authors' code compares at once (``long_videos="authors"``)."""

WIDE_FRAMES = 4096
"""Target frames that are compared side by side: some 50 MB of half-precision features."""

WIDE_CELLS = 1 << 22
"""Frame pairs of one side-by-side matrix (16 MB); a longer pair is compared by itself, strip by strip."""


def score(
    model: ViSiL,
    query: Tensor,
    target: Tensor,
    on_frames: Callable[[int, Tensor], None] | None = None,
    on_output: Callable[[int, Tensor], None] | None = None,
) -> float:
    """CS_v of Eq. 6; the listeners see the rows of S_f and of S_v as they come."""
    query, target = placed(model, query), placed(model, target)
    pair = FrameMatrix(
        repeated(query, model.comparator),
        repeated(target, model.comparator),
        symmetric=model.config.symmetric,
        inner=model.config.frame_pool[0],
        outer=model.config.frame_pool[1],
    )
    pool = RunningPool(*model.config.video_pool, symmetric=model.config.symmetric)
    network = None if model.comparator is None else fast_comparator(model.comparator, pair.arithmetic)
    return score_pair(pair, network, pool, on_frames=on_frames, on_output=on_output)


def compare(
    model: ViSiL,
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

    def on_frames(start: int, strip: Tensor) -> None:
        # A video of 1 to 3 frames was repeated for the comparator: its own frames are the first ones.
        strip = strip[: max(0, len(query) - start), : len(target)].cpu()
        rows_blank = None if query_blank is None else query_blank[start : start + len(strip)]
        seen = strip.numpy() if common is None else strip.numpy() - common[start : start + len(strip), None]
        for reader in {localizer, tracer}:
            reader.feed(neutral(seen, reader.config, rows_blank, target_blank))
        if keep:
            rows.append(strip.float())

    def on_output(_: int, strip: Tensor) -> None:
        if keep:
            outputs.append(strip.cpu().float())

    plain = score(model, query.vectors, target.vectors, on_frames, on_output)
    if long_videos == "authors":
        plain = chunked_score(model, query.vectors, target.vectors)
    kept: Matrices | None = (torch.cat(rows).numpy(), torch.cat(outputs).numpy()) if keep else None

    def both() -> Matrices:
        return kept if kept is not None else matrices(model, query.vectors, target.vectors)

    shown = _score_of_shown(model, query, target, plain)
    (stretch,) = tracer.strengths([(0, len(target))])
    return _judged(model, query, target, plain, shown, stretch, localizer.paths(), both, common)


def compare_many(
    model: ViSiL, query: VideoFeatures, targets: Iterable[VideoFeatures], common: Common | None = None
) -> Iterator[Match]:
    """:func:`compare` with each of many targets: the same answers, several times faster for short videos.

    Their frames stand side by side in one matrix with walls between, so that products, Chamfer similarity and the
    search for stretches are few large operations instead of many small ones.
    """
    check(model, query, "query")
    batch: list[VideoFeatures] = []
    frames = 0
    for target in targets:
        check(model, target, "target")
        if len(query) * len(target) > WIDE_CELLS:
            yield from _matches_together(model, query, batch, common)
            batch, frames = [], 0
            yield compare(model, query, target, common=common)
            continue
        if batch and (frames + len(target)) > min(WIDE_FRAMES, WIDE_CELLS // len(query)):
            yield from _matches_together(model, query, batch, common)
            batch, frames = [], 0
        batch.append(target)
        frames += len(target)
    yield from _matches_together(model, query, batch, common)


@torch.inference_mode()
def _matches_together(
    model: ViSiL, query: VideoFeatures, targets: list[VideoFeatures], common: Common | None
) -> Iterator[Match]:
    if not targets:
        return
    config = model.config
    pairs = FrameMatrix(
        placed(model, query.vectors),
        Joined([placed(model, target.vectors) for target in targets]),
        symmetric=config.symmetric,
        inner=config.frame_pool[0],
        outer=config.frame_pool[1],
    )
    strips = pairs.full().split([len(target) for target in targets], dim=1)
    network = None if model.comparator is None else fast_comparator(model.comparator, pairs.arithmetic)
    seen = [strip.float().cpu().numpy() - (0 if common is None else common[:, None]) for strip in strips]
    stretches, found = _read_together(config.localize, query, targets, seen)
    for target, strip, stretch, paths in zip(targets, strips, stretches, found, strict=True):
        plain, output = _read(model, strip, network)
        shown = plain
        if _has_blank(query) or _has_blank(target):
            part = strip[_shown(query).to(strip.device)][:, _shown(target).to(strip.device)]
            shown = _read(model, part, network)[0] if part.numel() else -1.0
        kept = (strip.float().cpu().numpy(), output.float().cpu().numpy())
        yield _judged(model, query, target, plain, shown, stretch, paths, partial(_same, kept), common)


def _read_together(
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


def read_matrix(matrix: Tensor, comparator: Comparator | None, pool: RunningPool) -> tuple[float, Tensor]:
    """CS_v and S_v from a whole S_f."""
    output = matrix
    if comparator is not None:
        # Repeating a video's frames repeats its rows or columns of S_f.
        output = hard_tanh(comparator(repeated(repeated(matrix, comparator), comparator, dim=1)))
    pool.update(output)
    return pool.result(), output


def _read(model: ViSiL, matrix: Tensor, network: Comparator | None) -> tuple[float, Tensor]:
    pool = RunningPool(*model.config.video_pool, symmetric=model.config.symmetric)
    return read_matrix(matrix, network, pool)


def _judged(
    model: ViSiL,
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
        paths = [_as_alike_as_they_are(path, common) for path in paths]
        if _shown(query).any():
            shown -= float(common[_shown(query).numpy()].mean())
    calibration = model.config.calibration
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


def chunked_score(model: ViSiL, query: Tensor, target: Tensor) -> float:
    """As the authors' code: the target in chunks of 2048 frames, a last chunk under four dropped, plain mean.

    Scores long targets too low, since a query matches in few of the chunks; here to reproduce their numbers.
    """
    chunks = [c for c in target.split(AUTHORS_CHUNK) if len(c) >= SHORTEST or len(target) < SHORTEST]
    return float(np.mean([score(model, query, chunk) for chunk in chunks]))


def matrices(model: ViSiL, query: Tensor, target: Tensor) -> Matrices:
    """S_f and S_v whole."""
    rows: list[Tensor] = []
    outputs: list[Tensor] = []
    score(model, query, target, lambda _, strip: rows.append(strip), lambda _, strip: outputs.append(strip))
    frames = torch.cat(rows)[: len(query), : len(target)]
    return frames.float().cpu().numpy(), torch.cat(outputs).float().cpu().numpy()


def check(model: ViSiL, video: VideoFeatures, name: str) -> None:
    """Refuse features that another model made, or that are no numbers."""
    if video.vectors.shape[-1] != model.dim:
        raise UsageError(
            f"the {name}'s features have {video.vectors.shape[-1]} channels, this model makes {model.dim}: "
            "embed it with this model"
        )
    if not finite(video.vectors):
        raise UsageError(f"the {name}'s features contain NaN or infinity")


def finite(vectors: Tensor) -> bool:
    """Whether there is neither NaN nor infinity; smallest and largest take one pass, ``isfinite`` several."""
    return all(bool(torch.stack(torch.aminmax(part)).isfinite().all()) for part in vectors.split(4096))


def _score_of_shown(model: ViSiL, query: VideoFeatures, target: VideoFeatures, plain: float) -> float:
    """CS_v without blank frames, which any two videos have in common; -1 where nothing else is left."""
    if not _has_blank(query) and not _has_blank(target):
        return plain
    q, t = query.vectors[_shown(query)], target.vectors[_shown(target)]
    return score(model, q, t) if len(q) and len(t) else -1.0


def placed(model: ViSiL, vectors: Tensor) -> Tensor:
    """Where the model is, and in the comparator's precision; without one the arithmetic is the features' own."""
    if model.comparator is None:
        return vectors.to(model.device)
    vectors = vectors.to(model.device)
    return vectors.to(model.comparator.fconv.weight.dtype) if vectors.dtype == torch.float64 else vectors


def _has_blank(video: VideoFeatures) -> bool:
    return video.blank is not None and bool(video.blank.any())


def _shown(video: VideoFeatures) -> Tensor:
    return torch.ones(len(video), dtype=torch.bool) if video.blank is None else ~video.blank


def _blank(video: VideoFeatures) -> NDArray[np.bool_] | None:
    return None if video.blank is None else video.blank.numpy()


def _times(video: VideoFeatures) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return video.timestamps.numpy(), video.ends.numpy()
