"""Many queries against a stream of targets on one GPU: copies and arithmetic side by side, scores out.

Targets come one by one, from disk or memory, and are laid end to end in page-locked buffers; while one chunk is
copied to the GPU the one before it is compared with all queries at once. Memory depends on the chunk and the queries,
never on how many targets there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.devices import kernels_know
from visil.kernels.packing import runs, slices
from visil.kernels.precision import Arithmetic
from visil.kernels.ragged_axes import RaggedAxis, frame_axis, ragged_axis
from visil.kernels.triton_comparator import ComparatorWeights, chamfer_scores, compared
from visil.kernels.triton_frames import DTYPES, frame_products, prepared
from visil.machine.prefetch import prefetched
from visil.model.comparator import Padding
from visil.model.formula import Formula

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
    videos: list[Tensor]
    """As they came."""
    vectors: Tensor
    """float16 [frames, R, C], on its way to the device."""
    axis: RaggedAxis | Tensor
    """Where each of them begins and ends."""
    arrived: torch.cuda.Event | None
    """When it is there."""
    sound: Tensor
    """bool [1] in page-locked memory: whether all numbers are finite; known once :attr:`arrived` has come."""

    @property
    def lengths(self) -> list[int]:
        """Frames of each."""
        return [len(video) for video in self.videos]

    def check(self) -> None:
        """Refuse features with NaN or infinity, by name."""
        if self.arrived is not None:
            self.arrived.synchronize()
        if not bool(self.sound):
            for number, video in enumerate(self.vectors.split(self.lengths), self.first):
                if not torch.isfinite(video).all():
                    raise UsageError(f"target {number}'s features contain NaN or infinity")


class MatrixReader:
    """From S_f of all pairs of some queries and targets to S_v and CS_v, by the kernels."""

    def __init__(self, formula: Formula, device: torch.device) -> None:
        comparator = formula.comparator
        self.formula, self.device = formula, device
        self._padding: Padding = comparator.padding if comparator is not None else "replicate"
        self._weights = None if comparator is None else ComparatorWeights.of(comparator, device)

    def axis(self, lengths: Sequence[int]) -> RaggedAxis | Tensor:
        """The maps that the kernels need for videos of these lengths, laid end to end."""
        if self._weights is None:
            return frame_axis(lengths).to(self.device, non_blocking=True)
        return ragged_axis(lengths, self._padding).to(self.device)

    def read(
        self, frames: Tensor, rows: RaggedAxis | Tensor, columns: RaggedAxis | Tensor
    ) -> tuple[Tensor, Tensor]:
        """S_v of all pairs and their CS_v, [queries, targets], from their S_f [N, M]."""
        symmetric = self.formula.symmetric
        if isinstance(rows, RaggedAxis) and isinstance(columns, RaggedAxis):
            assert self._weights is not None
            output = compared(frames.half(), rows, columns, self._weights)
            return output, chamfer_scores(output, rows.cells, columns.cells, symmetric=symmetric)
        assert isinstance(rows, Tensor)
        assert isinstance(columns, Tensor)
        return frames, chamfer_scores(frames, rows, columns, symmetric=symmetric)

    @torch.inference_mode()
    def read_beside(self, frames: Tensor, lengths: Sequence[int]) -> list[tuple[float, Tensor]]:
        """CS_v and S_v of one query with each of the targets whose S_f stand beside each other in ``frames``."""
        columns = self.axis(lengths)
        output, scores = self.read(frames, self.axis([len(frames)]), columns)
        borders = columns.cells if isinstance(columns, RaggedAxis) else columns
        spans = pairwise(borders.tolist())
        return [
            (float(score), output[:, start:stop])
            for score, (start, stop) in zip(scores[0].tolist(), spans, strict=True)
        ]


class GpuEngine:
    """Compares fixed queries [X_i, R, C] with any number of targets [Y_j, R, C] by one formula."""

    def __init__(
        self,
        queries: Sequence[Tensor],
        formula: Formula,
        *,
        arithmetic: Arithmetic = "fp16",
        device: torch.device | str = "cuda",
        chunk_frames: int | None = None,
    ) -> None:
        if not kernels_know(formula):
            raise UsageError(f"the GPU engine has no pooling {formula.frame_pool} and {formula.video_pool}")
        if not queries or any(len(query) == 0 for query in queries):
            raise UsageError("the GPU engine compares queries of at least one frame")
        self.device = torch.device(device)
        self.dtype = DTYPES[arithmetic]
        self.formula = formula
        self.chunk_frames = chunk_frames or CHUNK_FRAMES
        self._reader = MatrixReader(formula, self.device)
        self._copiers = ThreadPoolExecutor(COPIERS)
        self._copies = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        self.shape = tuple(queries[0].shape[1:])
        self.queries = len(queries)
        self._groups: list[tuple[slice, Tensor, RaggedAxis | Tensor]] = []
        for group in slices([len(query) for query in queries], max(1, MATRIX_CELLS // self.chunk_frames)):
            some = [self._checked(query, "a query") for query in queries[group]]
            together = prepared(torch.cat([query.to(self.device) for query in some]), self.dtype)
            self._groups.append((group, together, self._reader.axis([len(query) for query in some])))

    def scores(
        self, targets: Iterable[Tensor], first: int = 0
    ) -> Iterator[tuple[Chunk, NDArray[np.float64]]]:
        """Chunk after chunk, with CS_v of every query and each of its targets: [queries, targets].

        The next chunk is gathered, copied and compared meanwhile. ``first`` is the first target's number in errors.
        """
        waiting: tuple[Chunk, Callable[[], NDArray[np.float64]]] | None = None
        with prefetched(self.chunks(targets, first)) as chunks:
            for chunk in chunks:
                arriving = self._sent_back(self.chunk_scores(chunk))
                chunk.check()
                if waiting is not None:
                    yield waiting[0], waiting[1]()
                waiting = chunk, arriving
        if waiting is not None:
            yield waiting[0], waiting[1]()

    def chunk_scores(self, chunk: Chunk) -> Tensor:
        """CS_v (Eq. 6) of every query with every target of a chunk: float32 [queries, targets], on the device."""
        if chunk.arrived is not None:
            stream = torch.cuda.current_stream(self.device)
            stream.wait_event(chunk.arrived)
            axis = chunk.axis.tensors() if isinstance(chunk.axis, RaggedAxis) else [chunk.axis]
            for tensor in (chunk.vectors, *axis):
                tensor.record_stream(stream)  # it was allocated by the stream of copies
        target = prepared(chunk.vectors, self.dtype)
        result = torch.empty(self.queries, len(chunk.videos), device=self.device)
        for group, vectors, rows in self._groups:
            # Numbers of half precision lie dense enough between -1 and 1: their error is below the operands'.
            frames = torch.empty(len(vectors), len(target), dtype=torch.float16, device=self.device)
            outer, symmetric = self.formula.frame_pool[1], self.formula.symmetric
            frame_products(vectors, target, frames, outer=outer, symmetric=symmetric)
            result[group] = self._reader.read(frames, rows, chunk.axis)[1]
        return result

    def chunks(self, targets: Iterable[Tensor], first: int = 0) -> Iterator[Chunk]:
        """Targets end to end, ``chunk_frames`` frames at a time at most; a longer one is by itself."""
        named = enumerate(targets, first)
        checked = (self._checked(target, f"target {number}") for number, target in named)
        for run in runs(checked, len, self.chunk_frames):
            yield self._laid_end_to_end(first, run)
            first += len(run)

    def _sent_back(self, scores: Tensor) -> Callable[[], NDArray[np.float64]]:
        """Scores on their way to host memory; called, they are there."""
        if self.device.type != "cuda":
            return lambda: scores.double().numpy()
        locked = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=True)
        locked.copy_(scores, non_blocking=True)
        there = torch.cuda.current_stream(self.device).record_event()

        def arrived() -> NDArray[np.float64]:
            there.synchronize()
            return locked.double().numpy()

        return arrived

    def _laid_end_to_end(self, first: int, targets: list[Tensor]) -> Chunk:
        lengths = [len(target) for target in targets]
        if self.device.type != "cuda" or all(target.is_cuda for target in targets):  # they are there
            vectors = torch.cat([target.to(torch.float16) for target in targets])
            axis = self._reader.axis(lengths)
            return Chunk(first, targets, vectors, axis, None, torch.isfinite(vectors).all())
        locked = torch.empty(sum(lengths), *self.shape, dtype=torch.float16, pin_memory=True)
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
            axis = self._reader.axis(lengths)
            arrived = self._copies.record_event()
        return Chunk(first, targets, vectors, axis, arrived, sound)

    def _checked(self, video: Tensor, name: str) -> Tensor:
        if video.ndim != 3 or tuple(video.shape[1:]) != self.shape or len(video) == 0:
            raise UsageError(
                f"{name} has features {list(video.shape)}, not [frames, {self.shape[0]}, {self.shape[1]}]"
            )
        if name == "a query" and not torch.isfinite(video).all():
            raise UsageError("a query's features contain NaN or infinity")
        return video
