"""The reader: a network over S_f that says of every cell whether two frames show the same moment (beyond the paper).

Where Table 1's comparator answers one cell for sixteen, the reader answers each: score, verdict and segments come from
one map of the size of S_f. It reads several channels [X, Y], all made of S_f and one number a frame:

- how alike the two frames are, beside two strangers under this model (:class:`FixedBackground` knows mean and spread);
- the same less common footage, by the query's and by the target's frame;
- the same beyond the best elsewhere in the row and in the column, nearby: a true match is alone;
- how still each video is there: of a still shot every frame is like every other;
- change: S_f's second difference, which for linear similarities is the product of both videos' changes from frame to
  frame. What moves must match.

Every channel and every layer looks at cells nearby alone, so a matrix of any size can be read in tiles with a halo
(:attr:`Reader.halo`), to the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.errors import ModelError
from visil.model.background import FixedBackground
from visil.model.comparator import hard_tanh
from visil.model.formula import Formula
from visil.model.similarity import pool

Channel = Literal["similarity", "common", "distinct", "still", "change"]

CHANNELS: tuple[Channel, ...] = get_args(Channel)

PLANES: dict[Channel, int] = {"similarity": 1, "common": 2, "distinct": 2, "still": 2, "change": 1}
"""Planes [X, Y] of each channel."""

BESIDE = 2
"""Frames on either side of a cell that are no "elsewhere": they show the same moment, too."""

LEAST_CHANGE = 0.05
"""Change below which a frame counts as still; keeps the quotient of the change channel in bounds."""

PROMISING = 2.5
"""Spreads above the mean of strangers that the most similar two frames must reach for a pair to be read at all.

Of 10,608 pairs of a benchmark half are below; the reader saw the same moment in none with fewer than three.
"""

SHARPNESS = 6.0
"""The logit of a cell whose map is 1: hard tanh's range spans probabilities from 0.0025 to 0.9975."""


@dataclass(frozen=True)
class ReaderConfig:
    """The reader's shape."""

    channels: tuple[Channel, ...] = CHANNELS
    hidden: int = 16
    dilations: tuple[int, ...] = (1, 2, 4, 8)
    """Of its 3×3 layers: one cell sees 31 frames on each axis."""
    window: int = 12
    """Frames on either side among which a cell is to be the best of its row and column."""

    def __post_init__(self) -> None:
        if not self.channels or not set(self.channels) <= set(CHANNELS):
            raise ModelError(f"the reader's channels are among {', '.join(CHANNELS)}, not {self.channels!r}")
        if self.hidden < 1 or not self.dilations or min(self.dilations) < 1 or self.window <= BESIDE:
            raise ModelError(
                f"the reader needs hidden and dilations of 1 or more and a window above {BESIDE}"
            )


@dataclass(frozen=True)
class FrameSigns:
    """Facts about each frame of one video for the reader, [T]."""

    common: Tensor
    """How common it is (:meth:`FixedBackground.commonness`)."""
    change: Tensor
    """How far it is from its neighbour that is less like it: 1 - similarity, from 0 (still)."""
    blank: Tensor
    """bool: shows next to nothing."""

    def __getitem__(self, part: slice) -> FrameSigns:
        return FrameSigns(self.common[part], self.change[part], self.blank[part])

    def to(self, device: torch.device | str) -> FrameSigns:
        """The same in single precision, there."""
        return FrameSigns(
            self.common.to(device, torch.float32),
            self.change.to(device, torch.float32),
            self.blank.to(device),
        )


def frame_signs(
    videos: Sequence[Tensor], blank: Sequence[Tensor | None], background: FixedBackground, formula: Formula
) -> list[FrameSigns]:
    """Facts about the frames of several videos [T, R, C] for the reader, in a few large products."""
    lengths = [len(video) for video in videos]
    vectors = torch.cat([video.to(background.regions) for video in videos])
    inner, outer = formula.frame_pool
    apart = 1 - pool(vectors[:-1] @ vectors[1:].transpose(1, 2), inner, outer, formula.symmetric)
    apart[torch.tensor(lengths).cumsum(0)[:-1] - 1] = 0.0  # from one video to the next
    step = F.pad(apart, (0, 1))
    step[1:] = torch.maximum(step[1:], apart)
    common = background.commonness(vectors, outer)
    return [
        FrameSigns(own, change, torch.zeros(len(own), dtype=torch.bool) if flags is None else flags).to(
            common.device
        )
        for own, change, flags in zip(common.split(lengths), step.split(lengths), blank, strict=True)
    ]


