"""Many pairs of snippets at once: what ``ViSiL.forward`` gives for each pair, padded and ragged batches included.

Padding must not leak: the comparator pads by repeating the border of the matrix, and its pooling drops odd last rows,
so a padded matrix has other borders than the video. Pairs are therefore grouped by their two lengths and each group
is computed without padding. Snippets are mostly W frames long, which is one group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.kernels import devices
from visil.kernels.packing import slices
from visil.model.comparator import hard_tanh, repeated
from visil.model.formula import Formula
from visil.model.similarity import MP_AP, pool
from visil.training.losses import similarity_regularisation

Key = TypeVar("Key")

CELLS = 1 << 28
"""Region pairs compared at once (1 GB in float32); what lies beyond is computed again for the gradient."""


@dataclass(frozen=True)
class VideoBatch:
    """Refined vectors of several snippets, padded at the end: [B, T, R, C], and how many frames each really has."""

    vectors: Tensor
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.vectors.ndim != 4 or len(self.lengths) != len(self.vectors):
            raise UsageError(f"a batch is [B, T, R, C] with B lengths, got {list(self.vectors.shape)}")
        if not all(0 < length <= self.vectors.shape[1] for length in self.lengths):
            raise UsageError(f"lengths must be 1 to {self.vectors.shape[1]}, got {self.lengths}")

    @classmethod
    def of(cls, videos: Sequence[Tensor]) -> VideoBatch:
        """From videos [T_i, R, C]."""
        vectors = torch.nn.utils.rnn.pad_sequence(list(videos), batch_first=True)
        return cls(vectors, tuple(len(video) for video in videos))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def mask(self) -> Tensor:
        """Which frames are real: bool [B, T]."""
        lengths = torch.tensor(self.lengths, device=self.vectors.device)
        return torch.arange(self.vectors.shape[1], device=self.vectors.device) < lengths[:, None]

    def chosen(self, items: Sequence[int], length: int) -> Tensor:
        """Some items, all of one length: [b, length, R, C], without padding."""
        if list(items) == list(range(len(self))):
            return self.vectors[:, :length]
        return self.vectors[list(items), :length]


@dataclass(frozen=True)
class Compared:
    """The result of a batch of comparisons."""

    similarity: Tensor
    """CS_v of each pair."""
    excess: Tensor
    """L_reg of Eq. 8 of each pair; 0 for a model without comparator."""


def compare_pairs(model: ViSiL, query: VideoBatch, target: VideoBatch) -> Compared:
    """The i-th query with the i-th target: [B] each."""
    if len(query) != len(target):
        raise UsageError(f"{len(query)} queries cannot be paired with {len(target)} targets")
    groups = _groups(list(zip(query.lengths, target.lengths, strict=True)))
    parts = [
        _compared(model, query.chosen(items, x), target.chosen(items, y), paired=True)
        for (x, y), items in groups.items()
    ]
    back = _back(groups, query.vectors.device)
    return Compared(
        torch.cat([part.similarity for part in parts])[back], torch.cat([part.excess for part in parts])[back]
    )


def compare_all(model: ViSiL, query: VideoBatch, target: VideoBatch) -> Compared:
    """Every query with every target: [N, M] each."""
    query_groups, target_groups = _groups(query.lengths), _groups(target.lengths)
    rows = [
        [
            _compared(model, query.chosen(queries, x), target.chosen(targets, y), paired=False)
            for y, targets in target_groups.items()
        ]
        for x, queries in query_groups.items()
    ]
    device = query.vectors.device
    down, across = _back(query_groups, device), _back(target_groups, device)
    similarity = torch.cat([torch.cat([part.similarity for part in row], dim=1) for row in rows])
    excess = torch.cat([torch.cat([part.excess for part in row], dim=1) for row in rows])
    return Compared(similarity[down][:, across], excess[down][:, across])


def _compared(model: ViSiL, query: Tensor, target: Tensor, *, paired: bool) -> Compared:
    """Videos of equal lengths, [N, X, R, C] and [M, Y, S, C], as many at once as memory allows."""
    query, target = (repeated(videos, model.comparator, dim=1) for videos in (query, target))
    targets = 1 if paired else len(target)
    cells = targets * query[0, ..., 0].numel() * target[0, ..., 0].numel()
    cuts = slices([cells] * len(query), CELLS)
    if len(cuts) == 1:
        return Compared(*_equal(model, query, target, paired))
    parts = []
    for some in cuts:
        arguments = (model, query[some], target[some] if paired else target, paired)
        parts.append(checkpoint(_equal, *arguments, use_reentrant=False, preserve_rng_state=False))
    similarity, excess = zip(*parts, strict=True)
    return Compared(torch.cat(similarity), torch.cat(excess))


def _equal(model: ViSiL, query: Tensor, target: Tensor, paired: bool) -> tuple[Tensor, Tensor]:
    """Eq. 5, Table 1 and Eq. 6 with leading batch axes: CS_v and L_reg, [N] or [N, M]."""
    formula = model.formula
    if on_gpu(query, formula):
        matrix = _matrix_on_gpu(query, target, paired, formula.symmetric)
    else:
        regions = torch.einsum("bxrc,bysc->bxyrs" if paired else "nxrc,mysc->nmxyrs", query, target)
        matrix = pool(regions, *formula.frame_pool, formula.symmetric)
    excess = torch.zeros(matrix.shape[:-2], dtype=matrix.dtype, device=matrix.device)
    if model.comparator is not None:
        output = model.comparator(matrix)
        if output.dtype in (torch.float16, torch.bfloat16):  # sums of many cells need more digits
            output = output.float()
        excess, matrix = similarity_regularisation(output), hard_tanh(output)
    return formula.video_similarity(matrix), excess


def on_gpu(query: Tensor, formula: Formula) -> bool:
    """Whether the kernels may be used: on a GPU that has them, where half precision was asked for."""
    kind = query.device.type
    known = formula.frame_pool == MP_AP and devices.has_kernels(query.device)
    return known and torch.is_autocast_enabled(kind)


def _matrix_on_gpu(query: Tensor, target: Tensor, paired: bool, symmetric: bool) -> Tensor:
    """S_f with a gradient: [B, X, Y], or of all with all, [N, M, X, Y]."""
    from visil.kernels.triton_training import frame_matrices

    dtype = torch.get_autocast_dtype(query.device.type)
    query, target = query.to(dtype), target.to(dtype)
    if paired:
        return frame_matrices(query, target, symmetric=symmetric)
    (n, x), (m, y) = query.shape[:2], target.shape[:2]
    whole = frame_matrices(query.flatten(0, 1)[None], target.flatten(0, 1)[None], symmetric=symmetric)
    return whole.view(n, x, m, y).transpose(1, 2)


def _back(groups: Mapping[Key, list[int]], device: torch.device) -> Tensor:
    """Where each item of the batch stands in the groups laid end to end."""
    order = torch.tensor([i for items in groups.values() for i in items], device=device)
    return torch.argsort(order)


def _groups(keys: Sequence[Key]) -> dict[Key, list[int]]:
    """Which items have which key, in order of first appearance."""
    groups: dict[Key, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return groups
