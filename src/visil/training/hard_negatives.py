"""Hard negatives (Sec. 4.5): videos that look like the anchor by their bags of words, and do not share its footage.

Everything works from words: for each video, the words of each of its frames, [T, layers], and the times of the
frames. :func:`footage_words` gets them from videos; :class:`Miner` finds the negatives of both pools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.machine.prefetch import in_order
from visil.training.feature_footage import FeatureFootage
from visil.training.lbow import SIZE, Bag, BagIndex, LayerBagOfWords, layer_vectors
from visil.training.segments import SegmentPair, Span

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL
    from visil.training.footage import Footage

LOWER = 0.1
"""Similarity above which a video is a hard negative of the second pool."""

UPPER = 0.5
"""Similarity above which a video may be a near-duplicate, and is no negative at all."""

NEAREST = 5
"""Negatives that an anchor without hard ones gets under ``fallback="nearest"``."""

CHUNK = 64
"""Frames of one video read at once."""

READERS = 8
"""Threads that read frames ahead of the network."""

Fallback = Literal["nearest", "skip"]
Negatives = list[tuple[int, ...]]
"""For each anchor, the numbers of its negatives, rising; none: the anchor is to be left out."""
Words = NDArray[np.int64]


class Miner:
    """Finds hard negatives among videos given as words; ``pairs`` are all annotated pairs, short ones too."""

    def __init__(
        self,
        words: Sequence[Words],
        times: Sequence[Tensor],
        vocabulary: int,
        pairs: Iterable[SegmentPair[int]] = (),
        *,
        lower: float = LOWER,
        upper: float | None = UPPER,
        fallback: Fallback = "skip",
    ) -> None:
        if len(words) != len(times):
            raise UsageError(f"{len(words)} videos have words, but {len(times)} have times")
        if fallback not in ("nearest", "skip"):
            raise UsageError(f"fallback must be 'nearest' or 'skip', not {fallback!r}")
        self.lower, self.fallback = lower, fallback
        self.upper = float("inf") if upper is None else upper
        self.groups = related_groups(len(words), ((pair.query, pair.target) for pair in pairs))
        """One number a video: the same where annotation relates them, directly or through others."""
        self._words = words
        self._times = [seconds.numpy() for seconds in times]
        self._bags = [Bag.of(video) for video in words]
        self.index = BagIndex(vocabulary)
        for bag in self._bags:
            self.index.add(bag)

    def annotated(self, pairs: Sequence[SegmentPair[int]]) -> Negatives:
        """First pool: for each pair, videos more similar to either of its segments than the two are to each other."""
        negatives: Negatives = []
        for pair in pairs:
            query = self.segment(pair.query, pair.query_span)
            target = self.segment(pair.target, pair.target_span)
            similarity = np.maximum(self.index.similarities(query), self.index.similarities(target))
            negatives.append(
                self._chosen(
                    similarity, self.index.similarity(query, target), self._own(pair.query, pair.target)
                )
            )
        return negatives

    def artificial(self, videos: Sequence[int]) -> Negatives:
        """Second pool: for each video, those whose similarity with it lies in (``lower``, ``upper``]."""
        return [
            self._chosen(self.index.similarities(self._bags[video]), self.lower, self._own(video))
            for video in videos
        ]

    def related(self) -> list[frozenset[int]]:
        """For each video, those that may show its footage: itself, its annotated group, too similar ones."""
        return [
            frozenset(
                np.flatnonzero(
                    self._own(video) | (self.index.similarities(self._bags[video]) > self.upper)
                ).tolist()
            )
            for video in range(len(self._bags))
        ]

    def segment(self, video: int, span: Span) -> Bag:
        """The bag of a stretch of a video: of the frames on display in it, at least one."""
        times = self._times[video]
        first = max(0, int(np.searchsorted(times, span[0], "right")) - 1)
        last = max(first + 1, int(np.searchsorted(times, span[1], "left")))
        return Bag.of(self._words[video][first:last])

    def _own(self, *videos: int) -> NDArray[np.bool_]:
        """Which videos are one of these, or related to one."""
        return np.isin(self.groups, self.groups[list(videos)])

    def _chosen(
        self, similarity: NDArray[np.float64], above: float, own: NDArray[np.bool_]
    ) -> tuple[int, ...]:
        allowed = ~own & (similarity <= self.upper)
        hard = np.flatnonzero(allowed & (similarity > above))
        if not len(hard) and self.fallback == "nearest":
            others = np.flatnonzero(allowed)
            # Equals, which are mostly those that share no word at all, are taken from where the anchor's own group
            # begins and not from the front: else one video would be everyone's negative.
            turned = np.roll(others, -int(np.searchsorted(others, int(np.argmax(own)))))
            order = np.argsort(-similarity[turned], kind="stable")
            hard = np.sort(turned[order[:NEAREST]])
        return tuple(hard.tolist())


def related_groups(count: int, pairs: Iterable[tuple[int, int]]) -> NDArray[np.int64]:
    """A number for each of ``count`` videos, the same for those that chains of pairs connect: their least member."""
    parent = list(range(count))

    def root(video: int) -> int:
        while parent[video] != video:
            parent[video] = parent[parent[video]]
            video = parent[video]
        return video

    for a, b in pairs:
        a, b = sorted((root(a), root(b)))
        parent[b] = a
    return np.array([root(video) for video in range(count)], np.int64)


def suitable_size(videos: int) -> int:
    """Words of a layer's codebook for so many videos: half as many, from 16 to the 10,000 of the method's paper.

    With more, few videos share any word and most have no hard negative; with fewer, unlike videos seem duplicates.
    Of 885 clips with 400 words eight have no hard negative, with 800 words 41 have none; of 82 clips with 400, all.
    """
    return min(SIZE, max(16, videos // 2))


def footage_words(
    model: ViSiL,
    footage: Footage,
    size: int | None = None,
    *,
    frames: int = 200_000,
    seed: int = 0,
) -> tuple[list[Words], LayerBagOfWords]:
    """The words of every frame of every video, and the codebooks that were learned for it.

    Each layer gets ``size`` words, or as many as suit the number of videos (:func:`suitable_size`).
    Codebooks are learned from at most ``frames`` frames, spread evenly over the videos. Where that is not all of
    them the videos go through the network twice, and memory holds no more than ``frames`` frames' vectors.
    """
    counts = [len(footage.times(video)) for video in range(len(footage))]
    if not counts:
        raise UsageError("there are no videos to learn words from")
    share = min(1.0, frames / sum(counts))
    rng = np.random.default_rng(seed)
    kept = [np.sort(rng.permutation(count)[: max(1, int(count * share))]).tolist() for count in counts]
    learned = list(_vectors(model, footage, kept))
    bags = LayerBagOfWords(size or suitable_size(len(counts)), seed=seed)
    bags.fit([_joined(layer) for layer in zip(*learned, strict=True)])
    if share == 1.0:
        return [bags.frame_words(layers) for layers in learned], bags
    del learned
    everything = [range(count) for count in counts]
    return [bags.frame_words(layers) for layers in _vectors(model, footage, everything)], bags


def _vectors(model: ViSiL, footage: Footage, wanted: Sequence[Sequence[int]]) -> Iterator[list[Tensor]]:
    """Each layer's vectors of some frames of each video; of a long one never all pictures are in memory."""
    if isinstance(footage, FeatureFootage):
        for video, positions in enumerate(wanted):
            yield list(footage.vectors(video)[list(positions)].unbind(dim=1))
        return
    chunks = (
        (video, positions[start : start + CHUNK])
        for video, positions in enumerate(wanted)
        for start in range(0, len(positions), CHUNK)
    )
    read = in_order(lambda chunk: (chunk[0], footage.images(*chunk)), chunks, READERS)
    for _, own in groupby(read, itemgetter(0)):
        parts = [layer_vectors(model, pictures) for _, pictures in own]
        yield [_joined(layer) for layer in zip(*parts, strict=True)]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(parts))
