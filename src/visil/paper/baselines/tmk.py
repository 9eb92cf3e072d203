"""TMK, temporal matching kernel: frames compared by their vectors and their times, at any shift.

Poullot, Tsukatani, Nguyen, Jégou and Satoh, "Temporal matching kernel with explicit feature maps", ACM Multimedia
2015. For videos with vectors x_t and y_u at times t and u,

    K(x, y; δ) = Σ_t Σ_u ⟨x_t, y_u⟩ κ(u - t - δ),    κ(τ) = Σ_n a_n cos(2π n τ / T),

a periodic kernel κ as its first Fourier coefficients. The double sum falls apart into one description for each video,
the frames' sums under each frequency, and K at every shift δ needs only their products. The kernel is von Mises',
(exp(β cos(2π τ / T)) - exp(-β)) / (2 sinh β), and kernels of several periods T are added, as the sum repeats late.

Left open there, and chosen here:

- Periods are in seconds: 2731, 4391, 9767 and 14653 frames of the published code (facebookresearch/videoalignment) at
  its 15 frames a second; β = 32 and 16 frequencies, 0 to 15, as in its examples.
- The score is max_δ K(x, y; δ) / √(K(x, x; 0) K(y, y; 0)), at most 1 and 1 for a video with itself, one norm for all
  periods together; where frequencies are normalised that norm is a constant, and the order that of the published code.
- :func:`normalised` has that code's normalisations: ``freq``, which is Poullot's and the default here, ``feat`` and
  ``feat_freq``, which are those of LAMV; ``matrix`` leaves the sums as they are.
- δ runs in steps of ``step`` seconds over all shifts at which the videos overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.cte import frame_vectors
from visil.paper.baselines.system import ComparedSystem, ScoreArray

PERIODS = (2731 / 15, 4391 / 15, 9767 / 15, 14653 / 15)
"""Seconds."""

Normalisation = Literal["matrix", "freq", "feat", "feat_freq"]
"""As the published code calls them."""

EPSILON = 1e-8
"""Keeps lengths of nothing finite, as there."""

BATCH = 64
"""Targets compared at once."""

SAMPLES = 4096
"""Points at which the kernel is sampled for its Fourier coefficients: far beyond its bandwidth, so exact."""


@dataclass(frozen=True, eq=False)
class KernelDescription:
    """A video as its frames' sums under each frequency; coefficients of the kernel are not in it."""

    sums: Tensor
    """Σ_t x_t exp(2π i n t / T), complex [periods, frequencies, C], normalised."""
    powers: Tensor
    """Squared length of each sum, float64 [periods, frequencies]."""
    start: float
    end: float
    """Times of its first and last frame, in seconds."""


