"""Pieces of a video in any order, some twice, make the file that they make in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.cluster.assembly import Assembly
from visil.cluster.ray_work import Ended
from visil.cluster.time_parts import Joint
from visil.collection.store import FeatureStore

LENGTHS = (32, 32, 7, 32, 5)


def pieces() -> dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    random, found, start = np.random.default_rng(0), {}, 0
    for length in LENGTHS:
        vectors = random.standard_normal((length, 9, 4)).astype(np.float16)
        found[start] = (
            vectors,
            np.arange(start, start + length, dtype=np.float64),
            random.random(length) < 0.1,
        )
        start += length
    return found


def ended(part: int, samples: int, head: str, tail: str | None) -> Ended:
    return Ended(part, part, samples, None, 0.0, 0, Joint(head, tail))


@settings(max_examples=30, deadline=None)
@given(
    order=st.lists(st.integers(0, len(LENGTHS) - 1), max_size=8), rest=st.permutations(range(len(LENGTHS)))
)
def test_any_order_gives_the_same_file(order: list[int], rest: list[int]) -> None:
    made = list(pieces().items())
    with tempfile.TemporaryDirectory() as name:
        store = FeatureStore(Path(name))
        plain = store.writer("aa" * 16)
        for _, (vectors, times, blank) in made:
            plain.append(torch.from_numpy(vectors), times, torch.from_numpy(blank))
        plain.finish(3.0)
        assembly = Assembly(store.writer("bb" * 16), 1, Path(name))
        new = sum(assembly.add(*made[place]) for place in [*order, *rest])
        before = assembly.complete
        assembly.end(ended(0, sum(LENGTHS), "", None))
        assert (before, assembly.complete) == (False, True)
        assert new == sum(LENGTHS)
        assembly.close()
        assembly.writer.finish(3.0)
        one, other = (store.path(2 * letter * 16).read_bytes() for letter in "ab")
        assert one == other
        assert sorted(path.name for path in Path(name).iterdir()) == ["aa", "bb"]


def test_parts_must_meet() -> None:
    with tempfile.TemporaryDirectory() as name:
        for head, meets in (("same", True), ("other", False)):
            assembly = Assembly(FeatureStore(Path(name)).writer("cc" * 16), 2, None)
            assembly.end(ended(0, 64, "", "same"))
            assembly.end(ended(1, 64, head, None))
            assert assembly.joined() is meets
            assembly.discard()
