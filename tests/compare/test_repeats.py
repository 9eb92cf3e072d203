"""A still picture is embedded once, with the same features as if it had been embedded each time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from visil.compare import visil
from visil.compare.repeats import Repeats
from visil.compare.visil import ViSiL
from visil.model.config import ViSiLConfig


@pytest.fixture(scope="module")
def model() -> ViSiL:
    torch.manual_seed(0)
    return ViSiL(ViSiLConfig(backbone="efficientnet-lite0", stages=(1, 2), dim=16)).eval()


@pytest.fixture
def embedded(model: ViSiL, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many frames went through the network in each pass."""
    counts: list[int] = []
    real = model.features

    def counted(frames: torch.Tensor) -> torch.Tensor:
        counts.append(len(frames))
        return real(frames)

    monkeypatch.setattr(model, "features", counted)
    return counts


def pictures(order: list[int]) -> NDArray[np.uint8]:
    """Frames that are told apart by their number; 0 is black."""
    made = np.random.default_rng(0).integers(0, 255, (max(order) + 1, 32, 32, 3), dtype=np.uint8)
    made[0] = 0
    return made[order]


def test_only_neighbours_that_are_the_same_are_left_out(model: ViSiL, embedded: list[int]) -> None:
    order = [1, 1, 0, 0, 0, 2, 1, 3, 3]
    found = model.embed_frames(pictures(order))
    assert embedded == [5]
    assert found.blank is not None
    assert found.blank.tolist() == [number == 0 for number in order]
    for place, number in enumerate(order):
        alone = model.embed_frames(pictures([number])).vectors[0]
        torch.testing.assert_close(found.vectors[place], alone, rtol=1e-4, atol=1e-5)


def test_across_batches_of_several_videos(model: ViSiL, embedded: list[int]) -> None:
    whole = {"a": [1, 1, 1, 2, 2, 2], "b": [2, 2, 3, 3, 3, 1]}
    expected = {name: model.embed_frames(pictures(order)).vectors for name, order in whole.items()}
    embedded.clear()
    states = {name: Repeats() for name in whole}
    parts: dict[str, list[torch.Tensor]] = {name: [] for name in whole}
    for start in range(0, 6, 2):
        pieces = [
            (states[name], torch.from_numpy(pictures(order)[start : start + 2]))
            for name, order in whole.items()
        ]
        for name, (vectors, blank) in zip(whole, model.embed_pieces(pieces), strict=True):
            assert len(vectors) == len(blank) == 2
            parts[name].append(vectors)
    assert sum(embedded) == 5
    for name, vectors in expected.items():
        torch.testing.assert_close(torch.cat(parts[name]), vectors, rtol=1e-4, atol=1e-5)


def test_memory_that_is_used_again_does_not_matter(model: ViSiL) -> None:
    """Frames of the next batch may lie where those of the one before did."""
    memory = torch.from_numpy(pictures([1, 2]).copy())
    repeats = Repeats()
    model.embed_frames(memory, repeats=repeats)
    memory[0] = torch.from_numpy(pictures([2]))[0]
    assert repeats.new(memory).tolist() == [False, False]


def test_a_held_video_costs_one_frame(model: ViSiL, embedded: list[int]) -> None:
    still, repeats = np.repeat(pictures([1]), 40, axis=0), Repeats()
    found = torch.cat([model.embed_frames(still, repeats=repeats).vectors for _ in range(3)])
    assert sum(embedded) == 1
    assert len(found) == 120
    assert bool((found == found[:1]).all())


def test_memory_is_given_back_as_a_long_video_goes_by(model: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(model, "_embedded", 0)
    monkeypatch.setattr(visil, "GIVE_BACK_FRAMES", 4)
    monkeypatch.setattr(visil, "give_back", lambda: given_back.append(True))
    for expected in (0, 1, 1, 2):
        model.embed_frames(pictures([1, 2, 3]))
        assert len(given_back) == expected
