"""Words against the nearest centroid in float64, bags against tf-idf by hand and by brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.model.config import ViSiLConfig
from visil.training.lbow import Bag, BagIndex, LayerBagOfWords, layer_vectors


def index_of(*videos: list[int], vocabulary: int = 10) -> BagIndex:
    index = BagIndex(vocabulary)
    for number, words in enumerate(videos):
        assert index.add(Bag.of(words)) == number
    return index


# ---------------------------------------------------------------- bags


def test_similarity_worked_out_by_hand() -> None:
    index = index_of([0, 0, 1], [1, 2], [1, 2, 2, 3])
    # idf: word 0 and 3 are in one of three videos, word 2 in two, word 1 in all and so of no weight.
    rare, common = math.log(3), math.log(3 / 2)
    first, second = (2 * rare,), (common,)
    third = (2 * common, rare)
    assert index.similarities(Bag.of([0, 0, 1])) == pytest.approx([1, 0, 0])
    expected = 2 * common * common / (math.hypot(*second) * math.hypot(*third))
    assert index.similarities(Bag.of([1, 2])) == pytest.approx([0, 1, expected])
    query = (rare, 3 * common)  # word 0 once, word 2 three times
    found = index.similarities(Bag.of([0, 2, 2, 2]))
    assert found == pytest.approx(
        [
            rare * 2 * rare / (math.hypot(*query) * math.hypot(*first)),
            3 * common * common / (math.hypot(*query) * math.hypot(*second)),
            3 * common * 2 * common / (math.hypot(*query) * math.hypot(*third)),
        ]
    )


def test_a_word_that_no_video_has_lowers_similarity() -> None:
    index = index_of([0], [1], [2])
    assert index.similarities(Bag.of([0]))[0] == pytest.approx(1)
    assert index.similarities(Bag.of([0, 9]))[0] == pytest.approx(1 / math.sqrt(2))


def test_bags_without_weight_are_similar_to_nothing() -> None:
    index = index_of([1], [1, 2], [])
    assert index.similarities(Bag.of([])).tolist() == [0, 0, 0]
    assert index.similarity(Bag.of([]), Bag.of([1])) == 0
    alone = index_of([4, 5])
    assert alone.similarities(Bag.of([4, 5])).tolist() == [0]
    assert len(BagIndex(3).similarities(Bag.of([1]))) == 0


def brute_force(videos: list[list[int]], query: list[int], vocabulary: int) -> NDArray[np.float64]:
    counts = np.array([np.bincount(np.array(v, int), minlength=vocabulary) for v in videos], np.float64)
    having = np.maximum((counts > 0).sum(axis=0), 1)
    idf = np.log(len(videos) / having)
    rows = counts * idf
    asked = np.bincount(np.array(query, int), minlength=vocabulary) * idf
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
    return np.array([row @ asked / n if n else 0.0 for row, n in zip(rows, lengths, strict=True)])


words = st.lists(st.integers(0, 14), max_size=12)


@settings(max_examples=150, deadline=None)
@given(videos=st.lists(words, min_size=1, max_size=8), query=words)
def test_the_inverted_index_is_the_brute_force_cosine(videos: list[list[int]], query: list[int]) -> None:
    index = index_of(*videos, vocabulary=15)
    expected = brute_force(videos, query, 15)
    found = index.similarities(Bag.of(query))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.all((found >= 0) & (found <= 1))
    pairwise = [index.similarity(Bag.of(query), Bag.of(video)) for video in videos]
    np.testing.assert_allclose(pairwise, expected, atol=1e-12)


def test_adding_a_video_changes_the_weights_of_all() -> None:
    index = index_of([0, 1], [0, 2])
    assert index.similarity(Bag.of([0, 1]), Bag.of([0, 2])) == 0  # all share word 0
    index.add(Bag.of([3]))
    expected = brute_force([[0, 1], [0, 2], [3]], [0, 1], 10)
    assert expected[1] > 0.1
    np.testing.assert_allclose(index.similarities(Bag.of([0, 1])), expected)


def test_words_outside_the_vocabulary_are_refused() -> None:
    with pytest.raises(UsageError, match="0 to 9"):
        index_of([10])
    with pytest.raises(UsageError, match="0 to 9"):
        index_of([1]).similarities(Bag.of([-1]))


# ---------------------------------------------------------------- codebooks


def clusters(count: int, channels: int, centres: int, seed: int) -> tuple[Tensor, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(centres, channels)) * 10
    which = rng.integers(0, centres, count)
    vectors = places[which] + rng.normal(size=(count, channels)) * 0.01
    return torch.from_numpy(vectors.astype(np.float32)), which


def test_words_are_the_nearest_centroids_and_the_clusters() -> None:
    (first, which), (second, _) = clusters(300, 6, 5, 0), clusters(300, 9, 7, 1)
    bags = LayerBagOfWords(5, seed=3).fit([first, second])
    assert bags.offsets_ == [0, 5, 10]
    assert bags.vocabulary == 10
    frames = bags.frame_words([first, second])
    assert frames.shape == (300, 2)
    for column, layer in enumerate((first, second)):
        centroids = bags.codebooks_[column].double().numpy()
        distances = ((layer.double().numpy()[:, None] - centroids[None]) ** 2).sum(axis=2)
        chosen = distances[np.arange(300), frames[:, column] - 5 * column]
        # Two centroids may share a cluster: distances are found in single precision, of numbers near 30.
        assert (chosen <= distances.min(axis=1) + 1e-2).all()
    bag = bags.words([first[:40], second[:40]])
    assert len(bag) == 80
    expected = np.bincount(frames[:40].ravel(), minlength=10)
    assert np.array_equal(np.flatnonzero(expected), bag.words)
    assert np.array_equal(expected[bag.words], bag.counts)
    # As many words as clusters, far apart: each cluster is a word or two share one, never one torn between others'.
    assert sum(len(set(frames[which == c, 0])) == 1 for c in range(5)) >= 3


def test_fewer_vectors_than_words_are_words_themselves() -> None:
    vectors = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    bags = LayerBagOfWords(100).fit([vectors])
    assert bags.vocabulary == 3
    words = bags.frame_words([vectors])[:, 0]
    assert words[0] == words[2]
    assert len(set(words.tolist())) == 3


def test_the_same_seed_gives_the_same_codebook() -> None:
    vectors = torch.randn(400, 5, generator=torch.Generator().manual_seed(0))
    first, second = (LayerBagOfWords(9, seed=1).fit([vectors]).codebooks_[0] for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, LayerBagOfWords(9, seed=2).fit([vectors]).codebooks_[0])


def test_shapes_are_checked() -> None:
    with pytest.raises(UsageError, match="one T"):
        LayerBagOfWords(3).fit([torch.zeros(4, 2), torch.zeros(5, 2)])
    with pytest.raises(UsageError, match="no vectors"):
        LayerBagOfWords(3).fit([torch.zeros(0, 2)])
    fitted = LayerBagOfWords(3).fit([torch.eye(4)])
    with pytest.raises(UsageError, match=r"expected layers of \[4\] channels"):
        fitted.frame_words([torch.zeros(4, 3)])
    assert fitted.frame_words([torch.zeros(0, 4)]).shape == (0, 1)


# ---------------------------------------------------------------- vectors from a model


def test_layer_vectors_are_each_stages_channel_maxima() -> None:
    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(1, 3)))
    frames = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3)).astype(np.uint8)
    layers = layer_vectors(model, frames, batch=2)
    assert model.backbone is not None
    assert [tuple(layer.shape) for layer in layers] == [(5, model.backbone.channels[s]) for s in (1, 3)]
    with torch.inference_mode():
        maps = model.backbone.stages(model.backbone.preprocess(torch.from_numpy(frames)))
    for layer, stage in zip(layers, (1, 3), strict=True):
        peaks = maps[stage].flatten(2).max(dim=2).values
        torch.testing.assert_close(layer, F.normalize(peaks, dim=1), atol=1e-5, rtol=1e-4)


def test_a_model_without_backbone_has_no_layers() -> None:
    model = ViSiL(ViSiLConfig(backbone="efficientnet-lite0"), with_backbone=False)
    with pytest.raises(ModelError, match="embeds nothing"):
        layer_vectors(model, np.zeros((1, 8, 8, 3), np.uint8))
