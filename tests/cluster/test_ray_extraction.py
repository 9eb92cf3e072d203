"""What the driver of an extraction over a cluster does with what comes back."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from visil.cluster.ray_extraction import Piece, Pieces
from visil.collection.store import FeatureStore

LENGTHS = (32, 32, 7, 32, 1)


def pieces() -> list[tuple[int, Piece]]:
    random, found, start = np.random.default_rng(0), [], 0
    for length in LENGTHS:
        vectors = random.standard_normal((length, 9, 4)).astype(np.float16)
        times = np.arange(start, start + length, dtype=np.float64)
        found.append((start, (vectors, times, random.random(length) < 0.1)))
        start += length
    return found


@settings(max_examples=30, deadline=None)
@given(
    order=st.lists(st.integers(0, len(LENGTHS) - 1), max_size=8), rest=st.permutations(range(len(LENGTHS)))
)
def test_pieces_in_any_order_and_twice_give_the_same_file(order: list[int], rest: list[int]) -> None:
    made = pieces()
    with tempfile.TemporaryDirectory() as name:
        stores = [FeatureStore(Path(name, kind)) for kind in ("plain", "joined")]
        plain, other = (store.writer("aa" * 16) for store in stores)
        for _, (vectors, times, blank) in made:
            plain.append(torch.from_numpy(vectors), times, torch.from_numpy(blank))
        plain.finish(3.0)
        joined = Pieces(other)
        assert sum(joined.add(*made[place]) for place in [*order, *rest]) == sum(LENGTHS)
        assert joined.written == sum(LENGTHS)
        joined.writer.finish(3.0)
        one, two = (store.path("aa" * 16).read_bytes() for store in stores)
        assert one == two
