"""PCA whitening and reduction of region vectors (Sec. 4.1, after Jégou and Chum 2012).

:class:`PCA` learns from a stream of any length in the memory of one covariance matrix; :class:`Whitening` applies.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.errors import UsageError

EPSILON = 1e-7
"""Added to each eigenvalue before the square root, as the authors do."""


class Whitening(nn.Module):
    """y = ℓ2((x - mean) · projection): whitens, and reduces C channels to D."""

    mean: Tensor
    projection: Tensor

    def __init__(self, mean: Tensor, projection: Tensor) -> None:
        super().__init__()
        if projection.ndim != 2 or mean.shape != projection.shape[:1]:
            raise UsageError(
                f"whitening needs a mean [C] and a projection [C, D], got {list(mean.shape)}, {list(projection.shape)}"
            )
        self.register_buffer("mean", mean)
        self.register_buffer("projection", projection)

    @classmethod
    def unfitted(cls, channels: int, dim: int) -> Whitening:
        """A stand-in before training: keeps dot products (the identity, or seeded random orthonormal axes)."""
        projection = torch.eye(channels)
        if dim < channels:
            noise = torch.randn(channels, dim, generator=torch.Generator().manual_seed(0))
            projection = torch.linalg.qr(noise).Q
        return cls(torch.zeros(channels), projection)

    @classmethod
    def from_eigen(
        cls, mean: Tensor, eigenvalues: Tensor, eigenvectors: Tensor, dim: int, whiten: bool = True
    ) -> Whitening:
        """From a PCA's mean [C], eigenvalues [C] in any order and eigenvectors in the columns of [C, C]."""
        mean = mean.reshape(-1)
        if not 0 < dim <= eigenvalues.numel():
            raise UsageError(f"cannot keep {dim} of {eigenvalues.numel()} dimensions")
        order = torch.argsort(eigenvalues, descending=True)[:dim]
        projection = eigenvectors[:, order]
        if whiten:
            projection = projection / torch.sqrt(eigenvalues[order].clamp(min=0) + EPSILON)
        return cls(mean, projection)

    @property
    def dim(self) -> int:
        """D, the width that comes out."""
        return self.projection.shape[1]

    def forward(self, regions: Tensor) -> Tensor:
        """Region vectors [..., C] to unit vectors [..., D]."""
        if regions.shape[-1] != self.mean.shape[0]:
            raise UsageError(f"this whitening takes {self.mean.shape[0]} channels, got {regions.shape[-1]}")
        return F.normalize((regions - self.mean) @ self.projection, dim=-1)


class PCA:
    """Mean and principal axes of a stream of vectors, seen once, chunk by chunk.

    Keeps a float64 mean and scatter matrix (118 MB at 3,840 channels) and merges each chunk's exactly, so millions
    of vectors cost no more memory than a thousand, and data far from the origin loses no digits.
    """

    def __init__(self) -> None:
        self.count_ = 0
        self.mean_: Tensor | None = None
        self.scatter_: Tensor | None = None

    def partial_fit(self, vectors: Tensor) -> PCA:
        """Take in one chunk, [..., C]."""
        chunk = vectors.reshape(-1, vectors.shape[-1]).double()
        if not torch.isfinite(chunk).all():
            raise UsageError("vectors to fit a whitening on contain NaN or infinity")
        if chunk.shape[0] == 0:
            return self
        mean = chunk.mean(dim=0)
        centred = chunk - mean
        scatter = centred.T @ centred
        if self.mean_ is None or self.scatter_ is None:
            self.count_, self.mean_, self.scatter_ = chunk.shape[0], mean, scatter
            return self
        if mean.shape != self.mean_.shape:
            raise UsageError(f"expected vectors of {self.mean_.numel()} channels, got {mean.numel()}")
        total = self.count_ + chunk.shape[0]
        shift = mean - self.mean_
        self.scatter_ += scatter
        self.scatter_.addr_(shift, shift, alpha=self.count_ * chunk.shape[0] / total)
        self.mean_ += shift * (chunk.shape[0] / total)
        self.count_ = total
        return self

    def fit(self, chunks: Iterable[Tensor]) -> PCA:
        """Take in a stream of chunks."""
        for chunk in chunks:
            self.partial_fit(chunk)
        return self

    def whitening(self, dim: int | None = None, *, whiten: bool = True) -> Whitening:
        """The fitted PCA, as a layer that keeps ``dim`` dimensions; ``whiten=False`` only rotates and reduces."""
        if self.mean_ is None or self.scatter_ is None:
            raise UsageError("nothing to whiten with yet: fit the PCA on some vectors first")
        channels = self.mean_.numel()
        if self.count_ <= channels and whiten:
            raise UsageError(
                f"whitening {channels} channels needs more than {channels} vectors, got {self.count_}: add videos"
            )
        eigenvalues, eigenvectors = torch.linalg.eigh(self.scatter_ / self.count_)
        layer = Whitening.from_eigen(self.mean_, eigenvalues, eigenvectors, dim or channels, whiten)
        return layer.float()
