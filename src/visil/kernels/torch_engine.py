"""Scores and matrices in plain torch: any formula on any device, in bounded memory.

What a processor uses, and a GPU for formulas and features that its kernels do not know. A long pair is read strip by
strip: S_f, the comparator with exact halos, Eq. 6 on the run. Many short targets stand beside each other in one matrix,
so that products are few and large; the rest is shared out among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import devices
from visil.kernels.cores import on_all_cores
from visil.kernels.cpu_comparator import FastComparator, fast_comparator, passes
from visil.kernels.frame_matrix import FrameMatrix, Joined
from visil.kernels.packing import slices
from visil.kernels.pooling import RunningPool, pooled, pooled_spans
from visil.kernels.precision import Arithmetic
from visil.model.comparator import SHORTEST, Comparator, hard_tanh, repeated, windows
from visil.model.formula import Formula

STRIP_CELLS = 32
"""Output rows of one strip: 128 query frames, and a halo of 14 that is kept, not computed again."""

TILE_CELLS = 256
"""Output columns of one comparator tile: bounds its activations to some 20 MB."""

WIDE_FRAMES = 4096
"""Target frames that are compared beside each other: some 50 MB of half-precision features."""

WIDE_CELLS = 1 << 22
"""Frame pairs of one such matrix (16 MB); a longer pair is compared by itself, strip by strip."""

READ_CELLS = 1 << 19
"""Frame pairs that a comparator reads at once: 32 MB of activations in half precision."""

NARROW_FRAMES = 256
"""Target frames beside each other at least, where the work is shared out among threads."""

OnRows = Callable[[int, Tensor], None]
"""Receives (first row, rows) of a matrix, each row once, in order."""


class TorchEngine:
    """Compares videos [T, R, C] by one formula in one arithmetic; the query says where."""

    def __init__(self, formula: Formula, arithmetic: Arithmetic = "fp32") -> None:
        self.formula = formula
        self.arithmetic: Arithmetic = arithmetic

    @torch.inference_mode()
    def frames(self, query: Tensor, targets: Sequence[Tensor]) -> Tensor:
        """S_f of a query with several targets, beside each other: [X, frames of all targets]."""
        return self._matrix(query, Joined(targets)).full()

    @torch.inference_mode()
    def read(self, frames: Tensor) -> tuple[float, Tensor]:
        """CS_v and S_v from a whole S_f."""
        output, network = frames, self._network(frames)
        if network is not None:
            # Repeating a video's frames repeats its rows or columns of S_f.
            comparator = self.formula.comparator
            output = hard_tanh(network.whole(repeated(repeated(frames, comparator), comparator, dim=1)))
        return pooled(output, self.formula), output

    def pair(
        self, query: Tensor, target: Tensor, on_frames: OnRows | None = None, on_output: OnRows | None = None
    ) -> float:
        """CS_v of one pair of any length; see :func:`score_pair`."""
        query, target = (repeated(video, self.formula.comparator) for video in (query, target))
        matrix = self._matrix(query, target)
        return score_pair(matrix, self._network(query), on_frames=on_frames, on_output=on_output)

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """CS_v with each of many targets, as many threads at work as torch has: float64 [targets]."""
        for video in (query, *targets):
            _check(query, video)
            if self._arithmetic(query) == "fp32" and not finite(video):  # the others look while they round
                raise UsageError("features contain NaN or infinity: make them anew")
        query = repeated(query, self.formula.comparator)
        results = np.full(len(targets), np.nan)

        def score(run: slice) -> None:
            results[run] = self._scores_of_few(query, targets[run])

        on_all_cores(score, self._cut(len(query), [len(target) for target in targets]), on=query.device)
        return results

    @torch.inference_mode()
    def _scores_of_few(self, query: Tensor, targets: Sequence[Tensor]) -> NDArray[np.float64]:
        """CS_v with each of a few targets; a longer one comes alone."""
        network = self._network(query)
        if len(query) * len(targets[0]) > self._most_cells():
            return np.array([self.pair(query, targets[0])])
        if network is None:
            joined = Joined(targets)
            return pooled_spans(self._matrix(query, joined).full(), joined.spans, self.formula)
        targets = [repeated(target, self.formula.comparator) for target in targets]
        lengths = [len(target) for target in targets]
        together = self._matrix(query, Joined(targets)).full()
        found = []
        for run in passes(lengths, len(query)):
            start = sum(lengths[: run.start])
            part = together[:, start : start + sum(lengths[run])]
            output, spans = network.many(part, lengths[run])
            found.append(pooled_spans(hard_tanh(output), spans, self.formula))
        return np.concatenate(found)

    def _cut(self, query: int, lengths: Sequence[int]) -> list[slice]:
        """Runs of targets whose frames fit beside each other, enough of them for all threads."""
        threads = torch.get_num_threads()
        share = WIDE_FRAMES if threads == 1 else max(NARROW_FRAMES, sum(lengths) // (2 * threads))
        most = max(1, min(WIDE_FRAMES, share, self._most_cells() // query))
        return slices([max(length, SHORTEST) for length in lengths], most)

    def _most_cells(self) -> int:
        return WIDE_CELLS if self.formula.comparator is None else READ_CELLS

    def _matrix(self, query: Tensor, target: Tensor | Joined) -> FrameMatrix:
        return FrameMatrix(query, target, self.formula, self.arithmetic)

    def _arithmetic(self, tensor: Tensor) -> Arithmetic:
        """Of what torch computes itself: on a GPU, and in float64, nothing is rounded."""
        plain = tensor.dtype == torch.float64 or tensor.device.type != "cpu"
        return "fp32" if plain or devices.has_kernels(tensor.device) else self.arithmetic

    def _network(self, tensor: Tensor) -> FastComparator | None:
        comparator = self.formula.comparator
        return None if comparator is None else fast_comparator(comparator, self._arithmetic(tensor))


@torch.inference_mode()
def score_pair(
    matrix: FrameMatrix,
    comparator: Comparator | FastComparator | None,
    *,
    on_frames: OnRows | None = None,
    on_output: OnRows | None = None,
) -> float:
    """CS_v of Eq. 6 for one pair; equals the untiled formula and needs memory for one strip only.

    ``on_frames`` sees the rows of S_f, ``on_output`` those of S_v after hard tanh (S_f itself where there is no
    comparator), each once and in order: for whoever wants to keep or search them.
    """
    pool = RunningPool(matrix.formula)
    if comparator is None:
        for start in range(0, matrix.shape[0], STRIP_CELLS * 4):
            strip = matrix.rows(start, min(start + STRIP_CELLS * 4, matrix.shape[0]))
            pool.update(strip)
            for listener in (on_frames, on_output):
                if listener is not None:
                    listener(start, strip)
        return pool.result()

    columns = windows(matrix.shape[1], TILE_CELLS)
    # S_f[done - len(held) : done]
    held = torch.empty(0, matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    done = 0
    for window in windows(matrix.shape[0], STRIP_CELLS):
        fresh = matrix.rows(done, window.inputs.stop)
        if on_frames is not None:
            on_frames(done, fresh)
        keep = done - window.inputs.start
        held = torch.cat([held[held.shape[0] - keep :], fresh])
        done = window.inputs.stop
        output = torch.cat([comparator.tile(held[:, tile.inputs], window, tile) for tile in columns], dim=1)
        output = hard_tanh(output)
        pool.update(output)
        if on_output is not None:
            on_output(window.outputs.start, output)
    return pool.result()


def finite(*videos: Tensor) -> bool:
    """Whether there is neither NaN nor infinity; smallest and largest take one pass, ``isfinite`` several.

    Each device is asked once: a GPU's answers are waited for.
    """
    ends: dict[torch.device, list[Tensor]] = {}
    for video in videos:
        for part in video.split(4096):
            ends.setdefault(video.device, []).append(torch.stack(torch.aminmax(part)).double())
    return all(bool(torch.stack(some).isfinite().all()) for some in ends.values())


def _check(query: Tensor, video: Tensor) -> None:
    if video.shape[1:] != query.shape[1:]:
        raise UsageError(
            f"videos to compare must have the same regions and channels, got {list(query.shape[1:])} and "
            f"{list(video.shape[1:])}: make their features alike"
        )
    if len(video) == 0:
        raise UsageError("a video to compare has no frames")
