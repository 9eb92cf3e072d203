"""Scores alone, of one query with many targets at hand: few large products instead of many small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.comparing import WIDE_CELLS, WIDE_FRAMES, check, finite, placed
from visil.errors import UsageError
from visil.kernels import FrameMatrix, RunningPool, gpu, score_pair
from visil.kernels.cores import on_all_cores
from visil.kernels.cpu_comparator import FastComparator, fast_comparator, passes
from visil.kernels.cpu_precision import Arithmetic, Precision, arithmetic
from visil.kernels.joined import Joined
from visil.kernels.ragged import pooled_spans
from visil.kernels.signs import signs_only
from visil.model.comparator import SHORTEST, Comparator, hard_tanh, repeated
from visil.model.features import VideoFeatures
from visil.model.similarity import MP_AP, Reduction

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL

GPU_CELLS = 1 << 28
"""Frame pairs of one pair that a GPU compares at once; a longer one goes strip by strip."""

READ_CELLS = 1 << 19
"""Frame pairs that a comparator reads at once: 32 MB of activations in half precision."""

NARROW_FRAMES = 256
"""Target frames side by side at least, where the work is shared out among threads."""


def matrix_scores(
    query: Tensor,
    targets: Sequence[Tensor],
    *,
    symmetric: bool = False,
    frame_pool: tuple[Reduction, Reduction] = MP_AP,
    video_pool: tuple[Reduction, Reduction] = MP_AP,
    comparator: Comparator | None = None,
    precision: Precision | None = None,
) -> NDArray[np.float64]:
    """CS_v of one query [X, R, C] with many targets, by the product's own engine: float64 [targets].

    The frames of several targets stand side by side in one matrix, so that products are few and large; a long pair is
    read by itself, strip by strip. In fp32 equal to the score of :meth:`visil.ViSiL.compare` with the same settings;
    ``precision`` asks for a faster arithmetic (:mod:`visil.kernels.cpu_precision`).
    """
    if (
        gpu.usable(query.device)
        and precision in (None, "auto")
        and _on_gpu(query, targets, frame_pool, video_pool)
    ):
        from visil.kernels.gpu_engine import GpuEngine

        engine_there = GpuEngine(
            [query],
            comparator,
            symmetric=symmetric,
            frame_pool=frame_pool,
            video_pool=video_pool,
            device=query.device,
        )
        return engine_there.all_scores(targets)[0].astype(np.float64)
    chosen = arithmetic(precision)
    if query.device.type != "cpu" or query.dtype == torch.float64:
        chosen = "fp32"
    for video in (query, *targets):
        _check(query, video)
        if chosen == "fp32" and not finite(video):  # the others look while they round
            raise UsageError("features contain NaN or infinity: make them anew")
    fast = None if comparator is None else fast_comparator(comparator, chosen)
    engine = Engine(symmetric, frame_pool, video_pool, fast, chosen)
    query = repeated(query, comparator)
    runs = list(_batches(len(query), [len(target) for target in targets], _most_cells(comparator)))
    results = np.full(len(targets), np.nan)

    def score(run: tuple[int, int]) -> None:
        results[run[0] : run[1]] = engine.scores(query, targets[run[0] : run[1]])

    on_all_cores(score, runs, on=query.device)
    return results


def scores(
    model: ViSiL, query: VideoFeatures, targets: Iterable[VideoFeatures], precision: Precision | None = None
) -> NDArray[np.float64]:
    """:func:`matrix_scores` of a model's own settings; targets may be read as they come, some 50 MB at a time."""
    check(model, query, "query")
    found: list[NDArray[np.float64]] = []
    for batch in _gathered(model, targets):
        found.append(
            matrix_scores(
                placed(model, query.vectors),
                batch,
                symmetric=model.config.symmetric,
                frame_pool=model.config.frame_pool,
                video_pool=model.config.video_pool,
                comparator=model.comparator,
                precision=precision,
            )
        )
    return np.concatenate([np.empty(0), *found])


