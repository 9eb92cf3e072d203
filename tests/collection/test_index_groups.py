"""Groups as pure functions of spans, against brute force on a grid of seconds."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from visil.collection.groups import (
    COMMON_FROM,
    LINK_SECONDS,
    LINK_SHARE,
    Shared,
    Span,
    common_stretches,
    components,
    length,
    links,
    merged,
    without,
)

END = 24
spans = st.lists(
    st.tuples(st.integers(0, END - 1), st.integers(1, 8)).map(
        lambda pair: (float(pair[0]), float(min(END, pair[0] + pair[1])))
    ),
    max_size=6,
)


def cells(some: list[Span]) -> set[int]:
    """The whole seconds that spans cover."""
    return {second for start, end in some for second in range(int(start), int(end))}


@settings(deadline=None)
@given(spans)
def test_merged_covers_the_same_in_order_and_apart(some: list[Span]) -> None:
    found = merged(some)
    assert cells(found) == cells(some)
    assert length(found) == len(cells(some))
    assert all(first[1] < second[0] for first, second in pairwise(found))


@settings(deadline=None)
@given(spans, spans)
def test_without_is_a_difference(some: list[Span], holes: list[Span]) -> None:
    found = without(merged(some), holes)
    assert cells(found) == cells(some) - cells(holes)
    assert length(found) == len(cells(some) - cells(holes))
    assert found == sorted(found)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=12))
def test_components_against_a_walk(edges: list[tuple[int, int]]) -> None:
    def reach(start: int) -> frozenset[int]:
        found, todo = {start}, [start]
        while todo:
            node = todo.pop()
            near = {b for a, b in edges if a == node} | {a for a, b in edges if b == node}
            todo += near - found
            found |= near
        return frozenset(found)

    expected = {reach(node) for node in range(12) if len(reach(node)) > 1}
    found = components(range(12), edges)
    assert {frozenset(group) for group in found} == expected
    assert len(found) == len(expected)
    assert [len(group) for group in found] == sorted((len(group) for group in found), reverse=True)
    assert all(group == sorted(group) for group in found)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8), spans, spans), max_size=12, unique_by=lambda pair: pair[0]))
def test_common_stretches_against_counting(pairs: list[tuple[int, list[Span], list[Span]]]) -> None:
    """Video 0 matched by others: a second is common where more than so many of them match it."""
    shared = [Shared(0, other, mine, theirs) for other, mine, theirs in pairs]
    expected = {
        second for second in range(END) if sum(second in cells(mine) for _, mine, _ in pairs) > COMMON_FROM
    }
    found = common_stretches(shared)
    assert cells(found.get(0, [])) == expected
    assert set(found) <= {0}, "each other video is matched by one"


def test_one_pair_that_matches_a_stretch_in_many_ways_counts_once() -> None:
    again = [(0.0, 5.0)] * (COMMON_FROM + 3)
    assert common_stretches([Shared(0, 1, again, again)]) == {}


def channel(
    count: int, copies: list[tuple[int, int]], intro: float = 8.0, whole: float = 60.0
) -> list[Shared]:
    """Videos that all begin with the same intro; ``copies`` share the rest as well."""
    return [
        Shared(
            a, b, [(0.0, whole if (a, b) in copies else intro)], [(0.0, whole if (a, b) in copies else intro)]
        )
        for a, b in combinations(range(count), 2)
    ]


def test_an_intro_chains_no_strangers_and_duplicates_still_group() -> None:
    copies = [(3, 17), (4, 20), (20, 25)]
    pairs = channel(30, copies)
    random.Random(0).shuffle(pairs)
    durations = dict.fromkeys(range(30), 60.0)
    common = common_stretches(pairs)
    assert set(common) == set(range(30))
    assert all(stretch == [(0.0, 8.0)] for stretch in common.values())
    linked = [(pair.a, pair.b) for pair in pairs if links(pair, durations, common)]
    assert sorted(linked) == copies
    assert components(range(30), linked) == [[4, 20, 25], [3, 17]]


def test_an_intro_with_a_ragged_end_chains_no_strangers() -> None:
    """Localisation is never exact to the second."""
    noise = random.Random(1)
    pairs = [
        Shared(a, b, [(0.0, 8.0 + noise.uniform(-1, 1))], [(0.0, 8.0 + noise.uniform(-1, 1))])
        for a, b in combinations(range(30), 2)
    ]
    common = common_stretches(pairs)
    assert not any(links(pair, dict.fromkeys(range(30), 60.0), common) for pair in pairs)


def test_many_copies_of_one_video_are_one_group() -> None:
    """All of it is matched by many, and so "common"; it is the whole video that links."""
    pairs = [Shared(a, b, [(0.0, 30.0)], [(0.0, 30.0)]) for a, b in combinations(range(12), 2)]
    common = common_stretches(pairs)
    assert all(links(pair, dict.fromkeys(range(12), 30.0), common) for pair in pairs)


def test_what_links() -> None:
    durations = {1: 100.0, 2: 60.0, 3: 4.0}

    def linked(a: int, b: int, seconds: float, common: dict[int, list[Span]] | None = None) -> bool:
        span = [(10.0, 10.0 + seconds)] if b != 3 else [(0.0, seconds)]
        return links(Shared(a, b, span, span), durations, common or {})

    assert linked(1, 2, LINK_SECONDS)
    assert not linked(1, 2, LINK_SECONDS - 0.1)
    # A short video links by a share of it.
    assert linked(1, 3, LINK_SHARE * 4)
    assert not linked(1, 3, LINK_SHARE * 4 - 0.1)
    # What is common in either of the two does not count.
    assert not linked(1, 2, 7, {1: [(10.0, 14.0)]})
    assert not linked(1, 2, 7, {2: [(10.0, 14.0)]})
    assert linked(1, 2, 9, {1: [(10.0, 14.0)]})
    # The same seconds told twice are not twice as many.
    twice = [(0.0, 3.0), (0.0, 3.0)]
    assert not links(Shared(1, 2, twice, twice), durations, {})
