"""The comparator on a processor: channels last, in bfloat16 where asked, and many matrices side by side in one pass.

Targets of different lengths stand side by side in one wide picture. Before each convolution, columns are picked by
index: those of each target with its own padding at both ends, and from an odd number one more, so that the next target
begins where a pooling window does. What a convolution makes of the columns between is never read, and every target's
output is what it would be alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from visil.kernels.cpu_convolution import convolved
from visil.kernels.packing import slices
from visil.kernels.precision import Arithmetic, measured
from visil.model.comparator import Comparator, Window, padded

PASS_COLUMNS = 1024
"""Columns that go through the layers together, times 128 rows: 16 MB of activations in bfloat16."""


class FastComparator:
    """A comparator's layers, copied for inference on a processor.

    In bfloat16, sums inside a layer and all of the last one are float32.
    """

    def __init__(self, comparator: Comparator, arithmetic: Arithmetic) -> None:
        self.padding = comparator.padding
        self.conv1, self.conv2 = deepcopy(comparator.conv1), deepcopy(comparator.conv2)
        self.conv3, self.fconv = deepcopy(comparator.conv3), deepcopy(comparator.fconv)
        first = comparator.conv1.weight
        half = arithmetic == "bf16" or (arithmetic == "int8" and _bf16_pays())
        dtype = torch.bfloat16 if half and first.dtype == torch.float32 else first.dtype
        for layer in (self.conv1, self.conv2, self.conv3):
            layer.to(dtype=dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dtype = dtype
        for layer in (self.conv1, self.conv2, self.conv3, self.fconv):
            layer.requires_grad_(False)

    def whole(self, frame_matrix: Tensor) -> Tensor:
        """As :meth:`Comparator.forward`, of one S_f [X, Y]."""
        rows, columns = frame_matrix.shape
        return self.tile(frame_matrix, Window.whole(rows), Window.whole(columns))

    def tile(self, frames: Tensor, rows: Window, columns: Window) -> Tensor:
        """As :meth:`Comparator.tile`."""
        x = frames[None, None].to(self.dtype)
        x = _halved(_layer(self.conv1, padded(x, 0, rows, columns, self.padding)))
        x = _halved(_layer(self.conv2, padded(x, 1, rows, columns, self.padding)))
        return self._last(_layer(self.conv3, padded(x, 2, rows, columns, self.padding)))[0]

    def _last(self, x: Tensor) -> Tensor:
        """The 1×1 convolution, [B, 128, H, W] to [B, H, W], as a product with one vector."""
        weight = self.fconv.weight.view(-1)
        assert self.fconv.bias is not None
        return x.permute(0, 2, 3, 1).to(weight.dtype) @ weight + self.fconv.bias

    @torch.inference_mode()
    def many(self, together: Tensor, lengths: Sequence[int]) -> tuple[Tensor, list[tuple[int, int]]]:
        """S_v of many targets from their S_f side by side, [X, sum of lengths]: [X', W], and each one's columns.

        Every length and X are at least :data:`visil.model.comparator.SHORTEST`; columns of no target hold no meaning.
        """
        columns = [(stop - length, stop) for stop, length in zip(accumulate(lengths), lengths, strict=True)]
        x = together.to(self.dtype)[:, :, None]  # [H, W, channels]
        for layer in (self.conv1, self.conv2):
            plan = Columns.of(columns, x.device)
            x = _halved(_layer(layer, self._picked(x, plan)))[0].permute(1, 2, 0)
            columns = [(start // 2, start // 2 + (stop - start) // 2) for start, stop in plan.spans]
        plan = Columns.of(columns, x.device)
        return self._last(_layer(self.conv3, self._picked(x, plan)))[0], plan.spans

    def _picked(self, x: Tensor, plan: Columns) -> Tensor:
        """[H, W, C] with the plan's columns and one more row at each end, as an image [1, C, H + 2, W'] last."""
        height, _, channels = x.shape
        wide = x.new_empty(height + 2, len(plan.source), channels)
        torch.index_select(x, 1, plan.source, out=wide[1:-1])
        if self.padding == "replicate":
            wide[0], wide[-1] = wide[1], wide[-2]
        else:
            wide[0], wide[-1] = 0, 0
            wide[:, plan.padding] = 0
        return wide.permute(2, 0, 1)[None]


_made: WeakKeyDictionary[Comparator, tuple[object, FastComparator]] = WeakKeyDictionary()


def fast_comparator(comparator: Comparator, arithmetic: Arithmetic) -> FastComparator:
    """A :class:`FastComparator`, made once for as long as the weights stay as they are."""
    try:
        state = (arithmetic, *((p.data_ptr(), p._version, p.dtype) for p in comparator.parameters()))
    except RuntimeError:  # made in inference mode: nobody counts what is written to them
        return FastComparator(comparator, arithmetic)
    kept = _made.get(comparator)
    if kept is None or kept[0] != state:
        kept = _made[comparator] = (state, FastComparator(comparator, arithmetic))
    return kept[1]


@dataclass(frozen=True, eq=False)
class Columns:
    """Which columns a layer reads, and where its output has each target."""

    source: Tensor
    """int64 [W']: the column to read."""
    padding: Tensor
    """int64: places in ``source`` that are padding."""
    spans: list[tuple[int, int]]
    """Output columns of each target, from even places on."""

    @classmethod
    def of(cls, columns: Sequence[tuple[int, int]], device: torch.device) -> Columns:
        """For targets that stand in ``columns`` of the layer's input, (start, stop) each."""
        source, padding, spans = [], [], []
        at = 0
        for start, stop in columns:
            odd = (stop - start) % 2
            place = np.arange(start - 1, stop + 1 + odd).clip(start, stop - 1)
            source.append(place)
            padding += [at, *range(at + stop - start + 1, at + len(place))]
            spans.append((at, at + stop - start))
            at += len(place)
        picked = torch.from_numpy(np.concatenate(source)).to(device)
        return cls(picked, torch.tensor(padding, device=device), spans)


def _layer(layer: nn.Conv2d, x: Tensor) -> Tensor:
    return convolved(x, layer.weight, layer.bias, "relu")


def _halved(x: Tensor) -> Tensor:
    """Max pooling by two; whole planes compared at once, twice as fast as ``max_pool2d``."""
    height, width = (size // 2 * 2 for size in x.shape[-2:])
    x = torch.maximum(x[:, :, 0:height:2], x[:, :, 1:height:2])
    return torch.maximum(x[..., 0:width:2], x[..., 1:width:2])


def passes(lengths: Sequence[int], rows: int) -> list[slice]:
    """Runs of targets whose columns fit in one pass; one that is too long is a run of its own."""
    return slices(lengths, PASS_COLUMNS * 128 // max(rows, 1))


def _bf16_pays() -> bool:
    speeds = measured()
    return speeds["bf16"] > speeds["fp32"]
