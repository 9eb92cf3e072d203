"""CTE, circulant temporal encoding: two videos compared at all shifts at once, in the Fourier domain.

Revaud, Douze, Schmid and Jégou, "Event retrieval in large video collections with circulant temporal encoding", CVPR
2013; Douze et al., "Circulant temporal encoding for video retrieval and temporal alignment", IJCV 119(3), 2016. With
Q_c and B_c the transforms of channel c of the query's and the target's frame vectors over time, the response is

    r = F⁻¹( Σ_c Q_c* B_c / (Σ_c Q_c* Q_c + λ) ),

r(δ) high where target frame t + δ looks as query frame t. Dividing by the query's own power is what sharpens the peak
of videos that change slowly; λ keeps weak frequencies from being blown up. One denominator for all channels is the
2016 form. The score is the largest response.

Left open there, and chosen here:

- λ is ``regularisation`` times the mean of the query's power over all frequencies, so that it means the same for
  queries of any length.
- Both videos are padded with zeros to a power of two of at least X + Y frames, so that no frames meet across the ends;
  all frequencies are kept, and nothing is quantised.
- Responses are divided by the query's response to itself: a video has 1 with itself.
- Frames are taken as evenly spaced; shifts are in frames.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked

BATCH_CELLS = 1 << 23
"""Values of padded targets that are transformed at once (32 MB)."""

TINY = 1e-12


class CTE(ComparedSystem[Tensor]):
    """Circulant temporal encoding over one vector for each frame."""

    name = "CTE"
    reads = "imac+pca"

    def __init__(self, regularisation: float = 0.1) -> None:
        if not regularisation > 0:
            raise UsageError(f"regularisation must be above 0, not {regularisation}")
        self.regularisation = regularisation

    def describe(self, video: VideoFeatures) -> Tensor:
        """The frame vectors, [T, C]."""
        return frame_vectors(video)

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """Largest response over all shifts, for each target."""
        return self._peaks(query, targets)[0]

    def align(self, query: Tensor, target: Tensor) -> tuple[int, float]:
        """The best shift, target frame less query frame, and its score."""
        scores, shifts = self._peaks(query, [target])
        return int(shifts[0]), float(scores[0])

    def mean(self, query: Tensor, neighbours: Sequence[Tensor]) -> Tensor:
        """The query's frames averaged with the neighbours' at their best shift; where one has none, it adds nothing."""
        _, shifts = self._peaks(query, neighbours)
        total = query.clone()
        for neighbour, shift in zip(neighbours, shifts.tolist(), strict=True):
            start, stop = max(0, -shift), min(len(query), len(neighbour) - shift)
            total[start:stop] += neighbour[start + shift : stop + shift].to(total)
        return total / (1 + len(neighbours))

    @torch.inference_mode()
    def _peaks(self, query: Tensor, targets: Sequence[Tensor]) -> tuple[ScoreArray, NDArray[np.int64]]:
        """Score and shift of each target's largest response."""
        scores, shifts = np.zeros(len(targets)), np.zeros(len(targets), np.int64)
        sizes = [1 << (len(query) + len(target) - 1).bit_length() for target in targets]
        for size in set(sizes):
            alike = [i for i, other in enumerate(sizes) if other == size]
            step = max(1, BATCH_CELLS // (size * query.shape[1]))
            filtered, self_response = self._filter(query, size)
            for start in range(0, len(alike), step):
                chosen = alike[start : start + step]
                values, places = _responses(filtered, len(query), [targets[i] for i in chosen], size)
                scores[chosen] = values / self_response
                shifts[chosen] = places
        return scores, shifts

    def _filter(self, query: Tensor, size: int) -> tuple[Tensor, float]:
        """Q* / (Σ Q* Q + λ), [C, frequencies], and the query's response to itself."""
        spectrum = torch.fft.rfft(query.to(_real(query)).T.contiguous(), n=size)
        power = spectrum.abs().square().sum(dim=0)
        # By Parseval, the mean power over all frequencies is the energy of the frames.
        weakened = power + self.regularisation * float(query.double().square().sum()) + TINY
        itself = float(torch.fft.irfft(power / weakened, n=size)[0])
        return spectrum.conj() / weakened, max(itself, TINY)


def frame_vectors(video: VideoFeatures) -> Tensor:
    """[T, 1, C] as [T, C]."""
    vectors = checked(video)
    if vectors.shape[1] != 1:
        raise UsageError(f"expected one vector for each frame, got {vectors.shape[1]}: read imac features")
    return vectors[:, 0]


def _responses(
    filtered: Tensor, frames: int, targets: Sequence[Tensor], size: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Largest response of each target, and its shift, among those at which the videos overlap."""
    channels = len(filtered)
    wrong = [target.shape[1] for target in targets if target.shape[1] != channels]
    if wrong:
        raise UsageError(f"features of {channels} and {wrong[0]} channels cannot be compared")
    padded = torch.zeros(len(targets), channels, size, dtype=filtered.real.dtype, device=filtered.device)
    for row, target in zip(padded, targets, strict=True):
        row[:, : len(target)] = target.T
    circular = torch.fft.irfft((torch.fft.rfft(padded) * filtered).sum(dim=1), n=size)
    response = circular.roll(frames - 1, dims=1)  # from shift 1 - X on
    lengths = torch.tensor([len(target) for target in targets], device=response.device)
    beyond = torch.arange(size, device=response.device) >= (frames - 1 + lengths)[:, None]
    values, places = response.masked_fill(beyond, -torch.inf).max(dim=1)
    return values.double().cpu().numpy(), (places - (frames - 1)).cpu().numpy()


def _real(vectors: Tensor) -> torch.dtype:
    return torch.float64 if vectors.dtype == torch.float64 else torch.float32
