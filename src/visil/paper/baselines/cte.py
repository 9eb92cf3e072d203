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
  all frequencies are kept.
- Targets are product-quantised in the Fourier domain, queries are not, as published: a video's spectrum, over a power
  of two of at least its own length, is one vector of real and imaginary parts for each frequency; its channels are cut
  into ``codes`` parts, each the nearest of 256 words (fewer where there are few vectors to learn from) that k-means
  finds in the spectra of the training videos. One codebook serves all frequencies, of vectors of unit length, and the
  length is kept beside the codes. Not there: the published invariance of the words to a change of phase.
- Responses are divided by the query's response to itself: a video has 1 with itself.
- Frames are taken as evenly spaced; shifts are in frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked
from visil.paper.baselines.triplets import TripletSource

BATCH_CELLS = 1 << 23
"""Values of padded targets that are transformed at once (32 MB)."""

TINY = 1e-12

CODES = 64
"""Bytes of a frequency's code, at most."""

BITS = 8
"""Of each part of a code."""

LEARNED_FROM = 1 << 15
"""Frequencies that the words are learned from, at most about."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A video as a query, exact, and as a target, in codes."""

    frames: Tensor
    """[T, C]."""
    codes: NDArray[np.uint8] | None = None
    """Of each frequency, [frequencies, codes]; None: nothing is quantised."""
    lengths: NDArray[np.float32] | None = None
    """Length of each frequency's vector."""

    def __len__(self) -> int:
        return len(self.frames)


class CTE(ComparedSystem[Encoded]):
    """Circulant temporal encoding over one vector for each frame; ``codes`` = 0 quantises nothing."""

    name = "CTE"
    reads = "imac+pca"

    def __init__(self, regularisation: float = 0.1, *, codes: int = CODES) -> None:
        if not regularisation > 0:
            raise UsageError(f"regularisation must be above 0, not {regularisation}")
        if codes < 0:
            raise UsageError(f"codes must be 0 or more, not {codes}")
        self.regularisation, self.codes = regularisation, codes
        self.learns = codes > 0
        self.quantiser_: Any = None  # faiss.ProductQuantizer, which has no types

    def learn(
        self,
        videos: Sequence[VideoFeatures],
        *,
        seed: int = 0,  # noqa: ARG002
        triplets: TripletSource | None = None,  # noqa: ARG002
    ) -> None:
        """Learn the words of the codes."""
        if not self.codes:
            return
        if not videos:
            raise UsageError("CTE learns its codes from at least one video, got none")
        every = max(1, sum(map(len, videos)) // LEARNED_FROM)
        spectra = [spectrum_of(frame_vectors(video))[::every] for video in videos]
        self.quantiser_ = _quantiser(_directions(np.concatenate(spectra))[0], self.codes)

    def describe(self, video: VideoFeatures) -> Encoded:
        """The frame vectors, and their spectrum in codes."""
        return self.encoded(frame_vectors(video))

    def encoded(self, frames: Tensor) -> Encoded:
        """Frame vectors [T, C] as query and target."""
        if not self.codes:
            return Encoded(frames)
        if self.quantiser_ is None:
            raise UsageError("CTE has no codes yet: let it learn from some videos first")
        directions, lengths = _directions(spectrum_of(frames))
        if directions.shape[1] != self.quantiser_.d:
            raise UsageError(
                f"these codes are for {self.quantiser_.d // 2} channels, got {directions.shape[1] // 2}"
            )
        return Encoded(frames, self.quantiser_.compute_codes(directions), lengths)

    def decoded(self, video: Encoded) -> Tensor:
        """A target's frame vectors, as far as the codes have kept them: [T, C]."""
        if video.codes is None or video.lengths is None:
            return video.frames
        kept = self.quantiser_.decode(video.codes) * video.lengths[:, None]
        return frames_of(kept, len(video)).to(video.frames)

    def scores(self, query: Encoded, targets: Sequence[Encoded]) -> ScoreArray:
        """Largest response over all shifts, for each target."""
        return self._peaks(query, targets)[0]

    def align(self, query: Encoded, target: Encoded) -> tuple[int, float]:
        """The best shift, target frame less query frame, and its score."""
        scores, shifts = self._peaks(query, [target])
        return int(shifts[0]), float(scores[0])

    def mean(self, query: Encoded, neighbours: Sequence[Encoded]) -> Encoded:
        """The query's frames averaged with the neighbours' at their best shift; where one has none, it adds nothing."""
        _, shifts = self._peaks(query, neighbours)
        total = query.frames.clone()
        for neighbour, shift in zip(neighbours, shifts.tolist(), strict=True):
            start, stop = max(0, -shift), min(len(query), len(neighbour) - shift)
            total[start:stop] += self.decoded(neighbour)[start + shift : stop + shift].to(total)
        return Encoded(total / (1 + len(neighbours)))

    @torch.inference_mode()
    def _peaks(self, query: Encoded, targets: Sequence[Encoded]) -> tuple[ScoreArray, NDArray[np.int64]]:
        """Score and shift of each target's largest response."""
        scores, shifts = np.zeros(len(targets)), np.zeros(len(targets), np.int64)
        sizes = [1 << (len(query) + len(target) - 1).bit_length() for target in targets]
        for size in set(sizes):
            alike = [i for i, other in enumerate(sizes) if other == size]
            step = max(1, BATCH_CELLS // (size * query.frames.shape[1]))
            filtered, self_response = self._filter(query.frames, size)
            for start in range(0, len(alike), step):
                chosen = alike[start : start + step]
                values, places = _responses(
                    filtered, len(query), [self.decoded(targets[i]) for i in chosen], size
                )
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


# ---------------------------------------------------------------------- codes


def spectrum_of(frames: Tensor) -> NDArray[np.float32]:
    """Frames [T, C] over a power of two as [frequencies, 2 C]: real and imaginary part of each channel side by side."""
    size = 1 << (len(frames) - 1).bit_length()
    spectrum = torch.fft.rfft(frames.float().T.contiguous(), n=size).T
    return torch.view_as_real(spectrum.contiguous()).flatten(1).cpu().numpy()


def frames_of(spectrum: NDArray[np.float32], length: int) -> Tensor:
    """Back to ``length`` frames [T, C]."""
    size = 1 << (length - 1).bit_length()
    pairs = torch.from_numpy(np.ascontiguousarray(spectrum)).unflatten(1, (-1, 2))
    return torch.fft.irfft(torch.view_as_complex(pairs.contiguous()).T.contiguous(), n=size).T[:length]


def _directions(spectrum: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Vectors of unit length, and how long they were."""
    lengths = np.linalg.norm(spectrum, axis=1)
    return spectrum / np.maximum(lengths, TINY)[:, None].astype(np.float32), lengths.astype(np.float32)


def _quantiser(vectors: NDArray[np.float32], most: int) -> Any:
    """A product quantiser of ``most`` parts, or as many below as divide the channels."""
    import faiss

    width = vectors.shape[1]
    parts = next(count for count in range(min(most, width // 2), 0, -1) if width % (2 * count) == 0)
    bits = max(1, min(BITS, len(vectors).bit_length() - 1))
    quantiser = faiss.ProductQuantizer(width, parts, bits)
    quantiser.cp.min_points_per_centroid = 1  # few points are a small collection, not a mistake to warn of
    quantiser.train(np.ascontiguousarray(vectors))
    return quantiser
