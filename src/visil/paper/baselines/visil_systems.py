"""ViSiL itself as compared systems: the rows of Table 3, the poolings of Table 9, and any model of the product.

:class:`ViSiLSystem` is a finished model and reads what that model embeds. :class:`ViSiLFromFeatures` starts from raw
L3-iMAC vectors and learns in ``learn`` what its row needs: whitening by PCA, then attention and comparator by the
paper's losses (Eq. 7 to 9), on the triplets that the other learned systems get
(:mod:`visil.paper.baselines.triplets`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.compare.loading import load
from visil.compare.matches import check
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.kernels import Scorer
from visil.model.attention import ContextAttention
from visil.model.comparator import Comparator, hard_tanh, repeated
from visil.model.config import ViSiLConfig
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.model.presets import VISIL_F, VISIL_F_W, VISIL_F_W_A, VISIL_SYM, VISIL_V
from visil.model.similarity import MP_AP, Reduction
from visil.model.whitening import PCA, Whitening
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked, needed
from visil.paper.baselines.triplets import TripletSource

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

NAMES = (*ROWS, *POOLED)

RAW = "l3-imac"
"""Region vectors before any whitening: what these systems start from where they do not read a model's features."""

WHITENED_ON = 1_000_000
"""Region vectors that the whitening is learned from, at most, as in the paper."""

MARGIN, REGULARISATION = 0.5, 0.1
"""γ and r of the paper."""


class ViSiLSystem(ComparedSystem[Tensor]):
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
        own = self.model.formula
        self._formula = replace(
            own, frame_pool=frame_pool or own.frame_pool, video_pool=video_pool or own.video_pool
        )

    @property
    def formula(self) -> Formula:
        """The model's, or with other poolings where these were asked for."""
        return self._formula

    @property
    def device(self) -> torch.device:
        """The model's."""
        return self.model.device

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


class ViSiLFromFeatures(ComparedSystem[Tensor]):
    """A row of Table 3 on raw region vectors, its learned parts learned from features."""

    def __init__(
        self,
        config: ViSiLConfig,
        name: str | None = None,
        *,
        reads: str = RAW,
        frame_pool: tuple[Reduction, Reduction] | None = None,
        video_pool: tuple[Reduction, Reduction] | None = None,
        steps: int = 300,
        learning_rate: float = 1e-3,
    ) -> None:
        self.config, self.name, self.reads = config, name or config.name, reads
        self.learns = config.dim is not None  # all rows but ViSiL_f
        self.by_triplets = config.attention is not None
        self.frame_pool = frame_pool or config.frame_pool
        self.video_pool = video_pool or config.video_pool
        self.steps, self.learning_rate = steps, learning_rate
        self.whitening_: Whitening | None = None
        self.attention_: ContextAttention | None = None
        self.comparator_: Comparator | None = None

    @property
    def formula(self) -> Formula:
        """The row's poolings, and the comparator once it is learned."""
        return Formula(self.frame_pool, self.video_pool, self.config.symmetric, self.comparator_)

    @property
    def learned(self) -> bool:
        """Whether every part that this row needs is there."""
        config = self.config
        return (
            (config.dim is None or self.whitening_ is not None)
            and (config.attention is None or self.attention_ is not None)
            and (config.comparator is None or self.comparator_ is not None)
        )

    @torch.inference_mode(False)
    @torch.enable_grad()
    def learn(
        self, videos: Sequence[VideoFeatures], *, seed: int = 0, triplets: TripletSource | None = None
    ) -> None:
        """Fit the whitening, then train attention and comparator; ViSiL_f has nothing to learn."""
        vectors = [checked(video) for video in videos]
        if self.config.dim is None:
            return
        if not vectors:
            raise UsageError(f"{self.name} needs videos to learn from")
        self.whitening_ = fit_whitening(vectors, self.config.dim).to(vectors[0].device)
        if self.config.attention is None:
            return
        device = vectors[0].device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.attention_ = ContextAttention(self.whitening_.dim).to(device)
            self.comparator_ = (
                Comparator(self.config.comparator).to(device) if self.config.comparator else None
            )
        self._train(needed(triplets, self.name), self.whitening_)

    @torch.inference_mode()
    def describe(self, video: VideoFeatures) -> Tensor:
        """Region vectors, whitened and weighted where the row says so: [T, R, D]."""
        if not self.learned:
            raise UsageError(f"{self.name} has learned nothing yet: call learn with training videos first")
        vectors = checked(video)
        if self.whitening_ is not None:
            vectors = self.whitening_(vectors.float())
        return vectors if self.attention_ is None else self.attention_(vectors)

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """CS_v with each target."""
        return Scorer(self.formula, query.device).scores(query, targets)

    def _train(self, source: TripletSource, whitening: Whitening) -> None:
        """The paper's loop: one triplet a step, Adam, Eq. 9; the context vector kept at unit length."""
        assert self.attention_ is not None
        parts: list[torch.nn.Module] = [self.attention_]
        if self.comparator_ is not None:
            parts.append(self.comparator_)
        parameters = [parameter for part in parts for parameter in part.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=self.learning_rate, foreach=True)
        for _ in range(self.steps):
            drawn = source.draw()
            anchor = whitening(drawn.anchor)
            positive, outside = self._similarity(anchor, whitening(drawn.positive))
            negative, outside_too = self._similarity(anchor, whitening(drawn.negative))
            loss = F.relu(negative - positive + MARGIN) + REGULARISATION * (outside + outside_too)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            self.attention_.constrain_()
        for part in parts:
            part.eval().requires_grad_(False)

    def _similarity(self, query: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """CS_v of whitened vectors by the plain formulas, and L_reg (Eq. 8); differentiable."""
        assert self.attention_ is not None
        formula, comparator = self.formula, self.comparator_
        frames = formula.frame_matrix(
            self.attention_(repeated(query, comparator)), self.attention_(repeated(target, comparator))
        )
        outside = frames.new_zeros(())
        if comparator is not None:
            raw = comparator(frames)
            outside = (F.relu(raw - 1) + F.relu(-1 - raw)).sum()
            frames = hard_tanh(raw)
        return formula.video_similarity(frames), outside


def visil_system(
    name: str,
    model: ViSiL | str | os.PathLike[str] | None = None,
    *,
    reads: str = RAW,
    steps: int = 300,
) -> ComparedSystem[Tensor]:
    """A row of Table 3 or 9 by name: ``model`` where one is given, which must be such a model; else from features."""
    if name not in NAMES:
        raise UsageError(f"unknown ViSiL system {name!r}: choose one of {', '.join(NAMES)}")
    row, frames, videos = POOLED.get(name, (name, None, None))
    frame_pool = POOLINGS[frames] if frames else None
    video_pool = POOLINGS[videos] if videos else None
    if model is None:
        return ViSiLFromFeatures(
            ROWS[row], name, reads=reads, frame_pool=frame_pool, video_pool=video_pool, steps=steps
        )
    system = ViSiLSystem(model, name, frame_pool=frame_pool, video_pool=video_pool)
    _check_parts(row, system.model)
    return system


def fit_whitening(videos: Sequence[Tensor], dim: int, most: int = WHITENED_ON) -> Whitening:
    """PCA whitening of region vectors [T, R, C], to ``dim`` channels or as many as there are.

    Of more than ``most`` vectors, evenly spaced frames are taken.
    """
    step = max(1, ceil(sum(video.shape[0] * video.shape[1] for video in videos) / most))
    pca = PCA().fit(video[::step] for video in videos)
    return pca.whitening(min(dim, videos[0].shape[-1]))


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
