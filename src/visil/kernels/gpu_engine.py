"""Many queries against a stream of targets on one GPU: copies and arithmetic side by side, scores or the best few out.

Targets come one by one, from disk or memory, and are laid end to end in page-locked buffers; while one chunk is
copied to the GPU the one before it is compared with all queries at once. Memory depends on the chunk and the queries,
never on how many targets there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.gpu_pools import supports
from visil.kernels.ragged_axes import RaggedAxis, frame_axis, ragged_axis
from visil.kernels.triton_comparator import ComparatorWeights, chamfer_scores, compared
from visil.kernels.triton_frames import FP8, frame_products, prepared
from visil.model.comparator import Comparator, Padding
from visil.model.similarity import MP_AP, Reduction
from visil.prefetch import prefetched

EnginePrecision = Literal["fp16", "bf16", "fp8"]
DTYPES: dict[EnginePrecision, torch.dtype] = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp8": FP8}

CHUNK_FRAMES = 16384
"""Target frames that are compared at once."""

COPIERS = 4
"""Threads that lay targets end to end: one alone copies more slowly than the GPU compares."""

MATRIX_CELLS = 1 << 28
"""Cells of S_f at once: half a gigabyte; more queries than that allows are taken in groups."""


@dataclass(frozen=True)
class Chunk:
    """Targets laid end to end."""

    first: int
    """Number of the first of them."""
    lengths: list[int]
    vectors: Tensor
    """float16 [frames, R, C], on its way to the device."""
    axis: RaggedAxis | Tensor
    """Where each of them begins and ends."""
    arrived: torch.cuda.Event | None
    """When it is there."""
    sound: Tensor
    """bool [1] in page-locked memory: whether all numbers are finite; known once :attr:`arrived` has come."""

    def check(self) -> None:
        """Refuse what is no number, by name."""
        if self.arrived is not None:
            self.arrived.synchronize()
        if not bool(self.sound):
            for number, video in enumerate(self.vectors.split(self.lengths), self.first):
                if not torch.isfinite(video).all():
                    raise UsageError(f"target {number}'s features contain NaN or infinity")


@dataclass(frozen=True)
class Best:
    """The best few targets of each query."""

    scores: NDArray[np.float32]
    """[queries, k], best first; -inf where there were fewer targets."""
    targets: NDArray[np.int64]
    """[queries, k], numbers of targets in the order they came; -1 where there were fewer."""
    matrices: list[list[Tensor]] | None = None
    """Of each query, S_f (Eq. 5) with each of them, float16 [X, Y] in host memory; None: not asked for."""


class GpuEngine:
    """Compares fixed queries [X_i, R, C] with any number of targets [Y_j, R, C] by the formulas of one model."""

    def __init__(
        self,
        queries: Sequence[Tensor],
        comparator: Comparator | None = None,
        *,
        symmetric: bool = False,
        frame_pool: tuple[Reduction, Reduction] = MP_AP,
        video_pool: tuple[Reduction, Reduction] = MP_AP,
        precision: EnginePrecision = "fp16",
        device: torch.device | str = "cuda",
        chunk_frames: int = CHUNK_FRAMES,
    ) -> None:
        if not supports(frame_pool, video_pool):
            raise UsageError(f"the GPU engine has no pooling {frame_pool} and {video_pool}")
        if precision not in get_args(EnginePrecision):
            raise UsageError(
                f"precision must be one of {', '.join(get_args(EnginePrecision))}, not {precision!r}"
            )
        if not queries or any(len(query) == 0 for query in queries):
            raise UsageError("the GPU engine compares queries of at least one frame")
        self.device = torch.device(device)
        self.dtype = DTYPES[precision]
        self.symmetric, self.outer = symmetric, frame_pool[1]
        self.chunk_frames = chunk_frames
        self._copiers = ThreadPoolExecutor(COPIERS)
        self._copies = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self.shape = tuple(queries[0].shape[1:])
        self._padding: Padding = comparator.padding if comparator is not None else "replicate"
        self._weights = None if comparator is None else ComparatorWeights.of(comparator, self.device)
        self._groups: list[tuple[slice, Tensor, RaggedAxis | Tensor]] = []
        start = 0
        for stop in _group_ends([len(query) for query in queries], max(1, MATRIX_CELLS // chunk_frames)):
            some = [self._checked(query, "a query") for query in queries[start:stop]]
            together = prepared(torch.cat([query.to(self.device) for query in some]), self.dtype)
            self._groups.append((slice(start, stop), together, self._axis([len(q) for q in some])))
            start = stop
        self.queries = len(queries)
        self._places = [
            vectors[start : start + len(queries[number])]
            for which, vectors, _ in self._groups
            for number, start in zip(range(which.start, which.stop), _starts(queries[which]), strict=True)
        ]
        """Each query's vectors, in its group's memory."""

    def chunk_scores(self, chunk: Chunk) -> Tensor:
        """CS_v (Eq. 6) of every query with every target of a chunk: float32 [queries, targets], on the device."""
        if chunk.arrived is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(chunk.arrived)
            axis = chunk.axis.tensors() if isinstance(chunk.axis, RaggedAxis) else [chunk.axis]
            for tensor in (chunk.vectors, *axis):
                tensor.record_stream(stream)  # it was allocated by the stream of copies
        target, columns = prepared(chunk.vectors, self.dtype), chunk.axis
        result = torch.empty(self.queries, len(chunk.lengths), device=self.device)
        for queries, vectors, rows in self._groups:
            # Numbers of half precision lie dense enough between -1 and 1: their error is below the operands'.
            matrix = torch.empty(len(vectors), len(target), dtype=torch.float16, device=self.device)
            frame_products(vectors, target, matrix, outer=self.outer, symmetric=self.symmetric)
            if isinstance(rows, RaggedAxis) and isinstance(columns, RaggedAxis):
                assert self._weights is not None
                output = compared(matrix, rows, columns, self._weights)
                found = chamfer_scores(output, rows.cells, columns.cells, symmetric=self.symmetric)
            else:
                assert isinstance(rows, Tensor)
                assert isinstance(columns, Tensor)
                found = chamfer_scores(matrix, rows, columns, symmetric=self.symmetric)
            result[queries] = found
        return result

    def scores(self, targets: Iterable[Tensor]) -> Iterator[tuple[Chunk, Tensor]]:
        """Chunk after chunk, with the scores of its targets; the next chunk is gathered and copied meanwhile."""
        with prefetched(self.chunks(targets)) as chunks:
            for chunk in chunks:
                scores = self.chunk_scores(chunk)
                chunk.check()
                yield chunk, scores

    def all_scores(self, targets: Iterable[Tensor]) -> NDArray[np.float32]:
        """[queries, targets]."""
        parts = [scores.cpu() for _, scores in self.scores(targets)]
        return torch.cat(parts, dim=1).numpy() if parts else np.empty((self.queries, 0), np.float32)

    def best(
        self,
        targets: Iterable[Tensor],
        k: int,
        on_targets: Callable[[int], None] | None = None,
        *,
        matrices: bool = False,
    ) -> Best:
        """The ``k`` best targets of each query, with their ``matrices`` if asked for.

        ``on_targets`` is told how many were compared so far.
        """
        kept: dict[tuple[int, int], Tensor] = {}
        top = torch.full((self.queries, k), -torch.inf, device=self.device)
        names = torch.full((self.queries, k), -1, dtype=torch.int64, device=self.device)
        for chunk, scores in self.scores(targets):
            count = scores.shape[1]
            numbers = torch.arange(chunk.first, chunk.first + count, device=self.device).expand_as(scores)
            top, places = torch.cat([top, scores], dim=1).topk(k, dim=1)
            names = torch.cat([names, numbers], dim=1).gather(1, places)
            if matrices:
                kept = self._matrices(kept, chunk, names)
            if on_targets is not None:
                on_targets(chunk.first + count)
        found = names.cpu().numpy()
        shown: list[list[Tensor]] | None = None
        if matrices:
            shown = [[kept[q, t] for t in row if t >= 0] for q, row in enumerate(found.tolist())]
        return Best(top.cpu().numpy(), found, shown)

    def _matrices(
        self, kept: dict[tuple[int, int], Tensor], chunk: Chunk, names: Tensor
    ) -> dict[tuple[int, int], Tensor]:
        """S_f of all pairs in ``names`` [queries, k]: those known already, and those that ``chunk`` brought."""
        vectors = prepared(chunk.vectors, self.dtype).split(chunk.lengths)
        result = {}
        for query, row in enumerate(names.tolist()):
            for target in row:
                if target >= chunk.first:
                    x, y = self._places[query], vectors[target - chunk.first]
                    out = torch.empty(len(x), len(y), dtype=torch.float16, device=self.device)
                    frame_products(x, y, out, outer=self.outer, symmetric=self.symmetric)
                    result[query, target] = out.cpu()
                elif target >= 0:
                    result[query, target] = kept[query, target]
        return result

    def chunks(self, targets: Iterable[Tensor]) -> Iterator[Chunk]:
        """Targets end to end, ``chunk_frames`` frames at a time at most; a longer one is by itself."""
        waiting: list[Tensor] = []
        frames, first = 0, 0
        for target in targets:
            if waiting and frames + len(target) > self.chunk_frames:
                yield self._packed(first, waiting, frames)
                first, waiting, frames = first + len(waiting), [], 0
            waiting.append(self._checked(target, f"target {first + len(waiting)}"))
            frames += len(target)
        if waiting:
            yield self._packed(first, waiting, frames)

    def _packed(self, first: int, targets: list[Tensor], frames: int) -> Chunk:
        lengths = [len(target) for target in targets]
        if self.device.type != "cuda" or all(target.is_cuda for target in targets):  # they are there
            vectors = torch.cat([target.to(torch.float16) for target in targets])
            return Chunk(first, lengths, vectors, self._axis(lengths), None, torch.isfinite(vectors).all())
        locked = torch.empty(frames, *self.shape, dtype=torch.float16, pin_memory=True)
        room, ends = locked.numpy(), np.cumsum(lengths)

        def copied(part: int) -> None:
            for place in range(part, len(targets), COPIERS):
                target = targets[place].to("cpu", torch.float16).numpy()
                room[ends[place] - len(target) : ends[place]] = target

        # Plain copies in threads of our own: torch would wait for all of its, which other work may hold up.
        list(self._copiers.map(copied, range(COPIERS)))
        assert self._copies is not None
        with torch.cuda.stream(self._copies):
            vectors = locked.to(self.device, non_blocking=True)
            sound = torch.empty(1, dtype=torch.bool, pin_memory=True)
            sound.copy_(torch.isfinite(vectors).all()[None], non_blocking=True)
            axis = self._axis(lengths)
            arrived = self._copies.record_event()
        return Chunk(first, lengths, vectors, axis, arrived, sound)

    def _checked(self, video: Tensor, name: str) -> Tensor:
        if video.ndim != 3 or tuple(video.shape[1:]) != self.shape or len(video) == 0:
            raise UsageError(
                f"{name} has features {list(video.shape)}, not [frames, {self.shape[0]}, {self.shape[1]}]"
            )
        if name == "a query" and not torch.isfinite(video).all():
            raise UsageError("a query's features contain NaN or infinity")
        return video

    def _axis(self, lengths: list[int]) -> RaggedAxis | Tensor:
        if self._weights is None:
            return frame_axis(lengths).to(self.device, non_blocking=True)
        return ragged_axis(lengths, self._padding).to(self.device)


def _starts(videos: Sequence[Tensor]) -> list[int]:
    """Where each of some videos begins when they are laid end to end."""
    return [0, *np.cumsum([len(video) for video in videos])[:-1].tolist()]


def _group_ends(lengths: Sequence[int], most: int) -> Iterator[int]:
    """Where to cut videos of these lengths so that the frames of a group are at most ``most``."""
    frames = 0
    for place, length in enumerate(lengths):
        if frames and frames + length > most:
            yield place
            frames = 0
        frames += length
    yield len(lengths)
