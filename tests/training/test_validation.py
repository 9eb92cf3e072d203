"""Average precision by hand, the edited copies, and validation against the model's own scores."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from toy_training import footage, toy_model
from visil.edits.clips import PaperPositive
from visil.training import validation
from visil.training.distributed import Processes
from visil.training.embedding import SnippetEmbedder
from visil.training.segments import SegmentPair, Span
from visil.training.validation import Validation, average_precision, edited_copies, shares


def test_average_precision_by_hand() -> None:
    assert average_precision([0.9, 0.5, 0.7], {2}) == 1 / 2
    assert average_precision([0.9, 0.5, 0.7], {0}) == 1
    # Ranks 1 and 3 of 0.9, 0.7, 0.5: (1/1 + 2/3) / 2
    assert average_precision([0.9, 0.5, 0.7], {0, 1}) == pytest.approx(5 / 6)
    assert average_precision([], set()) == 0


def test_ties_count_against() -> None:
    assert average_precision([0.5, 0.5, 0.5, 0.1], {1}) == 1 / 3


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=8), st.data())
def test_one_relevant_item_is_its_rank(scores: list[int], data: st.DataObject) -> None:
    item = data.draw(st.integers(0, len(scores) - 1))
    ahead = sum(other >= scores[item] for i, other in enumerate(scores) if i != item)
    assert average_precision(scores, {item}) == pytest.approx(1 / (ahead + 1))


def test_copies_are_of_their_videos_and_repeatable() -> None:
    queries, database = edited_copies(footage(), 8, seed=1)
    assert (queries, database) == edited_copies(footage(), 8, seed=1)
    assert queries != edited_copies(footage(), 8, seed=2)[0]
    for video, (query, item) in enumerate(zip(queries, database, strict=True)):
        assert query.relevant == {video}
        assert {v for v, _ in query.snippet.frames} == {video}
        assert 1 <= len(query.snippet.frames) <= 8
        assert query.snippet.seed is not None
        assert item.frames == tuple((video, position) for position in range(12))
        assert item.seed is None


def test_a_pair_counts_where_the_annotated_stretch_is_shown() -> None:
    """Videos of 12 s, queries of 8 s: all of a video is always shown in part, its first second only sometimes."""
    whole, _ = edited_copies(footage(), 8, 1, [SegmentPair(2, (0, 12), 4, (0, 12))])
    assert whole[4].relevant == whole[2].relevant == {2, 4}
    chain = [SegmentPair(0, (0, 12), 1, (0, 12)), SegmentPair(1, (0, 1), 2, (11, 12))]
    seen = set()
    for seed in range(12):
        queries, _ = edited_copies(footage(), 8, seed, chain)
        starts = min(position for _, position in queries[1].snippet.frames) == 0
        assert queries[0].relevant == {0, 1}, (
            "what the second of a chain has in common with a third is not here"
        )
        assert queries[1].relevant == ({0, 1, 2} if starts else {0, 1})
        seen.add(starts)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("query", "target", "shared"),
    [
        ((0, 8), (0, 100), False),  # of 10 to 20 nothing is shown
        ((0, 15), (0, 100), True),  # its first five seconds
        ((0, 14.5), (0, 100), False),
        ((15, 40), (0, 34), False),  # 30 to 40 of the target at half the speed: 30 to 34 are there, 2 s of it
        ((0, 40), (0, 100), True),
    ],
)
def test_what_is_shared_by_hand(query: Span, target: Span, shared: bool) -> None:
    assert shares(SegmentPair(0, (10, 20), 1, (20, 40)), query, target) == shared


def test_scores_are_the_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "TOGETHER", 3)  # in several pieces on both sides
    model = toy_model()
    embedder = SnippetEmbedder(model, footage(), PaperPositive())
    queries, database = edited_copies(footage(), 8, seed=1)
    judged = Validation(embedder, queries, database)
    found = judged.mean_average_precision()
    expected = []
    with torch.no_grad():
        items = [embedder([s], [embedder.pictures(s)])[0] for s in database]
        for query in queries:
            vectors = embedder([query.snippet], [embedder.pictures(query.snippet)])[0]
            scores = [model(vectors, item).item() for item in items]
            (relevant,) = query.relevant
            expected.append(1 / sum(score >= scores[relevant] for score in scores))
    assert found == pytest.approx(sum(expected) / len(expected), abs=1e-6)
    assert judged.mean_average_precision(Processes()) == found


def test_strung_copies_lie_between_clips_that_are_not_in_the_database() -> None:
    queries, database = edited_copies(footage(6), 30, 1, [SegmentPair(2, (0, 5), 3, (0, 5))], strung=True)
    listed = {item.frames[0][0] for item in database}
    assert listed == {0, 2, 4}
    for place, query in enumerate(queries):
        shown = {video for video, _ in query.snippet.frames}
        assert query.relevant == {place}
        assert shown & listed == {2 * place}, "of the database, the copied video alone"
        assert len(query.snippet.frames) == 30
        # Of 1, 3 and 5 the third is related to what is in the database, so it is no foreign footage.
        assert shown - listed == {1, 5}
    assert queries == edited_copies(footage(6), 30, 1, [SegmentPair(2, (0, 5), 3, (0, 5))], strung=True)[0]
