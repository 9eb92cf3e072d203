"""Triplets: the promises of Sec. 4.5, checked for many random collections by looking at the frames."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.training.pools import AnnotatedPool, ArtificialPool
from visil.training.segments import SegmentPair
from visil.training.snippets import ForeignClips, Snippet
from visil.training.triplets import Triplet, TripletSampler, mutual

COUNT = 8


def steady(lengths: list[int], fps: float = 1.0) -> list[Tensor]:
    return [torch.arange(length, dtype=torch.float64) / fps for length in lengths]


def others(video: int, count: int = COUNT) -> tuple[int, ...]:
    return tuple(v for v in range(count) if v != video)


def shown(snippet: Snippet) -> set[int]:
    return {video for video, _ in snippet.frames}


def is_window(snippet: Snippet, length: int, width: int) -> bool:
    """Frames on end of one video, as many as there are up to ``width``."""
    positions = [position for _, position in snippet.frames]
    return (
        len(shown(snippet)) == 1
        and positions == list(range(positions[0], positions[0] + min(length, width)))
        and positions[0] >= 0
        and positions[-1] < length
    )


def shared_extent(triplet: Triplet) -> int:
    """Frames of the anchor from the first to the last that the positive shows."""
    places = {frame: i for i, frame in enumerate(triplet.anchor.frames)}
    found = [places[frame] for frame in triplet.positive.frames if frame in places]
    return max(found) - min(found) + 1 if found else 0


lengths_of_videos = st.lists(st.integers(1, 90), min_size=COUNT, max_size=COUNT)
rates = st.sampled_from([0.5, 1.0, 3.0])


# ---------------------------------------------------------------- the second pool


@settings(max_examples=60, deadline=None)
@given(lengths=lengths_of_videos, fps=rates, width=st.integers(1, 40), seed=st.integers(0, 1000))
def test_made_positives_share_five_seconds_or_all(
    lengths: list[int], fps: float, width: int, seed: int
) -> None:
    pool = ArtificialPool(range(COUNT), [others(v) for v in range(COUNT)])
    sampler = TripletSampler([pool], steady(lengths, fps), 2 * COUNT, width, seed=seed)
    for triplet in sampler.epoch(0):
        (video,) = shown(triplet.anchor)
        (negative,) = shown(triplet.negative)
        assert is_window(triplet.anchor, lengths[video], width)
        assert is_window(triplet.negative, lengths[negative], width)
        assert negative != video
        assert 1 <= len(triplet.positive.frames) <= width
        assert all(0 <= position < lengths[v] for v, position in triplet.positive.frames)
        assert shared_extent(triplet) / fps >= min(5.0, len(triplet.anchor.frames) / fps) - 1e-9
        assert triplet.anchor.seed is None
        assert triplet.negative.seed is None
        assert triplet.positive.seed is not None


def test_made_positives_run_in_every_way() -> None:
    pool = ArtificialPool([0], [(1,)])
    sampler = TripletSampler([pool], steady([300, 80, 80]), 200, 32, related=[{0}, {1}, {2}])
    ways: Counter[str] = Counter()
    for triplet in sampler.epoch(0):
        own = [position for video, position in triplet.positive.frames if video == 0]
        steps = set(np.diff(own).tolist())
        foreign = len(own) < len(triplet.positive.frames)
        ways["insertion"] += foreign and steps <= {1}
        ways["fast forward"] += not foreign and max(steps) > 1
        ways["reversion"] += not foreign and steps == {-1}
        ways["slow motion or pause"] += 0 in steps and min(steps) == 0
        ways["beyond the anchor"] += not set(triplet.positive.frames) <= set(triplet.anchor.frames)
    assert all(ways[way] > 10 for way in ways), ways
    assert len(ways) == 5


def test_inserted_frames_are_never_related_footage() -> None:
    related = [{0, 1, 2, 3}, *({v} for v in range(1, COUNT))]
    pool = ArtificialPool([0], [others(0)])
    sampler = TripletSampler([pool], steady([50] * COUNT), 150, 16, related=related)
    inserted: set[int] = set()
    for triplet in sampler.epoch(0):
        inserted |= shown(triplet.positive) - {0}
        assert shown(triplet.negative) <= {4, 5, 6, 7}
    assert inserted == {4, 5, 6, 7}


# ---------------------------------------------------------------- the first pool


@settings(max_examples=80, deadline=None)
@given(
    lengths=st.lists(st.integers(8, 200), min_size=3, max_size=3),
    fps=rates,
    width=st.integers(2, 64),
    start=st.tuples(st.floats(0, 0.8), st.floats(0, 0.8)),
    share=st.floats(0.05, 1.0),
    speed=st.sampled_from([0.5, 1.0, 2.0]),
    seed=st.integers(0, 100),
)
def test_annotated_snippets_share_five_seconds_or_all(
    lengths: list[int],
    fps: float,
    width: int,
    start: tuple[float, float],
    share: float,
    speed: float,
    seed: int,
) -> None:
    durations = [length / fps for length in lengths]
    begin = (start[0] * durations[0], start[1] * durations[1])
    room = min(durations[0] - begin[0], (durations[1] - begin[1]) / speed)
    length = share * room
    pair = SegmentPair(0, (begin[0], begin[0] + length), 1, (begin[1], begin[1] + speed * length))
    pool = AnnotatedPool([pair], [(2,)])
    times = steady(lengths, fps)
    for triplet in TripletSampler([pool], times, 12, width, seed=seed).epoch(3):
        sides = [triplet.anchor, triplet.positive]
        sides.sort(key=lambda snippet: snippet.frames[0][0])
        assert [shown(side) for side in sides] == [{0}, {1}]
        assert shown(triplet.negative) == {2}
        assert triplet.positive.seed is None
        ranges = []
        for side, scale, first in zip(sides, (1.0, speed), begin, strict=True):
            video = side.frames[0][0]
            assert is_window(side, lengths[video], width)
            # What the snippet shows of the segment, as seconds of the query's clock from the segment's start.
            ends = times[video][side.frames[0][1]].item(), times[video][side.frames[-1][1]].item() + 1 / fps
            ranges.append([min(max((end - first) / scale, 0.0), length) for end in ends])
        both = min(r[1] for r in ranges) - max(r[0] for r in ranges)
        seconds = min(both, both * speed)  # on the clock that sees less of it
        wanted = min(5.0, length, speed * length)
        fits = (width - 1) / fps  # what W frames hold for certain, on the clock that needs more
        assert seconds >= min(wanted, fits * min(speed, 1 / speed)) - 1e-6


def test_both_sides_of_a_pair_are_anchors() -> None:
    pool = AnnotatedPool([SegmentPair(0, (0, 20), 1, (5, 25))], [(2,)])
    epoch = TripletSampler([pool], steady([30, 30, 30]), 60, 8).epoch(0)
    assert {frozenset(shown(t.anchor)) for t in epoch} == {frozenset({0}), frozenset({1})}
    assert len({t.anchor.frames for t in epoch}) > 10


def test_annotation_beyond_the_end_of_a_video() -> None:
    inside = SegmentPair(0, (20.0, 40.0), 1, (0.0, 20.0))  # the video ends after 30 s
    outside = SegmentPair(0, (31.0, 40.0), 1, (0.0, 9.0))
    sampler = TripletSampler([AnnotatedPool([inside, outside], [(2,), (2,)])], steady([30] * 3), 40, 6)
    assert [len(pool) for pool in sampler.pools] == [1]
    for triplet in sampler.epoch(0):
        for snippet in (triplet.anchor, triplet.positive):
            video = snippet.frames[0][0]
            span = range(20, 30) if video == 0 else range(10)
            assert sum(position in span for _, position in snippet.frames) >= 5


# ---------------------------------------------------------------- strings of clips


@settings(max_examples=60, deadline=None)
@given(
    lengths=lengths_of_videos,
    fps=rates,
    width=st.integers(1, 40),
    strings=st.integers(1, 4),
    seed=st.integers(0, 1000),
    relations=st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, COUNT - 1)), max_size=3),
)
def test_no_anchor_footage_stands_in_a_negative(
    lengths: list[int],
    fps: float,
    width: int,
    strings: int,
    seed: int,
    relations: list[tuple[int, int]],
) -> None:
    one_sided = [{v} | {b for a, b in relations if a == v} for v in range(COUNT)]
    related = mutual(one_sided)
    pool = ArtificialPool(range(COUNT), [others(v) for v in range(COUNT)])
    sampler = TripletSampler(
        [pool], steady(lengths, fps), 2 * COUNT, width, seed=seed, strings=strings, related=one_sided
    )
    for triplet in sampler.epoch(1):
        own = frozenset().union(*(related[video] for video in shown(triplet.anchor)))
        assert not own & shown(triplet.negative)
        foreign = set(triplet.positive.frames) - set(triplet.anchor.frames)
        assert not own & {video for video, _ in foreign}
        assert 1 <= len(shown(triplet.anchor)) <= strings
        assert len(triplet.anchor.frames) <= width
        enough = len(own) < COUNT  # some clip is left to put around
        assert len(triplet.positive.frames) == width if enough else len(triplet.positive.frames) <= width
        assert len(triplet.negative.frames) == width
        for snippet in (triplet.anchor, triplet.positive, triplet.negative):
            assert all(0 <= position < lengths[video] for video, position in snippet.frames)
        assert shared_extent(triplet) / fps >= min(5.0, len(triplet.anchor.frames) / fps) - 1e-9
        assert triplet.positive.seed is not None


def test_strings_put_the_footage_anywhere_and_the_hard_negative_in() -> None:
    pool = ArtificialPool([0], [(1, 2)])
    sampler = TripletSampler([pool], steady([9] * 30), 100, 40, strings=3)
    begins: set[int] = set()
    clips: Counter[int] = Counter()
    for triplet in sampler.epoch(0):
        assert 0 in shown(triplet.anchor)
        assert shown(triplet.negative) & {1, 2}
        parts = Counter(video for video, _ in triplet.negative.frames)
        assert len(parts) >= 5
        assert max(parts.values()) == 9  # no clip twice
        clips[len(shown(triplet.anchor))] += 1
        own = set(triplet.anchor.frames)
        begins.add(next(i for i, frame in enumerate(triplet.positive.frames) if frame in own))
    assert set(clips) == {1, 2, 3}
    assert min(begins) < 4
    assert max(begins) > 25


def test_foreign_runs() -> None:
    foreign_clips, rng = ForeignClips([4, 4, 90, 2]), np.random.default_rng(0)
    run = foreign_clips.run(50, {2}, rng)
    assert len(run) == 50
    assert {video for video, _ in run} == {0, 1, 3}
    assert foreign_clips.run(5, {0, 1, 2, 3}, rng) == []
    assert foreign_clips.video({0, 1, 3}, rng) == 2
    around = foreign_clips.around([(0, 1), (0, 2)], 10, {0}, rng)
    assert len(around) == 10
    assert [frame for frame in around if frame[0] == 0] == [(0, 1), (0, 2)]


# ---------------------------------------------------------------- epochs


def two_pools() -> list[AnnotatedPool | ArtificialPool]:
    pair = SegmentPair(0, (0.0, 20.0), 1, (5.0, 25.0))
    return [AnnotatedPool([pair], [(2, 3)]), ArtificialPool([4, 5, 6], [(7,), (0, 7), ()])]


def test_an_epoch_is_t_triplets_of_each_pool_mixed() -> None:
    sampler = TripletSampler(two_pools(), steady([30] * COUNT), 20, 8)
    epoch = sampler.epoch(0)
    made = [triplet.positive.seed is not None for triplet in epoch]
    assert (len(epoch), sum(made)) == (40, 20)
    assert made != sorted(made)
    anchors = Counter(video for t in epoch if t.positive.seed is not None for video in shown(t.anchor))
    assert anchors == {4: 10, 5: 10}  # equally often; 6 has no negative
    assert len({t.positive.seed for t in epoch}) == 21


SCRIPT = """
import torch
from visil.training.pools import ArtificialPool
from visil.training.triplets import TripletSampler
pool = ArtificialPool(range(3), [(1,), (2,), (0,)])
times = [torch.arange(n, dtype=torch.float64) for n in (30, 40, 50)]
print(TripletSampler([pool], times, 6, 8, seed=5, strings=2).epoch(7))
"""


def test_epochs_depend_on_seed_and_number_alone() -> None:
    pool = ArtificialPool(range(3), [(1,), (2,), (0,)])
    times = steady([30, 40, 50])

    def sampler(seed: int = 5) -> TripletSampler:
        return TripletSampler([pool], times, 6, 8, seed=seed, strings=2)

    first = sampler()
    first.epoch(0)
    assert first.epoch(7) == sampler().epoch(7)
    assert first.epoch(7) != first.epoch(8)
    assert first.epoch(7) != sampler(6).epoch(7)
    elsewhere = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert elsewhere.stdout.strip() == repr(first.epoch(7))


def test_more_triplets_keep_the_first_ones_of_a_pool() -> None:
    pool = ArtificialPool([0], [(1,)])
    few, many = (set(TripletSampler([pool], steady([40] * 2), n, 8).epoch(0)) for n in (5, 9))
    assert few < many


def test_what_cannot_be_meant_is_refused() -> None:
    times = steady([10, 10])
    with pytest.raises(UsageError, match="no positive pair has a negative"):
        TripletSampler([ArtificialPool([0], [()])], times)
    pool = ArtificialPool([0], [(1,)])
    with pytest.raises(UsageError, match="frames must be 1 or more"):
        TripletSampler([pool], times, frames=0)
    with pytest.raises(UsageError, match="min_overlap"):
        TripletSampler([pool], times, min_overlap=float("nan"))
    with pytest.raises(UsageError, match="2 videos were given relations for 1"):
        TripletSampler([pool], times, related=[{0}])
