"""From S_f to what stretches are looked for in: the reader's map where the model has one, else S_f itself.

The one seam between similarities and answers. What is common in a collection (``common`` [X]) is taken off S_f first,
whoever reads it then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.kernels.packing import runs
from visil.kernels.signs import signs_only, straightened
from visil.model.features import VideoFeatures
from visil.model.network import Network
from visil.model.reader import FrameSigns, frame_signs, promising, read_maps, tiled_map

Common = NDArray[np.float32]
"""How common each frame of a query is, [X]."""

ROWS, TILE = 128, 512
"""Query and target frames of a long pair's map that are made at once."""

TOGETHER = 1 << 16
"""Cells of several pairs' maps that are made at once."""

FRAMES = 1024
"""Frames whose signs are read at once."""


class PairReading:
    """Rows of one pair's S_f in, rows of what is read out, each once and in order; memory for a strip and a halo."""

    def __init__(
        self, model: Network, query: VideoFeatures, target: VideoFeatures, common: Common | None = None
    ) -> None:
        self._model, self._common = model, common
        self._rows = len(query)
        self._signs = None if model.reader is None else signs(model, [query, target])
        self._held = torch.empty(0, len(target))  # S_f from row _low on
        self._low = self._done = 0

    def feed(self, strip: Tensor) -> Iterator[NDArray[np.float32]]:
        """The rows that can be read now that the next ones of S_f [h, Y] are there."""
        start = self._low + len(self._held)
        strip = strip.float().cpu()
        if self._common is not None:
            strip = strip - torch.from_numpy(self._common[start : start + len(strip), None])
        if self._signs is None:
            self._low = start + len(strip)
            yield strip.numpy()
            return
        self._held = torch.cat([self._held, strip])
        while self._done < self._rows and self._ready():
            yield self._next(*self._signs).numpy()

    def _ready(self) -> bool:
        """Whether the rows that come next, and all that they depend on, are there."""
        assert self._model.reader is not None
        seen = self._low + len(self._held)
        return seen >= min(self._rows, self._done + ROWS + self._model.reader.halo)

    @torch.inference_mode()
    def _next(self, query: FrameSigns, target: FrameSigns) -> Tensor:
        reader, background = self._model.reader, self._model.background
        assert reader is not None
        assert background is not None
        stop = min(self._rows, self._done + ROWS)
        device = background.regions.device
        held = self._held[: stop + reader.halo - self._low].to(device)
        rows = slice(self._done - self._low, stop - self._low)
        own = query[self._low : self._low + len(held)]
        found = tiled_map(reader, background, held, own, target, rows, TILE)
        self._done = stop
        kept = max(self._low, stop - reader.halo)
        self._held, self._low = self._held[kept - self._low :], kept
        return found.cpu()


@torch.inference_mode()
def read_together(
    model: Network,
    query: VideoFeatures,
    targets: Sequence[VideoFeatures],
    matrices: Sequence[Tensor],
    common: Common | None = None,
) -> list[NDArray[np.float32]]:
    """The readings of a query's S_f with each of several targets, [X, Y] each; all of it in memory."""
    if common is not None:
        matrices = [matrix - torch.from_numpy(common[:, None]).to(matrix.device) for matrix in matrices]
    return read_pairs(model, [(query, target) for target in targets], matrices)


@torch.inference_mode()
def read_pairs(
    model: Network, pairs: Sequence[tuple[VideoFeatures, VideoFeatures]], matrices: Sequence[Tensor]
) -> list[NDArray[np.float32]]:
    """The readings of the S_f of several pairs, less common footage, [X, Y] each."""
    if model.reader is None or model.background is None:
        return brought(matrices)
    reader, background = model.reader, model.background
    matrices = [matrix.float().to(background.regions.device) for matrix in matrices]
    found = [np.full(matrix.shape, -1.0, np.float32) for matrix in matrices]
    # Pairs of about one size are read together: padding costs as much as what is there.
    order = [i for i, worth in enumerate(promising(matrices, background)) if worth]
    order.sort(key=lambda i: tuple(map(len, pairs[i])))
    videos = {id(video): video for i in order for video in pairs[i]}
    told = dict(zip(videos, signs(model, list(videos.values())), strict=True))
    while order:
        cells = matrices[order[-1]].numel()
        some = [order.pop() for _ in range(min(len(order), max(1, TOGETHER // cells)))]
        own, others = ([told[id(pairs[i][side])] for i in some] for side in (0, 1))
        maps = read_maps(reader, background, [matrices[i] for i in some], own, others)
        for i, one in zip(some, brought(maps), strict=True):
            found[i] = one
    return found


def brought(matrices: Sequence[Tensor]) -> list[NDArray[np.float32]]:
    """Matrices in this process's memory, by one copy: each copy from a GPU is waited for."""
    flat = torch.cat([matrix.flatten() for matrix in matrices]).float().cpu().numpy()
    ends = np.cumsum([matrix.numel() for matrix in matrices])
    parts = zip(np.split(flat, ends[:-1]), matrices, strict=True)
    return [part.reshape(tuple(matrix.shape)) for part, matrix in parts]


@torch.inference_mode()
def signs(model: Network, videos: Sequence[VideoFeatures]) -> list[FrameSigns]:
    """Facts about the frames of some videos for the model's reader."""
    background = model.background
    assert background is not None
    found: list[FrameSigns] = []
    for run in runs(videos, len, FRAMES):
        vectors = [video.vectors for video in run]
        if len(run) == 1:
            told = [_signs_of_one(model, run[0])]
        else:
            told = frame_signs(vectors, [video.blank for video in run], background, model.formula)
        found += map(_straight, told, vectors)
    return found


def _signs_of_one(model: Network, video: VideoFeatures) -> FrameSigns:
    """Of a video of any length, piece by piece; what is told of a frame depends on those beside it."""
    assert model.background is not None
    pieces: list[FrameSigns] = []
    for start in range(0, len(video), FRAMES):
        first = max(0, start - 1)
        part = slice(first, start + FRAMES + 1)
        blank = None if video.blank is None else video.blank[part]
        (told,) = frame_signs([video.vectors[part]], [blank], model.background, model.formula)
        pieces.append(told[start - first : start - first + FRAMES])
    return FrameSigns(
        torch.cat([piece.common for piece in pieces]),
        torch.cat([piece.change for piece in pieces]),
        torch.cat([piece.blank for piece in pieces]),
    )


def _straight(told: FrameSigns, vectors: Tensor) -> FrameSigns:
    """The same of what a video was before its vectors were kept as signs, if they were."""
    if not signs_only(vectors):
        return told
    alike = straightened(1 - told.change, 1.0, both=True)
    return FrameSigns(straightened(told.common.clone(), 1.0, both=False), 1 - alike, told.blank)
