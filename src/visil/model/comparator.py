"""The network that reads a frame-to-frame matrix: Table 1 of the paper, hard tanh, and exact tiles of both."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Padding = Literal["replicate", "zeros"]

SHORTEST = 4
"""Frames a video needs on either axis for Table 1 to leave one output cell (two halvings)."""

STRIDE = 4
"""Frames per output cell along each axis."""


def hard_tanh(values: Tensor) -> Tensor:
    """Htanh of Eq. 6: clip to [-1, 1]."""
    return values.clamp(-1.0, 1.0)


class Comparator(nn.Module):
    """Table 1: 3×3 conv 32, pool, 3×3 conv 64, pool, 3×3 conv 128, 1×1 conv 1.

    ``padding`` is "replicate" as in the authors' ViSiL, or "zeros" as in their DnS and S2VS students.
    Parameters carry the authors' names, so their checkpoints load as they are.
    """

    def __init__(self, padding: Padding = "replicate") -> None:
        super().__init__()
        self.padding: Padding = padding
        self.conv1 = nn.Conv2d(1, 32, 3)
        self.conv2 = nn.Conv2d(32, 64, 3)
        self.conv3 = nn.Conv2d(64, 128, 3)
        self.fconv = nn.Conv2d(128, 1, 1)

    def forward(self, frame_matrix: Tensor) -> Tensor:
        """S_f [..., X, Y] to S_v [..., X', Y'], before hard tanh; X' = X // 2 // 2, Y' likewise."""
        *batch, rows, columns = frame_matrix.shape
        if rows < SHORTEST or columns < SHORTEST:
            raise ValueError(
                f"the comparator needs at least {SHORTEST}×{SHORTEST} frames, got {rows}×{columns}"
            )
        matrix = frame_matrix.reshape(-1, 1, rows, columns)
        output = self._layers(matrix, Window.whole(rows), Window.whole(columns))
        return output.reshape(*batch, *output.shape[-2:])

    def tile(self, frames: Tensor, rows: Window, columns: Window) -> Tensor:
        """The part of S_v that two windows name, from just the part of S_f that they need.

        ``frames`` is S_f[rows.inputs, columns.inputs]; the result equals that slice of ``forward`` of the whole.
        """
        output = self._layers(frames[None, None], rows, columns)
        return output[0]

    def _layers(self, x: Tensor, rows: Window, columns: Window) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(padded(x, 0, rows, columns, self.padding))), 2)
        x = F.max_pool2d(F.relu(self.conv2(padded(x, 1, rows, columns, self.padding))), 2)
        x = F.relu(self.conv3(padded(x, 2, rows, columns, self.padding)))
        return self.fconv(x)[:, 0]


def padded(x: Tensor, layer: int, rows: Window, columns: Window, padding: Padding) -> Tensor:
    """The part of a tile that one of the three layers reads, padded where the tile lies at the matrix's border."""
    mode = "replicate" if padding == "replicate" else "constant"
    return F.pad(x, (*columns.pads[layer], *rows.pads[layer]), mode=mode)


def repeated(vectors: Tensor, comparator: Comparator | None, dim: int = 0) -> Tensor:
    """Videos of 1 to 3 frames doubled until the comparator can read them, as the authors do: 1→4, 2→4, 3→6."""
    while comparator is not None and vectors.shape[dim] < SHORTEST:
        vectors = torch.cat([vectors, vectors], dim=dim)
    return vectors


class Window:
    """A run of output cells on one axis, and what each layer must see to make them.

    Padding belongs to the border of the whole matrix only; inside, a tile's neighbours stand where padding would
    be. Layer by layer from the output back: a 3×3 convolution needs one more cell on each side, a pooling twice
    as many; whatever falls outside the matrix becomes padding there. One output cell sees 18 frames.
    """

    def __init__(self, start: int, stop: int, size: int) -> None:
        self.outputs = slice(start, stop)
        self.pads: list[tuple[int, int]] = []
        for layer_size in (size // 2 // 2, size // 2, size):
            low, high = start - 1, stop + 1
            self.pads.insert(0, (int(low < 0), int(high > layer_size)))
            start, stop = max(low, 0), min(high, layer_size)
            if layer_size != size:
                start, stop = 2 * start, 2 * stop
        self.inputs = slice(start, stop)

    @staticmethod
    def whole(size: int) -> Window:
        """All of an axis, padded as the textbook does."""
        window = Window(0, size // 2 // 2, size)
        # Of a size that halves with a remainder, the last frames feed no pooling window but still stand beside
        # the last one that does; taking all of them keeps ``forward`` the textbook formula.
        window.inputs = slice(0, size)
        window.pads = [(1, 1)] * 3
        return window


def windows(size: int, cells: int) -> list[Window]:
    """Cover an axis of ``size`` frames with windows of at most ``cells`` output cells."""
    outputs = size // 2 // 2
    return [Window(start, min(start + cells, outputs), size) for start in range(0, outputs, cells)]