class TMK(ComparedSystem[KernelDescription]):
    """Temporal matching kernel over one vector for each frame."""

    name = "TMK"
    reads = "imac+pca"
    coefficients: Tensor
    """a_n for each period, float64 [periods, frequencies]."""

    def __init__(
        self,
        periods: Sequence[float] = PERIODS,
        *,
        frequencies: int = 16,
        beta: float = 32.0,
        step: float = 0.5,
        normalisation: Normalisation = "freq",
    ) -> None:
        if normalisation not in get_args(Normalisation):
            raise UsageError(
                f"unknown normalisation {normalisation!r}: choose one of {', '.join(get_args(Normalisation))}"
            )
        if not periods or min(periods) <= 0 or frequencies < 1 or not beta > 0 or not step > 0:
            raise UsageError("periods, frequencies, beta and step must be above 0")
        self.periods, self.frequencies, self.step = tuple(periods), frequencies, step
        self.normalisation = normalisation
        self.coefficients = torch.from_numpy(von_mises(beta, frequencies)).repeat(len(self.periods), 1)

    def describe(self, video: VideoFeatures) -> KernelDescription:
        """The sums of the frames under each frequency of each period."""
        return self._described(frame_vectors(video), video.timestamps)

    def scores(self, query: KernelDescription, targets: Sequence[KernelDescription]) -> ScoreArray:
        """Largest normalised kernel over all shifts, for each target."""
        return self._peaks(query, targets)[0]

    def align(self, query: KernelDescription, target: KernelDescription) -> tuple[float, float]:
        """The best shift in seconds, target less query, and its score."""
        scores, shifts = self._peaks(query, [target])
        return float(shifts[0]), float(scores[0])

    def kernel(self, query: KernelDescription, target: KernelDescription, shifts: Tensor) -> Tensor:
        """K at each of the given shifts, not normalised, float64."""
        return self.weighed(products(query, [target]), shifts.double())[0]

    def mean(self, query: KernelDescription, neighbours: Sequence[KernelDescription]) -> KernelDescription:
        """The query averaged with its neighbours, each moved by its best shift and of unit norm."""
        _, shifts = self._peaks(query, neighbours)
        total = query.sums / self._norm(query)
        for neighbour, shift in zip(neighbours, shifts.tolist(), strict=True):
            turn = torch.polar(torch.ones_like(self._rates()), -self._rates() * shift).to(total)
            total = total + neighbour.sums.to(total) * turn[:, :, None] / self._norm(neighbour)
        total = total / (1 + len(neighbours))
        return KernelDescription(total, powers(total), query.start, query.end)

    def weighed(self, pairs: Tensor, shifts: Tensor) -> Tensor:
        """K from the products of two descriptions [B, periods, frequencies] at shifts float64 [S]: [B, S]."""
        angles = (self._rates().to(shifts)[:, :, None] * shifts).flatten(0, 1)
        weighed = (self.coefficients.to(shifts) * pairs.to(torch.complex128)).flatten(1)
        return weighed.real @ angles.cos() + weighed.imag @ angles.sin()

    def shifts(self, query: KernelDescription, targets: Sequence[KernelDescription]) -> tuple[Tensor, Tensor]:
        """Shifts at which any target overlaps the query, [S], and at which each does, [B, S]."""
        lows = np.floor([(target.start - query.end) / self.step for target in targets])
        highs = np.ceil([(target.end - query.start) / self.step for target in targets])
        numbers = np.arange(lows.min(), highs.max() + 1)
        overlap = (numbers >= lows[:, None]) & (numbers <= highs[:, None])
        device = query.sums.device
        return torch.from_numpy(numbers * self.step).to(device), torch.from_numpy(overlap).to(device)

    def _described(self, vectors: Tensor, times: Tensor) -> KernelDescription:
        sums = normalised(self.raw_sums(vectors, times), self.coefficients, self.normalisation)
        return KernelDescription(sums, powers(sums), float(times[0]), float(times[-1]))

    def raw_sums(self, vectors: Tensor, times: Tensor) -> Tensor:
        """Σ_t x_t exp(2π i n t / T) of vectors [T, C] at times [T], complex [periods, frequencies, C]."""
        real = torch.float64 if vectors.dtype == torch.float64 else torch.float32
        times = times.to(vectors.device, torch.float64)
        # The angles in float64: times are long, periods short.
        angles = self._rates().to(times.device)[:, :, None] * times
        vectors = vectors.to(real)
        return torch.complex(angles.cos().to(real) @ vectors, angles.sin().to(real) @ vectors)

    @torch.inference_mode()
    def _peaks(
        self, query: KernelDescription, targets: Sequence[KernelDescription]
    ) -> tuple[ScoreArray, NDArray[np.float64]]:
        scores, best = np.zeros(len(targets)), np.zeros(len(targets))
        for start in range(0, len(targets), BATCH):
            some = targets[start : start + BATCH]
            shifts, overlap = self.shifts(query, some)
            own = torch.tensor([self._norm(target) for target in some], dtype=torch.float64)
            norms = self._norm(query) * own
            values = self.weighed(products(query, some), shifts) / norms.to(shifts)[:, None]
            highest, places = values.masked_fill(~overlap, -torch.inf).max(dim=1)
            scores[start : start + BATCH] = highest.cpu().numpy()
            best[start : start + BATCH] = shifts[places].cpu().numpy()
        return scores, best

    def _norm(self, description: KernelDescription) -> float:
        """√K(x, x; 0); 1 for a video without any content."""
        squared = float((self.coefficients.to(description.powers) * description.powers).sum())
        return squared**0.5 or 1.0

    def _rates(self) -> Tensor:
        """2π n / T, float64 [periods, frequencies]."""
        numbers = torch.arange(self.frequencies, dtype=torch.float64)
        return 2 * torch.pi * numbers / torch.tensor(self.periods, dtype=torch.float64)[:, None]


def von_mises(beta: float, frequencies: int) -> NDArray[np.float64]:
    """The first Fourier coefficients a_n of von Mises' kernel, float64 [frequencies]."""
    angles = 2 * np.pi * np.arange(SAMPLES) / SAMPLES
    # exp(β cos) and sinh β, both divided by exp(β), which a large β would send out of range.
    kernel = (np.exp(beta * (np.cos(angles) - 1)) - np.exp(-2 * beta)) / (1 - np.exp(-2 * beta))
    coefficients = 2 * np.fft.rfft(kernel).real[:frequencies] / SAMPLES
    coefficients[0] /= 2
    return np.asarray(np.maximum(coefficients, 0))


def products(query: KernelDescription, targets: Sequence[KernelDescription]) -> Tensor:
    """⟨query, target⟩ under each frequency, complex [B, periods, frequencies]."""
    wrong = [target.sums.shape for target in targets if target.sums.shape != query.sums.shape]
    if wrong:
        raise UsageError(f"descriptions of {list(query.sums.shape)} and {list(wrong[0])} cannot be compared")
    stacked = torch.stack([target.sums.to(query.sums) for target in targets])
    return torch.einsum("pfc,bpfc->bpf", query.sums.conj(), stacked)


def normalised(sums: Tensor, coefficients: Tensor, how: Normalisation) -> Tensor:
    """Sums [..., periods, frequencies, C] under the kernel's coefficients [periods, frequencies], normalised.

    ``feat``: each frequency's cosines and its sines are vectors of unit length. ``freq``: each channel has unit power
    over all frequencies, weighted by their coefficients. ``feat_freq``: one after the other.
    """
    if how.startswith("feat"):
        sums = torch.complex(_unit(sums.real), _unit(sums.imag))
    if how.endswith("freq"):
        weights = coefficients.to(sums.device, sums.real.dtype)[..., None]
        power = (weights * (sums.real.square() + sums.imag.square())).sum(dim=-2, keepdim=True)
        sums = sums / (power + EPSILON).sqrt()
    return sums


def powers(sums: Tensor) -> Tensor:
    """Squared length of each sum, float64 [..., periods, frequencies]."""
    return (sums.real.double().square() + sums.imag.double().square()).sum(dim=-1)


def _unit(vectors: Tensor) -> Tensor:
    return vectors / (vectors.square().sum(dim=-1, keepdim=True) + EPSILON).sqrt()
