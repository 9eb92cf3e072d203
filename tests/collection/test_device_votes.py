"""The vote by products with all frames, as a GPU does it, against the one by FAISS and numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visil.collection import candidates, device_votes
from visil.collection.candidates import CandidateIndex, Probes
from visil.collection.device_votes import DeviceFrames

DIM, NEIGHBOURS = 16, 5


def unit(rng: np.random.Generator, count: int) -> NDArray[np.float32]:
    vectors = rng.standard_normal((count, DIM)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_votes, "GROUP", 4)
    monkeypatch.setattr(device_votes, "KEPT", 8)
    monkeypatch.setattr(device_votes, "CELLS", 1000)


def asked(rng: np.random.Generator, held: NDArray[np.float32]) -> list[Probes]:
    near = [held[some] + 0.1 * unit(rng, len(some)) for some in (np.arange(6), np.arange(40, 47))]
    near.append(np.empty((0, DIM), np.float32))
    near.append(held[:3])  # one of which is the frame of twenty others, too
    return [Probes(vectors.astype(np.float32), np.arange(len(vectors)) // 2) for vectors in near]


def test_the_same_videos_with_the_same_votes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    index = CandidateIndex(tmp_path, DIM)
    held = unit(rng, 200).astype(np.float16).astype(np.float32)
    held[100:120] = held[1]
    for number, vectors in enumerate(np.split(held, 20), 3):
        index.add(number, vectors)
    index.gone = {7, 14}
    queries = asked(rng, held)
    expected = index.vote(queries, 6, neighbours=NEIGHBOURS)
    found = DeviceFrames(*index._flat(), torch.device("cpu"), exact=True).vote(queries, 6, NEIGHBOURS)
    assert [[one.number for one in some] for some in found] == [
        [one.number for one in some] for some in expected
    ]
    for some, others in zip(found, expected, strict=True):
        assert [one.votes for one in some] == pytest.approx([one.votes for one in others], rel=1e-4)
    assert len(found[3]) == 6, "frames that are as near as the last are all in"


def test_codes_are_what_they_stand_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "FLAT_FRAMES", 100)
    monkeypatch.setattr(candidates, "LISTS_PROBED", 1000)
    rng = np.random.default_rng(1)
    held = unit(rng, 600)
    index = CandidateIndex(tmp_path, DIM)
    index.begin(candidates.trained_ivf(held, 600))
    for number, vectors in enumerate(np.split(held, 60), 1):
        index.add(number, vectors)
    queries = asked(rng, held)[:2]
    expected = index.vote(queries, 5, neighbours=NEIGHBOURS)
    found = DeviceFrames(*index._decoded(), torch.device("cpu"), exact=False).vote(queries, 5, NEIGHBOURS)
    for some, others in zip(found, expected, strict=True):
        assert [one.number for one in some] == [one.number for one in others]
        assert [one.votes for one in some] == pytest.approx([one.votes for one in others], rel=2e-2)
