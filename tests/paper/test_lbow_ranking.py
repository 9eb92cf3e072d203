"""LBoW as a system: its ranking against tf-idf worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.lbow import LBoW, stack_layers

# Two layers, of 3 and 2 channels; a frame is one word of each.
FIRST, SECOND = torch.eye(3), torch.eye(2)


def video(*frames: tuple[int, int]) -> VideoFeatures:
    """Frames as (word of the first layer, word of the second)."""
    layers = [FIRST[[a for a, _ in frames]], SECOND[[b for _, b in frames]]]
    return VideoFeatures(stack_layers(layers), torch.arange(len(frames), dtype=torch.float64))


def learned() -> LBoW:
    system = LBoW(100)
    system.learn([video((0, 0), (1, 1)), video((2, 1))])
    return system


def test_layers_of_all_widths_are_stacked() -> None:
    stacked = stack_layers([FIRST[:2], 2 * SECOND])
    assert stacked.tolist() == [[[1, 0, 0], [2, 0, 0]], [[0, 1, 0], [0, 2, 0]]]
    with pytest.raises(UsageError, match="one T"):
        stack_layers([FIRST, SECOND])
    with pytest.raises(UsageError, match="one T"):
        stack_layers([])


def test_the_ranking_worked_out_by_hand() -> None:
    system = learned()
    targets = [video((0, 0)), video((0, 1), (1, 1)), video((2, 1), (2, 1), (0, 1))]
    bags = [system.describe(target) for target in targets]
    # Of three targets, A0 is in all, A1 and A2 in one, B0 in one, B1 in two.
    rare, common = math.log(3), math.log(3 / 2)
    query = system.describe(video((1, 1), (1, 0)))  # A1 twice, B0 once, B1 once
    length = math.sqrt((2 * rare) ** 2 + rare**2 + common**2)
    expected = [
        rare * rare / (length * rare),
        (2 * rare * rare + common * 2 * common) / (length * math.hypot(rare, 2 * common)),
        common * 3 * common / (length * math.hypot(2 * rare, 3 * common)),
    ]
    assert expected[1] > expected[0] > expected[2]
    scores = system.scores(query, bags)
    assert scores.dtype == np.float64
    assert scores == pytest.approx(expected)


def test_the_targets_at_hand_are_the_collection() -> None:
    system = learned()
    a, b, c = (system.describe(v) for v in (video((0, 0)), video((0, 1)), video((1, 1))))
    query = system.describe(video((0, 0)))
    both = system.scores(query, [a, b])  # A0 is in both: nothing is left but B0
    assert both == pytest.approx([1, 0])
    three = system.scores(query, [a, b, c])
    common, rare = math.log(3 / 2), math.log(3)
    assert three[1] == pytest.approx(
        common * common / (math.hypot(common, rare) * math.hypot(common, common))
    )
    assert system.scores(query, [a, b]) == pytest.approx(both)
    assert system.scores(query, [b, a]) == pytest.approx(both[::-1])
    assert system.scores(query, [a]).tolist() == [0]
    assert len(system.scores(query, [])) == 0


frame = st.tuples(st.integers(0, 2), st.integers(0, 1))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(frame, min_size=1, max_size=6), min_size=2, max_size=6))
def test_no_video_is_more_alike_than_the_query_itself(videos: list[list[tuple[int, int]]]) -> None:
    system = learned()
    bags = [system.describe(video(*frames)) for frames in videos]
    for number, query in enumerate(bags):
        scores = system.scores(query, bags)
        assert np.isfinite(scores).all()
        assert scores[number] >= scores.max() - 1e-12


def test_the_codebooks_are_learned_with_the_seed() -> None:
    noise = torch.randn(200, 2, 6, generator=torch.Generator().manual_seed(0))
    videos = [VideoFeatures(part, torch.arange(50, dtype=torch.float64)) for part in noise.split(50)]
    found = []
    for seed in (1, 1, 2):
        system = LBoW(8)
        system.learn(videos, seed=seed)
        assert system.codebooks_ is not None
        assert system.codebooks_.vocabulary == 16
        found.append(system.codebooks_.codebooks_[0])
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_what_cannot_be_done() -> None:
    with pytest.raises(UsageError, match="no codebooks"):
        LBoW().describe(video((0, 0)))
    with pytest.raises(UsageError, match="got none"):
        LBoW().learn([])
    with pytest.raises(UsageError, match="channels"):
        learned().describe(VideoFeatures(torch.ones(1, 2, 5), torch.zeros(1)))
    with pytest.raises(UsageError, match="NaN"):
        learned().describe(VideoFeatures(torch.full((1, 2, 3), torch.nan), torch.zeros(1)))
