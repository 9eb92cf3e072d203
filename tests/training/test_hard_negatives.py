"""Hard negatives against a search over all videos with plain dictionaries."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from array_footage import ArrayFootage
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.config import ViSiLConfig
from visil.training.hard_negatives import NEAREST, Miner, footage_words, related_groups, suitable_size
from visil.training.segments import SegmentPair

VOCABULARY = 40
Array = NDArray[np.int64]


def collection(count: int, seed: int) -> tuple[list[Array], list[torch.Tensor]]:
    """Videos of 6 to 20 frames at one a second, two words a frame, from overlapping topics."""
    rng = np.random.default_rng(seed)
    words = []
    for _ in range(count):
        topic = rng.integers(0, VOCABULARY - 10)
        words.append(topic + rng.integers(0, 11, (rng.integers(6, 21), 2)))
    return words, [torch.arange(len(video), dtype=torch.float64) for video in words]


class Cosine:
    """tf-idf cosine from its definition."""

    def __init__(self, videos: list[Array]) -> None:
        having = Counter(word for video in videos for word in set(video.ravel().tolist()))
        self.idf = {word: math.log(len(videos) / n) for word, n in having.items()}

    def __call__(self, a: Array, b: Array) -> float:
        x, y = (
            {word: n * self.idf[word] for word, n in Counter(words.ravel().tolist()).items()}
            for words in (a, b)
        )
        lengths = math.hypot(*x.values()) * math.hypot(*y.values())
        return min(1.0, sum(x[w] * y.get(w, 0) for w in x) / lengths) if lengths else 0.0


def reachable(start: int, pairs: list[SegmentPair[int]]) -> set[int]:
    seen = {start}
    for _ in pairs:
        seen |= {p.target for p in pairs if p.query in seen} | {p.query for p in pairs if p.target in seen}
    return seen


segment_pairs = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 4), st.integers(1, 6)), max_size=6
).map(lambda rows: [SegmentPair(a, (s, s + n), b, (0, n)) for a, b, s, n in rows if a != b])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), pairs=segment_pairs, upper=st.sampled_from([0.5, 0.9, None]))
def test_the_first_pool_is_what_a_search_over_all_finds(
    seed: int, pairs: list[SegmentPair[int]], upper: float | None
) -> None:
    words, times = collection(9, seed)
    cosine = Cosine(words)
    found = Miner(words, times, VOCABULARY, pairs, upper=upper).annotated(pairs)
    assert len(found) == len(pairs)
    for pair, negatives in zip(pairs, found, strict=True):
        # Frame k is on display from k to k + 1 seconds; segments here begin and end with a frame.
        query = words[pair.query][int(pair.query_span[0]) : int(pair.query_span[1])]
        target = words[pair.target][int(pair.target_span[0]) : int(pair.target_span[1])]
        own = cosine(query, target)
        similar = [max(cosine(query, video), cosine(target, video)) for video in words]
        limits = (own, *((upper,) if upper else ()))
        unsure = {v for v in range(9) if any(abs(similar[v] - limit) < 1e-9 for limit in limits)}  # rounding
        expected = {v for v in range(9) if own < similar[v] <= (upper or 1)} - reachable(pair.query, pairs)
        assert set(negatives) - unsure == expected - unsure
        assert list(negatives) == sorted(set(negatives))
        assert not reachable(pair.query, pairs) & set(negatives)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), pairs=segment_pairs)
def test_the_second_pool_lies_between_the_thresholds(seed: int, pairs: list[SegmentPair[int]]) -> None:
    words, times = collection(9, seed)
    cosine = Cosine(words)
    miner = Miner(words, times, VOCABULARY, pairs)
    related = miner.related()
    for video, negatives in enumerate(miner.artificial(range(9))):
        similar = [cosine(words[video], other) for other in words]
        own = reachable(video, pairs)
        assert list(negatives) == [v for v in range(9) if v not in own and 0.1 < similar[v] <= 0.5]
        assert related[video] == own | {v for v in range(9) if similar[v] > 0.5}


def test_thresholds_are_open_below_and_closed_above() -> None:
    # Two of six videos have each word; so every word weighs the same and cosines are plain.
    words = [np.array([row]) for row in ([0, 1], [1, 2], [0, 3], [2, 4], [3, 5], [4, 5])]
    times = [torch.zeros(1, dtype=torch.float64)] * 6
    assert Miner(words, times, 6).artificial([0]) == [(1, 2)]  # both similar by exactly one half
    assert Miner(words, times, 6, upper=0.49).artificial([0]) == [()]
    assert Miner(words, times, 6, lower=0.5, upper=1).artificial([0]) == [()]


def test_fallback_takes_the_nearest_that_are_not_too_near() -> None:
    words, times = collection(12, 3)
    cosine = Cosine(words)
    miner = Miner(words, times, VOCABULARY, lower=0.99, upper=0.6, fallback="nearest")
    assert Miner(words, times, VOCABULARY, lower=0.99, upper=0.6).artificial(range(12)) == [()] * 12
    for video, negatives in enumerate(miner.artificial(range(12))):
        similar = {v: cosine(words[video], words[v]) for v in range(12) if v != video}
        allowed = sorted((s for s in similar.values() if s <= 0.6), reverse=True)
        assert len(negatives) == min(NEAREST, len(allowed))
        assert sorted((similar[v] for v in negatives), reverse=True) == pytest.approx(allowed[:NEAREST])


def test_without_any_likeness_negatives_are_spread_over_the_videos() -> None:
    words = [np.array([[video]]) for video in range(30)]
    times = [torch.zeros(1, dtype=torch.float64)] * 30
    found = Miner(words, times, 30, fallback="nearest").artificial(range(30))
    used = Counter(v for negatives in found for v in negatives)
    assert set(used.values()) == {NEAREST}


def test_groups_are_connected_components() -> None:
    assert related_groups(7, [(1, 4), (5, 4), (3, 2)]).tolist() == [0, 1, 2, 2, 1, 1, 6]


def test_segments_take_the_frames_on_display() -> None:
    words = [np.arange(10).reshape(10, 1)]
    miner = Miner(words, [torch.arange(10, dtype=torch.float64) / 2], 10)
    for span, expected in (
        ((0.0, 1.0), [0, 1]),
        ((0.7, 1.6), [1, 2, 3]),
        ((4.6, 99.0), [9]),
        ((50.0, 60.0), [9]),
    ):
        assert miner.segment(0, span).words.tolist() == expected


def test_wrong_arguments() -> None:
    words, times = collection(2, 0)
    with pytest.raises(UsageError, match="2 videos have words, but 1"):
        Miner(words, times[:1], VOCABULARY)
    with pytest.raises(UsageError, match="fallback"):
        Miner(words, times, VOCABULARY, fallback="any")  # type: ignore[arg-type]


def test_words_of_footage_through_a_model() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, (t, 32, 32, 3)).astype(np.uint8) for t in (3, 4, 2)]
    arrays.append(arrays[1][::-1].copy())  # the same pictures backwards
    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(2, 3)))
    footage = ArrayFootage(arrays)
    words, bags = footage_words(model, footage)
    assert [w.shape for w in words] == [(3, 2), (4, 2), (2, 2), (4, 2)]
    assert np.array_equal(words[3], words[1][::-1])
    assert bags.vocabulary == 18  # nine different pictures, two layers
    fewer, bags = footage_words(model, footage, 50, frames=6)
    assert [w.shape for w in fewer] == [w.shape for w in words]
    assert bags.vocabulary <= 2 * 6


def test_the_codebook_grows_with_the_collection() -> None:
    assert [suitable_size(n) for n in (1, 32, 885, 20_000, 100_000)] == [16, 16, 442, 10_000, 10_000]