def _gathered(model: ViSiL, targets: Iterable[VideoFeatures]) -> Iterator[list[Tensor]]:
    batch: list[Tensor] = []
    for target in targets:
        check(model, target, "target")
        batch.append(placed(model, target.vectors))
        if sum(map(len, batch)) >= WIDE_FRAMES * torch.get_num_threads():
            yield batch
            batch = []
    if batch:
        yield batch


@dataclass(frozen=True)
class Engine:
    """How two videos are compared, and in which arithmetic."""

    symmetric: bool
    frame_pool: tuple[Reduction, Reduction]
    video_pool: tuple[Reduction, Reduction]
    comparator: FastComparator | None
    arithmetic: Arithmetic

    @torch.inference_mode()
    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """CS_v with each of a few targets; a longer one comes alone."""
        if len(query) * len(targets[0]) > _most_cells(self.comparator):
            pool = RunningPool(*self.video_pool, symmetric=self.symmetric)
            pair = self._matrix(query, repeated(targets[0], self.comparator))
            return np.array([score_pair(pair, self.comparator, pool)])
        if self.comparator is not None:
            targets = [repeated(target, self.comparator) for target in targets]
        lengths = [len(target) for target in targets]
        joined = Joined(targets)
        together = self._matrix(query, joined).full()
        if self.comparator is None:
            return self._pooled(together, joined.spans)
        found = []
        for run in passes(lengths, len(query)):
            start = sum(lengths[: run.start])
            part = together[:, start : start + sum(lengths[run])]
            output, spans = self.comparator.many(part, lengths[run])
            found.append(self._pooled(hard_tanh(output), spans))
        return np.concatenate(found)

    def _matrix(self, query: Tensor, target: Tensor | Joined) -> FrameMatrix:
        inner, outer = self.frame_pool
        return FrameMatrix(
            query, target, symmetric=self.symmetric, inner=inner, outer=outer, precision=self.arithmetic
        )

    def _pooled(self, matrix: Tensor, spans: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
        return pooled_spans(matrix, spans, *self.video_pool, symmetric=self.symmetric)


def _on_gpu(
    query: Tensor,
    targets: Sequence[Tensor],
    frame_pool: tuple[Reduction, Reduction],
    video_pool: tuple[Reduction, Reduction],
) -> bool:
    """Whether the GPU's engine takes these: known poolings, whole vectors, not in float64, no matrix too large."""
    from visil.kernels.gpu_pools import supports

    longest = max((len(target) for target in targets), default=0)
    return (
        supports(frame_pool, video_pool)
        and query.dtype != torch.float64
        and len(query) * longest <= GPU_CELLS
        and not any(signs_only(video) for video in (query, *targets))
    )


def _most_cells(comparator: Comparator | None) -> int:
    return WIDE_CELLS if comparator is None else READ_CELLS


def _batches(query: int, lengths: Sequence[int], cells: int) -> Iterator[tuple[int, int]]:
    """Runs of targets, start and end, whose frames fit side by side; one that is too long is a run of its own."""
    threads = torch.get_num_threads()
    share = WIDE_FRAMES if threads == 1 else max(NARROW_FRAMES, sum(lengths) // (2 * threads))
    most = max(1, min(WIDE_FRAMES, share, cells // query))
    start, frames = 0, 0
    for place, length in enumerate(lengths):
        length = max(length, SHORTEST)
        if place > start and frames + length > most:
            yield start, place
            start, frames = place, 0
        frames += length
    if start < len(lengths):
        yield start, len(lengths)


def _check(query: Tensor, video: Tensor) -> None:
    if video.shape[1:] != query.shape[1:]:
        raise UsageError(
            f"videos to compare must have the same regions and channels, got {list(query.shape[1:])} and "
            f"{list(video.shape[1:])}: make their features alike"
        )
    if len(video) == 0:
        raise UsageError("a video to compare has no frames")
