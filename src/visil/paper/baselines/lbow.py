"""LBoW among the compared systems: codebooks learned from some videos, bags ranked by tf-idf.

Kordopatis-Zilos, Papadopoulos, Patras and Kompatsiaris, "Near-duplicate video retrieval by aggregating intermediate
CNN layers", MMM 2017; the method itself is :mod:`visil.training.lbow`.

It reads "layers" features: [T, layers, C], each layer's frame vector with zeros behind it up to the widest layer's
width (:func:`stack_layers`), which changes no distance. Document frequencies are those of the targets given to
``scores``, the collection searched. Where every target has all of a query's words, as in a collection of one, all
scores are 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked
from visil.paper.baselines.triplets import TripletSource
from visil.training.lbow import SIZE, Bag, BagIndex, LayerBagOfWords


class LBoW(ComparedSystem[Bag]):
    """Layer bag-of-words."""

    name = "LBoW"
    reads = "layers"
    learns = True
    collection_wide = True  # document frequencies are those of all targets

    def __init__(self, size: int = SIZE, *, iterations: int = 25) -> None:
        self.size, self.iterations = size, iterations
        self.codebooks_: LayerBagOfWords | None = None
        self._targets: list[Bag] = []
        self._index: BagIndex | None = None

    def learn(
        self,
        videos: Sequence[VideoFeatures],
        *,
        seed: int = 0,
        triplets: TripletSource | None = None,  # noqa: ARG002
    ) -> None:
        """Learn a codebook for each layer from all frames of these videos."""
        if not videos:
            raise UsageError("LBoW learns its codebooks from at least one video, got none")
        frames = torch.cat([checked(video).float().cpu() for video in videos])
        bags = LayerBagOfWords(self.size, iterations=self.iterations, seed=seed)
        self.codebooks_ = bags.fit(list(frames.unbind(dim=1)))
        self._index = None

    def describe(self, video: VideoFeatures) -> Bag:
        """The bag of all words of all frames."""
        return self._codebooks().words(list(checked(video).unbind(dim=1)))

    def scores(self, query: Bag, targets: Sequence[Bag]) -> ScoreArray:
        """Cosine similarity of tf-idf weights."""
        targets = list(targets)
        # Bags are equal only if they are the same object: the index of the last query's targets serves the next.
        if self._index is None or targets != self._targets:
            self._index, self._targets = BagIndex(self._codebooks().vocabulary), targets
            for bag in targets:
                self._index.add(bag)
        return self._index.similarities(query)

    def _codebooks(self) -> LayerBagOfWords:
        if self.codebooks_ is None:
            raise UsageError("LBoW has no codebooks yet: let it learn from some videos first")
        return self.codebooks_


def stack_layers(layers: Sequence[Tensor]) -> Tensor:
    """Vectors of each layer, [T, C_l], as one [T, layers, widest C]: zeros fill the narrower ones."""
    if not layers or any(layer.ndim != 2 or len(layer) != len(layers[0]) for layer in layers):
        raise UsageError(f"layers must be [T, C] each, with one T, not {[list(x.shape) for x in layers]}")
    widest = max(layer.shape[1] for layer in layers)
    return torch.stack([F.pad(layer, (0, widest - layer.shape[1])) for layer in layers], dim=1)
