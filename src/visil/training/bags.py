"""Bags of words and an inverted index over them: tf-idf weights, cosine similarity.

The weight of word t in video d is

    w(t, d) = n(t, d) · log(N / n(t)),

n(t, d) the times t occurs in d, N the videos in the index, n(t) those of them in which t occurs (1 for a word that
none has). The similarity of two bags is the cosine of their weights, in [0, 1]; a bag without any weight, be it empty
or all of words that every video has, is similar to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visil.errors import UsageError

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
            self._postings = _build(self._bags, self.vocabulary)
        return self._postings


def _build(bags: list[Bag], vocabulary: int) -> _Postings:
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
