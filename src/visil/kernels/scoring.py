"""The one door from features to scores and matrices: a formula, a device and an arithmetic, and the engine for them.

On a GPU that runs the kernels, by formulas that they know, features go through :mod:`visil.kernels.gpu_engine`; all
else through :mod:`visil.kernels.torch_engine`. Videos are vectors [T, R, C], in any float dtype and wherever they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import devices, torch_engine
from visil.kernels.packing import runs
from visil.kernels.precision import Precision, arithmetic
from visil.kernels.signs import which_signs
from visil.kernels.torch_engine import OnRows, TorchEngine
from visil.model.formula import Formula

if TYPE_CHECKING:
    from visil.kernels.gpu_engine import GpuEngine, MatrixReader

GPU_FRAMES = 1 << 16
"""Frames of a target that the GPU's engine is given: of a longer one, the matrices of all queries take gigabytes."""

GPU_CELLS = 1 << 28
"""Frame pairs of one pair whose score a GPU computes at once; a longer one goes strip by strip."""

GPU_WIDE = 1 << 24
"""Frame pairs whose matrices a GPU computes at once: 64 MB each."""

LISTED_FRAMES = 1 << 17
"""Frames of targets that a GPU compares with queries of their own at once: a gigabyte in half precision."""

LISTENED_CELLS = 1 << 22
"""Frame pairs that a listener is handed at once."""


@dataclass(frozen=True)
class Best:
    """The best few targets of each query."""

    scores: NDArray[np.float32]
    """[queries, k], best first; -inf where there were fewer targets."""
    targets: NDArray[np.int64]
    """[queries, k], numbers of targets in the order they came; -1 where there were fewer."""
    matrices: list[list[NDArray[np.float32]]] | None = None
    """Of each query, S_f (Eq. 5) with each of them, [X, Y]; None: not asked for."""


