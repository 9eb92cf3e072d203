"""Many videos on one axis: which frames each layer of the comparator reads, as index maps.

All queries stand one after another on the rows of one large matrix, all targets on its columns. A video's border is
where its frames end, not where the matrix does; what lies beyond is the border frame again (replicate padding), or
nothing (-1, zero padding). Odd lengths, and videos of 1 to 3 frames that are doubled until the comparator can read
them, are only other numbers in these maps: no video is padded or copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from visil.model.comparator import SHORTEST, Padding


@dataclass(frozen=True)
class RaggedAxis:
    """One axis of a batch of pairs."""

    frames: Tensor
    """int32 [videos + 1]: where each video's frames begin, and the end."""
    cells: Tensor
    """int32 [videos + 1]: where each video's output cells begin, and the end."""
    pooled: Tensor
    """int32 [cells, 4, 4]: the frames that the 4 × 4 neighbourhood of an output cell reads, or -1.

    Second axis: the four rows of the once-pooled level that the second convolution and its pooling see; third: the
    four frames that the first convolution and its pooling see of each.
    """
    exists: Tensor
    """bool [cells, 4]: whether such a row of the once-pooled level exists; all do with replicate padding."""
    around: Tensor
    """int32 [cells, 3]: the cell before, itself, the cell after; or -1."""

    def tensors(self) -> list[Tensor]:
        """All of them, in order."""
        return [self.frames, self.cells, self.pooled, self.exists, self.around]

    def to(self, device: torch.device) -> RaggedAxis:
        """On another device."""
        return RaggedAxis(*(tensor.to(device) for tensor in self.tensors()))


def ragged_axis(lengths: Sequence[int], padding: Padding) -> RaggedAxis:
    """The maps of videos of these lengths, each at least one frame."""
    length = torch.tensor(lengths)
    seen = torch.where(length >= SHORTEST, length, length * torch.where(length == 1, 4, 2))
    once, twice = seen // 2, seen // 4
    frames, cells = _starts(length), _starts(twice)
    video = torch.repeat_interleave(torch.arange(len(length)), twice)
    at = torch.arange(len(video)) - cells[video]
    second = _neighbours(2 * at[:, None] - 1 + torch.arange(4), once[video, None], padding)  # [cells, 4]
    first = _neighbours(2 * second[..., None] - 1 + torch.arange(4), seen[video, None, None], padding)
    there = (second >= 0)[..., None] & (first >= 0)
    pooled = torch.where(there, first % length[video, None, None] + frames[video, None, None], -1)
    third = _neighbours(at[:, None] - 1 + torch.arange(3), twice[video, None], padding)
    around = torch.where(third >= 0, third + cells[video, None], -1)
    return RaggedAxis(frames.int(), cells.int(), pooled.int(), second >= 0, around.int())


def frame_axis(lengths: Sequence[int]) -> Tensor:
    """int32 [videos + 1]: where each video's frames begin, and the end."""
    return _starts(torch.tensor(lengths)).int()


def _starts(lengths: Tensor) -> Tensor:
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def _neighbours(places: Tensor, size: Tensor, padding: Padding) -> Tensor:
    """Places on an axis of ``size``; beyond its ends the end itself, or -1."""
    if padding == "replicate":
        return torch.minimum(places.clamp(min=0), size - 1)
    return torch.where((places >= 0) & (places < size), places, -1)
