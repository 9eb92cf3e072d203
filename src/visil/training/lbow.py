"""LBoW, layer bag-of-words (Kordopatis-Zilos et al. 2017): a codebook for each layer of a CNN, one bag for a video.

Every frame has a vector from each layer, its channels' maxima (iMAC). Each goes to the nearest word of its own
layer's codebook, so a frame is as many words as there are layers; a video is the bag of all words of all its frames.
Bags lie in an inverted index. The weight of word t in video d is

    w(t, d) = n(t, d) · log(N / n(t)),

n(t, d) the times t occurs in d, N the videos in the index, n(t) those of them in which t occurs (1 for a word that
none has). The similarity of two bags is the cosine of their weights, in [0, 1]; a bag without any weight, be it empty
or all of words that every video has, is similar to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from visil.errors import ModelError, UsageError

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL

SIZE = 10_000
"""Words of each layer's codebook in the method's paper."""

PER_WORD = 256
"""Vectors for each word that k-means learns from, at most."""

CELLS = 1 << 24
"""Distances computed at once when frames look for their words (64 MB)."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Bag:
    """How often each word occurs: ``words`` rising, ``counts`` above zero."""

    words: Ints
    counts: Ints

    @classmethod
    def of(cls, words: ArrayLike) -> Bag:
        """The bag of words given one by one, in an array of any shape."""
        distinct, counts = np.unique(np.asarray(words, np.int64), return_counts=True)
        return cls(distinct, counts.astype(np.int64))

    def __len__(self) -> int:
        """Words in it, repeats included."""
        return int(self.counts.sum())


class LayerBagOfWords:
    """From each layer's frame vectors to words: ``fit`` learns the codebooks, ``words`` gives a video's bag.

    Words are numbered through all layers: layer l has those from ``offsets_[l]`` to ``offsets_[l+1]`` - 1.
    """

    codebooks_: list[Tensor]
    """Words of each layer, [K_l, C_l]."""
    offsets_: list[int]

    def __init__(self, size: int = SIZE, *, iterations: int = 25, seed: int = 0) -> None:
        if size < 1:
            raise UsageError(f"size must be at least 1, not {size}")
        self.size, self.iterations, self.seed = size, iterations, seed

    def fit(self, layers: Sequence[Tensor]) -> Self:
        """Learn a codebook from each layer's vectors, [N, C_l], by k-means.

        Where a layer has no more distinct vectors than ``size``, each of them is a word.
        """
        _check(layers)
        if not len(layers[0]):
            raise UsageError("codebooks cannot be learned from no vectors")
        self.codebooks_ = [self._codebook(layer.detach().float().cpu()) for layer in layers]
        self.offsets_ = [0, *np.cumsum([len(codebook) for codebook in self.codebooks_]).tolist()]
        return self

    @property
    def vocabulary(self) -> int:
        """Words of all layers together."""
        return self.offsets_[-1]

    def frame_words(self, layers: Sequence[Tensor]) -> Ints:
        """The words of each frame, one for each layer: [T, layers]."""
        _check(layers)
        if [layer.shape[1] for layer in layers] != [codebook.shape[1] for codebook in self.codebooks_]:
            raise UsageError(
                f"expected layers of {[c.shape[1] for c in self.codebooks_]} channels, "
                f"got {[layer.shape[1] for layer in layers]}"
            )
        columns = [
            _nearest(layer, codebook) + offset
            for layer, codebook, offset in zip(layers, self.codebooks_, self.offsets_[:-1], strict=True)
        ]
        return torch.stack(columns, dim=1).cpu().numpy()

    def words(self, layers: Sequence[Tensor]) -> Bag:
        """The bag of a video whose frames have these vectors: a list of [T, C_l]."""
        return Bag.of(self.frame_words(layers))

    def _codebook(self, vectors: Tensor) -> Tensor:
        import faiss

        enough = PER_WORD * self.size
        if len(vectors) > enough:
            chosen = np.random.default_rng(self.seed).choice(len(vectors), enough, replace=False)
            vectors = vectors[torch.from_numpy(np.sort(chosen))]
        distinct = vectors.unique(dim=0)
        if len(distinct) <= self.size:
            return distinct
        kmeans = faiss.Kmeans(
            *(vectors.shape[1], self.size),
            niter=self.iterations,
            seed=self.seed,
            min_points_per_centroid=1,  # few points are a small collection, not a mistake to warn of
            max_points_per_centroid=PER_WORD,
        )
        kmeans.train(np.ascontiguousarray(vectors.numpy()))
        return torch.from_numpy(np.array(kmeans.centroids))


@torch.inference_mode()
def layer_vectors(model: ViSiL, frames: NDArray[np.uint8] | Tensor, *, batch: int = 64) -> list[Tensor]:
    """iMAC of frames uint8 [T, H, W, 3] from each stage that the model uses: [T, C_l] each, unit length, on the CPU."""
    if model.backbone is None:
        raise ModelError(model.why_no_backbone)
    images = torch.as_tensor(frames)
    if images.ndim != 4 or images.shape[-1] != 3 or images.dtype != torch.uint8 or 0 in images.shape:
        raise UsageError(f"frames must be uint8 [T, H, W, 3], got {images.dtype} {list(images.shape)}")
    parts: list[list[Tensor]] = [[] for _ in model.config.stages]
    for start in range(0, len(images), batch):
        maps = model.stage_maps(images[start : start + batch])
        for part, stage in zip(parts, model.config.stages, strict=True):
            part.append(F.normalize(maps[stage].float().amax(dim=(2, 3)), dim=1).cpu())
    return [torch.cat(part) for part in parts]