def channels(
    frames: Tensor,
    query: FrameSigns,
    target: FrameSigns,
    background: FixedBackground,
    config: ReaderConfig,
    inside: Tensor | None = None,
) -> Tensor:
    """The planes [..., P, X, Y] that the network reads, of S_f [..., X, Y].

    A batch of pairs is padded to one size; ``inside`` (bool [..., X, Y]) names the cells that are there.
    """
    mean, spread = background.mean, background.spread
    unknown = query.blank[..., :, None] | target.blank[..., None, :]
    frames = torch.where(unknown, mean, frames)
    if inside is not None:
        frames = torch.where(inside, frames, torch.finfo(frames.dtype).min / 4)
    planes: list[Tensor] = []
    for channel in config.channels:
        if channel == "similarity":
            planes.append(frames - mean)
        elif channel == "common":
            planes += [frames - query.common[..., :, None], frames - target.common[..., None, :]]
        elif channel == "distinct":
            planes += [frames - elsewhere(frames, config.window)]
            planes += [frames - elsewhere(frames.transpose(-1, -2), config.window).transpose(-1, -2)]
        elif channel == "still":
            planes += [query.change[..., :, None].expand_as(frames)]
            planes += [target.change[..., None, :].expand_as(frames)]
        else:
            planes.append(spread * change(frames, query.change, target.change, inside))
    stacked = torch.stack(planes, dim=-3) / spread
    return stacked if inside is None else torch.where(inside[..., None, :, :], stacked, 0)


def elsewhere(frames: Tensor, window: int) -> Tensor:
    """The best of each cell's row within ``window`` columns, but for the cell and those right beside it: [..., X, Y].

    Where a row has no other columns nearby, the cell itself.
    """
    *batch, rows, columns = frames.shape
    width = window - BESIDE
    lowest = torch.finfo(frames.dtype).min / 4
    padded = F.pad(frames.reshape(-1, 1, rows, columns), (window, window), value=lowest)
    best = F.max_pool2d(padded, (1, width), stride=1)  # [., 1, X, Y + 2 window - width + 1]
    left, right = best[..., :columns], best[..., window + BESIDE + 1 :][..., :columns]
    found = torch.maximum(left, right).reshape(*batch, rows, columns)
    return torch.where(found > lowest, found, frames)


def change(frames: Tensor, query: Tensor, target: Tensor, inside: Tensor | None = None) -> Tensor:
    """How alike the changes of both videos are around each cell, [..., X, Y], about -1 to 1.

    The mean of S_f's second differences S(x, y) + S(x+1, y+1) - S(x+1, y) - S(x, y+1) on the four sides of a cell,
    which for a linear S_f are products of differences of frames, over the lengths of those differences.
    """
    second = frames[..., :-1, :-1] + frames[..., 1:, 1:] - frames[..., 1:, :-1] - frames[..., :-1, 1:]
    if inside is not None:
        second = torch.where(inside[..., 1:, 1:], second, 0)  # all four are there where the last one is
    padded = F.pad(second, (1, 1, 1, 1))
    around = (padded[..., :-1, :-1] + padded[..., 1:, 1:] + padded[..., 1:, :-1] + padded[..., :-1, 1:]) / 4
    lengths = (2 * query.clamp(min=LEAST_CHANGE))[..., :, None] * (2 * target.clamp(min=LEAST_CHANGE))[
        ..., None, :
    ]
    return around / lengths.sqrt()