class Scorer:
    """One formula, computed on one device in one arithmetic."""

    def __init__(
        self,
        formula: Formula,
        device: torch.device | str = "cpu",
        precision: Precision | None = None,
    ) -> None:
        self.formula = formula
        self.device = torch.device(device)
        self.arithmetic = arithmetic(precision, self.device)
        self.on_gpu = (
            self.arithmetic != "fp32" and devices.has_kernels(self.device) and devices.kernels_know(formula)
        )
        """Whether the GPU's engine does the work."""

    # ------------------------------------------------------------------ scores

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """CS_v of one query with many targets at hand: float64 [targets]."""
        longest = max((len(target) for target in targets), default=0)
        if self._takes(query, *targets) and len(query) * longest <= GPU_CELLS:
            parts = [found for _, found in self._gpu_engine([query]).scores(targets)]
            return np.concatenate([np.empty((1, 0)), *parts], axis=1)[0]
        return self._torch.scores(self._placed(query), [self._placed(target) for target in targets])

    def stream(
        self, queries: Sequence[Tensor], targets: Iterable[Tensor]
    ) -> Iterator[tuple[list[Tensor], NDArray[np.float64]]]:
        """CS_v of every query with every target, as targets come: some of them, and their scores [queries, some].

        Memory depends on the queries, never on how many targets there are.
        """
        if not self._takes(*queries):
            yield from self._query_by_query(queries, targets)
            return
        engine = self._gpu_engine(queries)

        def taken(target: Tensor) -> bool:
            return len(target) <= GPU_FRAMES and self._takes(target)

        seen = 0
        for by_engine, some in groupby(targets, taken):
            if by_engine:
                for chunk, found in engine.scores(some, seen):
                    yield chunk.videos, found
                    seen += len(chunk.videos)
            else:
                for run, found in self._query_by_query(queries, some):
                    yield run, found
                    seen += len(run)

    def _query_by_query(
        self, queries: Sequence[Tensor], targets: Iterable[Tensor]
    ) -> Iterator[tuple[list[Tensor], NDArray[np.float64]]]:
        for run in runs(targets, len, torch_engine.WIDE_FRAMES * torch.get_num_threads()):
            yield run, np.stack([self.scores(query, run) for query in queries])

    def first_pass(
        self, queries: Sequence[Tensor], targets: Sequence[Sequence[Tensor]]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """CS_v of each query with each of its own targets, and the largest of their S_f: float64 [pairs] each.

        For pairs of at most :attr:`wide_cells` frame pairs. On a GPU all of them at once, as far as memory allows.
        """
        found: list[tuple[Tensor, Tensor]] = []
        asked = ((query, own) for query, own in zip(queries, targets, strict=True) if own)
        for batch in runs(asked, lambda one: sum(map(len, one[1])), LISTED_FRAMES):
            some = [(self._placed(q), [self._placed(t) for t in own]) for q, own in batch]
            if self.formula.comparator is None and self._takes(*(t for q, own in some for t in (q, *own))):
                from visil.kernels.triton_pairs import pair_scores

                found.append(pair_scores(some, self.formula, self.arithmetic))
            else:
                found += [self._first_pass(query, own) for query, own in some]
        if not found:
            return np.empty(0), np.empty(0)
        scores, peaks = (torch.cat(each).double().cpu().numpy() for each in zip(*found, strict=True))
        return scores, peaks

    def _first_pass(self, query: Tensor, targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        if not torch_engine.finite(query, *targets):
            raise UsageError("features contain NaN or infinity: make them anew")
        scores: list[float] = []
        peaks: list[Tensor] = []
        for run in runs(targets, len, max(1, min(torch_engine.WIDE_FRAMES, self.wide_cells // len(query)))):
            frames, lengths = self.frames(query, run), [len(target) for target in run]
            scores += [score for score, _ in self.read(frames, lengths)]
            peaks += [part.max() for part in frames.split(lengths, dim=1)]
        return torch.tensor(scores, dtype=torch.float64), torch.stack(peaks).double().cpu()

    def best(
        self, queries: Sequence[Tensor], targets: Iterable[Tensor], k: int, *, matrices: bool = False
    ) -> Best:
        """The ``k`` best of a stream of targets for each query, with their S_f if asked for."""
        top = np.full((len(queries), k), -np.inf, np.float32)
        names = np.full((len(queries), k), -1, np.int64)
        held: dict[int, Tensor] = {}
        seen = 0
        for some, found in self.stream(queries, targets):
            numbers = np.broadcast_to(np.arange(seen, seen + len(some)), found.shape)
            every, numbers = np.hstack([top, found.astype(np.float32)]), np.hstack([names, numbers])
            order = np.argsort(-every, axis=1, kind="stable")[:, :k]
            top, names = np.take_along_axis(every, order, 1), np.take_along_axis(numbers, order, 1)
            if matrices:
                held |= dict(enumerate(some, seen))
                held = {number: held[number] for number in set(names.ravel().tolist()) - {-1}}
            seen += len(some)
        if not matrices:
            return Best(top, names)
        shown = []
        for query, row in zip(queries, names.tolist(), strict=True):
            chosen = [held[number] for number in row if number >= 0]
            wide = self.frames(query, chosen).float().cpu().numpy() if chosen else np.empty((len(query), 0))
            shown.append(np.split(wide, np.cumsum([len(target) for target in chosen])[:-1], axis=1))
        return Best(top, names, [row if len(row[0][0]) else [] for row in shown])

    # ------------------------------------------------------------------ matrices

    @property
    def wide_cells(self) -> int:
        """Frame pairs that :meth:`frames` is good for; a longer pair is for :meth:`pair`."""
        return GPU_WIDE if self.on_gpu else torch_engine.WIDE_CELLS

    def frames(self, query: Tensor, targets: Sequence[Tensor]) -> Tensor:
        """S_f of a query with several targets, beside each other: [X, frames of all targets], on the device."""
        if len({target.device for target in targets}) > 1:  # else they are moved together
            targets = [self._placed(target) for target in targets]
        return self._torch.frames(self._placed(query), targets)

    def read(self, frames: Tensor, lengths: Sequence[int]) -> list[tuple[float, Tensor]]:
        """CS_v and S_v of each of the targets of these lengths, from their S_f beside each other."""
        if not self.on_gpu or frames.dtype == torch.float64:
            return [self._torch.read(part) for part in frames.split(list(lengths), dim=1)]
        return self._reader.read_beside(frames, lengths)

    def pair(
        self, query: Tensor, target: Tensor, on_frames: OnRows | None = None, on_output: OnRows | None = None
    ) -> float:
        """CS_v of one pair of any length; listeners are told the rows of S_f and of S_v, each once and in order.

        Of a video of 1 to 3 frames, rows and columns may be repeated as the comparator reads them.
        """
        query, target = self._placed(query), self._placed(target)
        if not self.on_gpu or query.dtype == torch.float64 or len(query) * len(target) > GPU_WIDE:
            return self._torch.pair(query, target, on_frames, on_output)
        frames = self._torch.frames(query, [target])
        ((score, output),) = self.read(frames, [len(target)])
        for listener, matrix in ((on_frames, frames), (on_output, output)):
            if listener is not None:
                step = max(1, LISTENED_CELLS // matrix.shape[1])
                for start in range(0, len(matrix), step):
                    listener(start, matrix[start : start + step])
        return score

    def matrices(self, query: Tensor, target: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """S_f and S_v of one pair, whole."""
        rows: list[Tensor] = []
        outputs: list[Tensor] = []
        self.pair(query, target, lambda _, strip: rows.append(strip), lambda _, strip: outputs.append(strip))
        frames = torch.cat(rows)[: len(query), : len(target)]
        return frames.float().cpu().numpy(), torch.cat(outputs).float().cpu().numpy()

    # ------------------------------------------------------------------ engines

    @cached_property
    def _torch(self) -> TorchEngine:
        return TorchEngine(self.formula, self.arithmetic)

    @cached_property
    def _reader(self) -> MatrixReader:
        from visil.kernels.gpu_engine import MatrixReader

        return MatrixReader(self.formula, self.device)

    def _gpu_engine(self, queries: Sequence[Tensor]) -> GpuEngine:
        from visil.kernels.gpu_engine import GpuEngine

        return GpuEngine(queries, self.formula, arithmetic=self.arithmetic, device=self.device)

    def _takes(self, *videos: Tensor) -> bool:
        """Whether the GPU's engine takes these: whole vectors, not in float64."""
        if not self.on_gpu or any(video.dtype == torch.float64 for video in videos):
            return False
        return self.formula.binary or not any(which_signs(videos))

    def _placed(self, vectors: Tensor) -> Tensor:
        """On the device, in the comparator's precision; without one the arithmetic is the features' own."""
        vectors = vectors.to(self.device)
        if self.formula.comparator is None or vectors.dtype != torch.float64:
            return vectors
        return vectors.to(self.formula.comparator.fconv.weight.dtype)
