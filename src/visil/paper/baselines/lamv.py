"""LAMV: the temporal matching kernel with learned Fourier coefficients.

Baraldi, Douze, Cucchiara and Jégou, "LAMV: learning to align and match videos with kernelized temporal layers", CVPR
2018: the coefficients a_n of :mod:`visil.paper.baselines.tmk`, for each period, are trained by a triplet loss that
looks both at how alike the videos are and at whether the shift is right.

Left open here, as no weights and no training set are public, and chosen:

- Triplets are made from the videos given: a whole video, a noisy part of it whose clock starts anew (so the right
  shift is known) and a noisy part of another video.
- With K̂ the normalised kernel, δ* the right shift, x the video, y its part and z the other's, the loss is

      [m + max_δ K̂(x, z; δ) - K̂(x, y; δ*)]₊ + [m + max_{|δ - δ*| > tolerance} K̂(x, y; δ) - K̂(x, y; δ*)]₊.

- Coefficients stay above zero, as the exponential of what is trained, and begin as those of von Mises' kernel.
- Frame features are not trained along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.cte import frame_vectors
from visil.paper.baselines.tmk import PERIODS, TMK, KernelDescription, products

BATCH = 32
"""Triplets of one step."""

SMALLEST = 1e-8
"""Least coefficient that training starts from."""


@dataclass(frozen=True)
class LamvTraining:
    """How the coefficients are learned."""

    triplets: int = 256
    steps: int = 200
    rate: float = 0.05
    margin: float = 0.1
    tolerance: float = 3.0
    """Seconds within which a shift counts as right."""
    noise: float = 0.5
    """Length of the noise that is added to a unit vector of a part."""
    part: tuple[float, float] = (0.3, 0.8)
    """Least and largest share of a video that its part is."""


@dataclass(frozen=True)
class _Pairs:
    """Videos against parts: everything the loss needs, each [N, ...]."""

    products: Tensor
    """Of the two descriptions, at the least shift at which they overlap, complex [N, periods, frequencies]."""
    powers: Tensor
    """Of both, [N, 2, periods, frequencies]."""
    spans: Tensor
    """How much larger the largest such shift is, [N]."""

    def at(self, chosen: Tensor) -> _Pairs:
        return _Pairs(self.products[chosen], self.powers[chosen], self.spans[chosen])


class LAMV(TMK):
    """Temporal matching kernel with learned coefficients; unlearned, it is TMK."""

    name = "LAMV"
    learns = True
    losses_: list[float]
    """Mean loss of each step."""

    def __init__(
        self,
        periods: Sequence[float] = PERIODS,
        *,
        frequencies: int = 16,
        beta: float = 32.0,
        step: float = 0.5,
        training: LamvTraining | None = None,
    ) -> None:
        super().__init__(periods, frequencies=frequencies, beta=beta, step=step)
        self.training = training or LamvTraining()
        self._first = self.coefficients

    @torch.inference_mode(False)
    @torch.enable_grad()
    def learn(self, videos: Sequence[VideoFeatures], *, seed: int = 0) -> None:
        """Train the coefficients, from their beginning, on triplets made from these videos."""
        if len(videos) < 2:
            raise UsageError(f"LAMV learns from at least two videos, got {len(videos)}")
        rng = np.random.default_rng(seed)
        positive, shifts, negative = self._triplets(videos, rng)
        logarithms = self._first.clamp(min=SMALLEST).log().requires_grad_()
        optimizer = torch.optim.Adam([logarithms], lr=self.training.rate)
        self.losses_ = []
        patience = 2 * (1 + len(shifts) // BATCH)  # enough steps without loss to have met most triplets
        for _ in range(self.training.steps):
            size = min(BATCH, len(shifts))
            chosen = torch.from_numpy(np.sort(rng.choice(len(shifts), size, replace=False)))
            self.coefficients = logarithms.exp()
            loss = self._loss(positive.at(chosen), shifts[chosen], negative.at(chosen))
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
            self.losses_.append(float(loss.detach()))
            if not any(self.losses_[-patience:]):
                break
        # The kernel is normalised, so only their proportions count.
        learned = logarithms.detach().exp()
        self.coefficients = learned * (len(self.periods) / learned.sum())

    def _loss(self, positive: _Pairs, right: Tensor, negative: _Pairs) -> Tensor:
        margin, tolerance = self.training.margin, self.training.tolerance
        turned = self._turned(positive.products, right)
        at_right = (self.coefficients * turned.real).sum(dim=(1, 2)) / self._norms(positive)
        values, shifts = self._kernels(positive)
        # A video too short to be shifted that far has no wrong shift.
        near = (shifts - right[:, None]).abs() <= tolerance
        misplaced = values.masked_fill(near, -torch.inf).amax(dim=1)
        mistaken = self._kernels(negative)[0].amax(dim=1)
        return (F.relu(margin + mistaken - at_right) + F.relu(margin + misplaced - at_right)).mean()

    def _kernels(self, pairs: _Pairs) -> tuple[Tensor, Tensor]:
        """K̂ at all shifts of a pair, [N, S], -inf where they do not overlap; and the shifts, from the least, [S]."""
        shifts = self.step * torch.arange(
            int((pairs.spans.max() / self.step).ceil()) + 1, dtype=torch.float64
        )
        values = self.weighed(pairs.products, shifts) / self._norms(pairs)[:, None]
        return values.masked_fill(shifts >= pairs.spans[:, None] + self.step, -torch.inf), shifts

    def _norms(self, pairs: _Pairs) -> Tensor:
        """√(K(x, x; 0) K(y, y; 0)), [N]."""
        return (self.coefficients * pairs.powers).sum(dim=(2, 3)).prod(dim=1).clamp(min=1e-24).sqrt()

    def _turned(self, pairs: Tensor, shifts: Tensor) -> Tensor:
        """Products [N, periods, frequencies] with shifts [N] taken as zero."""
        angles = -self._rates() * shifts[:, None, None]
        return pairs * torch.polar(torch.ones_like(angles), angles)

    def _triplets(
        self, videos: Sequence[VideoFeatures], rng: np.random.Generator
    ) -> tuple[_Pairs, Tensor, _Pairs]:
        """Videos against their own parts, the right shifts from the least [N], and against the parts of others."""
        wholes: dict[int, KernelDescription] = {}
        positive, shifts, negative = [], [], []
        for _ in range(self.training.triplets):
            anchor, other = (int(i) for i in rng.choice(len(videos), 2, replace=False))
            if anchor not in wholes:
                wholes[anchor] = self.describe(videos[anchor])
            part, began = self._part(videos[anchor], rng)
            positive.append((wholes[anchor], part))
            shifts.append(-began)
            negative.append((wholes[anchor], self._part(videos[other], rng)[0]))
        least = torch.tensor([part.start - whole.end for whole, part in positive], dtype=torch.float64)
        right = torch.tensor(shifts, dtype=torch.float64) - least
        return self._paired(positive), right, self._paired(negative)

    def _part(self, video: VideoFeatures, rng: np.random.Generator) -> tuple[KernelDescription, float]:
        """A noisy stretch of a video on a clock of its own, and when it began on the video's."""
        vectors = frame_vectors(video)
        length = max(1, min(len(vectors), round(len(vectors) * rng.uniform(*self.training.part))))
        start = int(rng.integers(len(vectors) - length + 1))
        chosen = vectors[start : start + length]
        noise = torch.from_numpy(rng.normal(size=chosen.shape)).to(chosen) / chosen.shape[1] ** 0.5
        lengths = chosen.norm(dim=1, keepdim=True)
        noisy = F.normalize(chosen + self.training.noise * lengths * noise, dim=1) * lengths
        times = video.timestamps[start : start + length].double()
        return self._described(noisy, times - times[0]), float(times[0])

    def _paired(self, pairs: Sequence[tuple[KernelDescription, KernelDescription]]) -> _Pairs:
        """On the CPU: what is trained is small."""
        found = torch.cat([products(a, [b]) for a, b in pairs]).to("cpu", torch.complex128)
        powers = torch.stack([torch.stack([a.powers, b.powers]) for a, b in pairs]).cpu()
        spans = torch.tensor([[b.start - a.end, b.end - a.start] for a, b in pairs], dtype=torch.float64)
        return _Pairs(self._turned(found, spans[:, 0]), powers, spans[:, 1] - spans[:, 0])