class Reader(nn.Module):
    """3×3 convolutions of growing dilation, each added to what it read, and one 1×1: planes to the map."""

    def __init__(self, config: ReaderConfig) -> None:
        super().__init__()
        self.config = config
        planes = sum(PLANES[channel] for channel in config.channels)
        self.first = nn.Conv2d(planes + 1, config.hidden, 1)
        self.layers = nn.ModuleList(
            nn.Conv2d(config.hidden, config.hidden, 3, padding=dilation, dilation=dilation)
            for dilation in config.dilations
        )
        self.last = nn.Conv2d(config.hidden, 1, 1)

    @property
    def halo(self) -> int:
        """Cells around a tile that its answers depend on."""
        return sum(self.config.dilations) + self.config.window

    def forward(self, planes: Tensor, inside: Tensor | None = None) -> Tensor:
        """Planes [B, P, X, Y] to the map [B, X, Y] before hard tanh; ``inside`` as for :func:`channels`.

        Outside the matrix every layer reads zeros; a plane of ones tells where that is.
        """
        there = torch.ones_like(planes[:, :1]) if inside is None else inside[:, None].to(planes)
        x = F.relu(self.first(torch.cat([planes, there], dim=1))) * there
        for layer in self.layers:
            x = (x + F.relu(layer(x))) * there
        return self.last(x)[:, 0]


def read_maps(
    reader: Reader,
    background: FixedBackground,
    frames: Sequence[Tensor],
    query: Sequence[FrameSigns],
    target: Sequence[FrameSigns],
) -> list[Tensor]:
    """The maps of several pairs' S_f [X, Y], after hard tanh: [X, Y] each, in [-1, 1]."""
    batch, inside = padded(frames, 0.0)
    rows, columns = stacked_signs(query, batch.shape[1]), stacked_signs(target, batch.shape[2])
    maps = hard_tanh(reader(channels(batch, rows, columns, background, reader.config, inside), inside))
    return [one[: len(own), : own.shape[1]] for one, own in zip(maps, frames, strict=True)]


def promising(frames: Sequence[Tensor], background: FixedBackground) -> list[bool]:
    """Whether each S_f has a cell that the reader could take for the same moment; else its map is -1 all over."""
    best = torch.stack([one.max() for one in frames])  # asked once: each answer of a GPU is waited for
    found: list[bool] = (best >= background.mean + PROMISING * background.spread).tolist()
    return found


def least_promising(background: FixedBackground) -> float:
    """The similarity of two frames from which a pair is :func:`promising`."""
    return float(background.mean + PROMISING * background.spread)


def padded(matrices: Sequence[Tensor], value: float) -> tuple[Tensor, Tensor]:
    """Matrices of several sizes as one batch [B, X, Y], and which of its cells are theirs, bool."""
    rows, columns = (max(matrix.shape[axis] for matrix in matrices) for axis in (0, 1))
    batch = matrices[0].new_full((len(matrices), rows, columns), value)
    inside = torch.zeros(batch.shape, dtype=torch.bool, device=batch.device)
    for number, matrix in enumerate(matrices):
        batch[number, : matrix.shape[0], : matrix.shape[1]] = matrix
        inside[number, : matrix.shape[0], : matrix.shape[1]] = True
    return batch, inside


def tiled_map(
    reader: Reader,
    background: FixedBackground,
    frames: Tensor,
    query: FrameSigns,
    target: FrameSigns,
    rows: slice,
    tile: int,
) -> Tensor:
    """Rows of one pair's map, from S_f as far as ``halo`` rows around them, a tile at a time.

    ``frames`` and ``query`` hold the halo where there is one; ``rows`` are those asked for, counted within them.
    """
    found = torch.empty(rows.stop - rows.start, frames.shape[1], device=frames.device)
    for left in range(0, frames.shape[1], tile):
        right = min(left + tile, frames.shape[1])
        low, high = max(0, left - reader.halo), right + reader.halo
        seen = frames[:, low:high]
        if promising([seen], background)[0]:
            (part,) = read_maps(reader, background, [seen], [query], [target[low:high]])
            found[:, left:right] = part[rows, left - low : right - low]
        else:
            found[:, left:right] = -1.0
    return found


def stacked_signs(signs: Sequence[FrameSigns], length: int) -> FrameSigns:
    """The signs of several videos, padded to one length: [B, length]."""
    common, change, blank = (
        torch.stack([F.pad(getattr(one, name), (0, length - len(one.common))) for one in signs])
        for name in ("common", "change", "blank")
    )
    return FrameSigns(common, change, blank)
