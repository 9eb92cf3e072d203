"""LAMV: the temporal matching kernel with learned Fourier coefficients.

Baraldi, Douze, Cucchiara and Jégou, "LAMV: learning to align and match videos with kernelized temporal layers", CVPR
2018: the coefficients a_n of :mod:`visil.paper.baselines.tmk`, for each period, are trained by a triplet loss that
looks both at how alike the videos are and at whether the shift is right; sums are normalised by features, then by
frequencies (``feat_freq`` of the published code).

Left open here, as no weights and no training code are public, and chosen:

- Triplets are ViSiL's (:mod:`visil.paper.baselines.triplets`): x the anchor, y the positive, z the negative. The right
  shift δ* is known where the positive is a stretch of the anchor's video at its own speed.
- With K̂ the normalised kernel, the loss is

      [m + max_δ K̂(x, z; δ) - K̂(x, y; δ*)]₊ + [m + max_{|δ - δ*| > tolerance} K̂(x, y; δ) - K̂(x, y; δ*)]₊;

  where δ* is not known, the first term alone, with max_δ K̂(x, y; δ) in the place of K̂(x, y; δ*).
- Coefficients stay above zero, as the exponential of what is trained, and begin as those of von Mises' kernel.
- Frame features are not trained along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import needed
from visil.paper.baselines.tmk import PERIODS, TMK, Normalisation, normalised, powers
from visil.paper.baselines.triplets import Drawn, TripletSource

SMALLEST = 1e-8
"""Least coefficient that training starts from."""


@dataclass(frozen=True)
class LamvTraining:
    """How the coefficients are learned."""

    steps: int = 2000
    batch: int = 32
    rate: float = 0.02
    margin: float = 0.1
    tolerance: float = 3.0
    """Seconds within which a shift counts as right."""


class LAMV(TMK):
    """Temporal matching kernel with learned coefficients; unlearned, it is TMK under the same normalisation."""

    name = "LAMV"
    learns = by_triplets = True
    losses_: list[float]
    """Mean loss of each step."""

    def __init__(
        self,
        periods: Sequence[float] = PERIODS,
        *,
        frequencies: int = 16,
        beta: float = 32.0,
        step: float = 0.5,
        normalisation: Normalisation = "feat_freq",
        training: LamvTraining | None = None,
    ) -> None:
        super().__init__(periods, frequencies=frequencies, beta=beta, step=step, normalisation=normalisation)
        self.training = training or LamvTraining()
        self._first = self.coefficients

    @torch.inference_mode(False)
    @torch.enable_grad()
    def learn(
        self,
        videos: Sequence[VideoFeatures],  # noqa: ARG002
        *,
        seed: int = 0,  # noqa: ARG002
        triplets: TripletSource | None = None,
    ) -> None:
        """Train the coefficients, from their beginning."""
        source = needed(triplets, self.name)
        logarithms = self._first.clamp(min=SMALLEST).log().requires_grad_()
        optimizer = torch.optim.Adam([logarithms], lr=self.training.rate)
        self.losses_ = []
        for _ in range(self.training.steps):
            self.coefficients = logarithms.exp()
            loss = self.loss([source.draw() for _ in range(self.training.batch)])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            self.losses_.append(float(loss.detach()))
        # The kernel is normalised, so only their proportions count.
        learned = logarithms.detach().exp()
        self.coefficients = learned * (len(self.periods) / learned.sum())

    def learned(self) -> dict[str, Tensor]:
        """The coefficients."""
        return {"coefficients": self.coefficients}

    def restore(self, learned: dict[str, Tensor]) -> None:
        """See :class:`visil.paper.baselines.system.Keepable`."""
        self.coefficients = learned["coefficients"]

    def loss(self, drawn: Sequence[Drawn]) -> Tensor:
        """The loss of the docstring above, its mean over some triplets."""
        margin, tolerance = self.training.margin, self.training.tolerance
        anchors, positives, negatives = (
            self._sums([getattr(d, part) for d in drawn], drawn)
            for part in ("anchor", "positive", "negative")
        )
        known = torch.tensor([d.shift is not None for d in drawn])
        right = torch.tensor([d.shift or 0.0 for d in drawn], dtype=torch.float64)
        products, norms = self._products(anchors, positives)
        values, shifts = self._kernels(products, norms, drawn, [len(d.positive) for d in drawn])
        turned = products * torch.polar(torch.ones_like(self._rates()), -self._rates() * right[:, None, None])
        at_right = (self.coefficients * turned.real).sum(dim=(1, 2)) / norms
        best = torch.where(known, at_right, values.amax(dim=1))
        # A video too short to be shifted that far has no wrong shift.
        wrong = known[:, None] & ((shifts - right[:, None]).abs() > tolerance)
        misplaced = values.masked_fill(~wrong, -torch.inf).amax(dim=1)
        mistaken = self._kernels(
            *self._products(anchors, negatives), drawn, [len(d.negative) for d in drawn]
        )[0].amax(dim=1)
        return (F.relu(margin + mistaken - best) + F.relu(margin + misplaced - best)).mean()

    def _sums(self, videos: Sequence[Tensor], drawn: Sequence[Drawn]) -> Tensor:
        """Sums of some snippets, [N, periods, frequencies, C], on the CPU: what is trained is small."""
        if any(video.shape[1] != 1 for video in videos):
            raise UsageError(
                f"expected one vector for each frame, got {videos[0].shape[1]}: read imac features"
            )
        found = [
            self.raw_sums(video[:, 0].cpu(), d.step * torch.arange(len(video), dtype=torch.float64))
            for video, d in zip(videos, drawn, strict=True)
        ]
        return normalised(torch.stack(found), self.coefficients, self.normalisation)

    def _products(self, query: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """⟨query, target⟩ under each frequency, [N, periods, frequencies], and √(K(x, x; 0) K(y, y; 0)), [N]."""
        found = torch.einsum("npfc,npfc->npf", query.conj(), target).to(torch.complex128)
        norms = [(self.coefficients * powers(sums)).sum(dim=(1, 2)) for sums in (query, target)]
        return found, (norms[0] * norms[1]).clamp(min=1e-24).sqrt()

    def _kernels(
        self, products: Tensor, norms: Tensor, drawn: Sequence[Drawn], lengths: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """K̂ at the shifts of all pairs, [N, S], -inf where a pair does not overlap; and the shifts, [S]."""
        least = torch.tensor([-d.step * (len(d.anchor) - 1) for d in drawn], dtype=torch.float64)
        most = torch.tensor(
            [d.step * (n - 1) for d, n in zip(drawn, lengths, strict=True)], dtype=torch.float64
        )
        first, last = int((least.min() / self.step).floor()), int((most.max() / self.step).ceil())
        shifts = self.step * torch.arange(first, last + 1, dtype=torch.float64)
        values = self.weighed(products, shifts) / norms[:, None]
        apart = (shifts <= least[:, None] - self.step) | (shifts >= most[:, None] + self.step)
        return values.masked_fill(apart, -torch.inf), shifts