def _nearest(vectors: Tensor, codebook: Tensor) -> Tensor:
    """The word nearest to each vector, by Euclidean distance: [T] of int64."""
    codebook = codebook.to(vectors.device)
    # |v - w|² less |v|², which is the same for every word.
    offsets = codebook.square().sum(dim=1)
    step = max(1, CELLS // len(codebook))
    found = [
        torch.addmm(offsets, vectors[i : i + step].float(), codebook.T, alpha=-2).argmin(dim=1)
        for i in range(0, len(vectors), step)
    ]
    return torch.cat(found) if found else torch.empty(0, dtype=torch.int64, device=vectors.device)


def _check(layers: Sequence[Tensor]) -> None:
    if not layers or any(layer.ndim != 2 or len(layer) != len(layers[0]) for layer in layers):
        raise UsageError(
            f"layers must be [T, C] each, with one T, not {[list(layer.shape) for layer in layers]}"
        )


# ---------------------------------------------------------------------- the index of bags


@dataclass(frozen=True)
class _Postings:
    """For every word, the videos that have it: rows ``starts[t]`` to ``starts[t+1]`` of the other two."""

    starts: Ints
    videos: Ints
    weights: Floats
    """w(t, d)."""
    idf: Floats
    norms: Floats
    """Length of each video's weights."""


class BagIndex:
    """Videos as bags, searched word by word: a query costs only the videos that share a word with it."""

    def __init__(self, vocabulary: int) -> None:
        if vocabulary < 1:
            raise UsageError(f"vocabulary must be at least 1, not {vocabulary}")
        self.vocabulary = vocabulary
        self._bags: list[Bag] = []
        self._postings: _Postings | None = None

    def __len__(self) -> int:
        return len(self._bags)

    def add(self, bag: Bag) -> int:
        """Take in the next video; returns its number. Weights of all videos change with it."""
        self._check(bag)
        self._bags.append(bag)
        self._postings = None
        return len(self._bags) - 1

    def similarities(self, query: Bag) -> Floats:
        """Cosine similarity of a bag with every video of the index: [videos], float64."""
        self._check(query)
        index = self._built()
        scores = np.zeros(len(self))
        weights, norm = self._weights(query, index)
        lengths = index.starts[query.words + 1] - index.starts[query.words]
        # The rows of all of the query's words, one run after the other.
        run_starts = np.cumsum(lengths) - lengths
        rows = np.arange(lengths.sum()) + np.repeat(index.starts[query.words] - run_starts, lengths)
        products = np.repeat(weights, lengths) * index.weights[rows]
        dots = np.bincount(index.videos[rows], products, minlength=len(self))
        np.divide(dots, index.norms * norm, out=scores, where=(index.norms > 0) & (norm > 0))
        return np.minimum(scores, 1.0)

    def similarity(self, a: Bag, b: Bag) -> float:
        """Cosine similarity of two bags, in the index or not, by the weights of this index."""
        self._check(a)
        self._check(b)
        index = self._built()
        (a_weights, a_norm), (b_weights, b_norm) = self._weights(a, index), self._weights(b, index)
        if not (a_norm > 0 and b_norm > 0):
            return 0.0
        _, in_a, in_b = np.intersect1d(a.words, b.words, assume_unique=True, return_indices=True)
        return min(1.0, float(a_weights[in_a] @ b_weights[in_b] / (a_norm * b_norm)))

    def _weights(self, bag: Bag, index: _Postings) -> tuple[Floats, float]:
        weights = bag.counts * index.idf[bag.words]
        return weights, float(np.linalg.norm(weights))

    def _check(self, bag: Bag) -> None:
        if len(bag.words) and not 0 <= bag.words[0] <= bag.words[-1] < self.vocabulary:
            raise UsageError(f"words must be from 0 to {self.vocabulary - 1}")

    def _built(self) -> _Postings:
        if self._postings is None:
            self._postings = _postings(self._bags, self.vocabulary)
        return self._postings


def _postings(bags: list[Bag], vocabulary: int) -> _Postings:
    sizes = np.array([len(bag.words) for bag in bags], np.int64)
    words = np.concatenate([np.empty(0, np.int64), *(bag.words for bag in bags)])
    counts = np.concatenate([np.empty(0, np.int64), *(bag.counts for bag in bags)])
    videos = np.repeat(np.arange(len(bags)), sizes)
    having = np.bincount(words, minlength=vocabulary)
    idf = np.log(max(1, len(bags)) / np.maximum(having, 1))
    weights = counts * idf[words]
    norms = np.sqrt(np.bincount(videos, weights**2, minlength=len(bags)))
    order = np.argsort(words, kind="stable")
    starts = np.concatenate([[0], np.cumsum(having)])
    return _Postings(starts, videos[order], weights[order], idf, norms)
