"""ViSiL itself as compared systems: the rows of Table 3, the poolings of Table 9, and any model of the product.

:class:`ViSiLSystem` is a finished model and reads what that model embeds; :class:`RefinedSystem` reads raw vectors, of
the backbone or of I3D, which the model whitens and weighs. What they have learned, ``visil train``'s trainer taught.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from visil.compare.loading import load
from visil.compare.matches import check
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.kernels import Scorer
from visil.model.config import VISIL_F, VISIL_F_W, VISIL_F_W_A, VISIL_SYM, VISIL_V, ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.model.similarity import MP_AP, Reduction
from visil.paper.baselines.system import PlacedSystem, ScoreArray

ROWS: dict[str, ViSiLConfig] = {
    "ViSiL_f": VISIL_F,
    "ViSiL_f+W": VISIL_F_W,
    "ViSiL_f+W+A": VISIL_F_W_A,
    "ViSiL_sym": VISIL_SYM,
    "ViSiL_v": VISIL_V,
}
"""Rows of Table 3."""

POOLINGS: dict[str, tuple[Reduction, Reduction]] = {"MP-AP": MP_AP, "AP-AP": ("mean", "mean")}
"""Table 9's names: best then mean (Chamfer), or the mean of all."""

POOLED: dict[str, tuple[str, str, str]] = {
    f"{row} {frames}/{videos}": (row, frames, videos)
    for row in ("ViSiL_f", "ViSiL_v")
    for frames in POOLINGS
    for videos in POOLINGS
}
"""Table 9: ``ViSiL_v AP-AP/MP-AP`` pools frames by AP-AP and videos by MP-AP."""

REGULARISED = ("without L_reg", "with L_reg")
"""Table 4: both are ViSiL_v, trained differently."""

NAMES = (*ROWS, *POOLED)

RAW = "l3-imac"
"""Region vectors before any whitening: what these systems start from where they do not read a model's features."""


class ViSiLSystem(PlacedSystem):
    """A finished model: a :class:`visil.ViSiL`, or the name or folder of one. Nothing is learned."""

    def __init__(
        self,
        model: ViSiL | str | os.PathLike[str] | None = None,
        name: str | None = None,
        *,
        frame_pool: tuple[Reduction, Reduction] | None = None,
        video_pool: tuple[Reduction, Reduction] | None = None,
        reads: str = "model",
    ) -> None:
        self.model = model if isinstance(model, ViSiL) else load(model)
        self.name, self.reads = name or self.model.config.name, reads
        self._device = self.model.device
        own = self.model.formula
        self._formula = replace(
            own, frame_pool=frame_pool or own.frame_pool, video_pool=video_pool or own.video_pool
        )

    @property
    def formula(self) -> Formula:
        """The model's, or with other poolings where these were asked for."""
        return self._formula

    def place(self, device: str | torch.device) -> None:
        """Compute there from now on, the model too; one without tensors, as ViSiL_f on raw vectors, is nowhere else."""
        super().place(device)
        self.model.to(device)

    def describe(self, video: VideoFeatures) -> Tensor:
        """The vectors that the model embedded, [T, R, C], where its comparator is."""
        check(self.model, video, video.path or "video")
        vectors, comparator = video.vectors, self.model.comparator
        if comparator is None:
            return vectors
        vectors = vectors.to(self.model.device)
        return vectors.to(comparator.fconv.weight.dtype) if vectors.dtype == torch.float64 else vectors

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """CS_v with each target, as :meth:`visil.ViSiL.scores` gives it."""
        return Scorer(self.formula, query.device).scores(query, targets)


class RefinedSystem(ViSiLSystem):
    """A finished model on the raw region vectors of its backbone, which it whitens and weighs."""

    def __init__(self, model: ViSiL, name: str, *, reads: str = RAW) -> None:
        super().__init__(model, name, reads=reads)

    @torch.inference_mode()
    def describe(self, video: VideoFeatures) -> Tensor:
        """Region vectors, whitened and weighted as the model does."""
        return self.model.refine(video.vectors.float().to(self.model.device)).cpu()


def visil_system(name: str, model: ViSiL | str | os.PathLike[str]) -> ViSiLSystem:
    """A row of Table 3, 4 or 9 by name, of a model that must be such a row."""
    if name not in (*NAMES, *REGULARISED):
        raise UsageError(f"unknown ViSiL system {name!r}: choose one of {', '.join(NAMES)}")
    row, frames, videos = POOLED.get(name, (name, None, None))
    system = ViSiLSystem(
        model,
        name,
        frame_pool=POOLINGS[frames] if frames else None,
        video_pool=POOLINGS[videos] if videos else None,
    )
    _check_parts("ViSiL_v" if row in REGULARISED else row, system.model)
    return system


def _check_parts(row: str, model: ViSiL) -> None:
    """Refuse a model that is not the row it is to stand for."""
    wanted, config = ROWS[row], model.config
    for part, asked, there in (
        ("whitening", wanted.dim is not None, config.dim is not None),
        ("attention", wanted.attention is not None, config.attention is not None),
        ("comparator", wanted.comparator is not None, config.comparator is not None),
        ("symmetric similarity", wanted.symmetric, config.symmetric),
    ):
        if asked != there:
            raise UsageError(
                f"{row} is a model {'with' if asked else 'without'} {part}, which {config.name} is not: "
                "leave the model out, or compare it as 'model'"
            )
