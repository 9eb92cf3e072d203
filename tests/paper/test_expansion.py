"""Query expansion on hand-made vectors, and over the systems with means of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.cte import CTE
from visil.paper.baselines.expansion import QE
from visil.paper.baselines.lamv import LAMV
from visil.paper.baselines.lbow import LBoW
from visil.paper.baselines.system import ComparedSystem, ScoreArray
from visil.paper.baselines.tmk import TMK
from visil.paper.baselines.triplets import TripletSource
from visil.training.lbow import Bag


class Dot(ComparedSystem[Tensor]):
    """Dot product of the frames' mean."""

    name = "dot"
    reads = "imac"

    def __init__(self) -> None:
        self.seen: list[int] = []

    def learn(
        self,
        videos: Sequence[VideoFeatures],
        *,
        seed: int = 0,
        triplets: TripletSource | None = None,  # noqa: ARG002
    ) -> None:
        self.seen += [len(videos), seed]

    def describe(self, video: VideoFeatures) -> Tensor:
        return video.vectors.mean(dim=(0, 1))

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        return np.array([float(query @ target) for target in targets], np.float64)


class ArrayDot(Dot):
    def describe(self, video: VideoFeatures) -> NDArray[np.float32]:  # type: ignore[override]
        return video.vectors.mean(dim=(0, 1)).numpy()

    def scores(self, query: NDArray[np.float32], targets: Sequence[NDArray[np.float32]]) -> ScoreArray:  # type: ignore[override]
        return np.array([query @ target for target in targets], np.float64)


def turned(degrees: float) -> Tensor:
    angle = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return torch.stack([angle.cos(), angle.sin()])


def test_what_the_neighbour_knows_is_found() -> None:
    # The event stretches to one side of the query; alone, it takes the stranger on the other side first.
    query, near, far, stranger = turned(0), turned(20), turned(50), turned(-45)
    targets = [stranger, far, near]
    system: ComparedSystem[Tensor] = Dot()
    assert np.argsort(-system.scores(query, targets)).tolist() == [2, 0, 1]
    expanded = QE(system, 1)
    found = expanded.scores(query, targets)
    assert np.argsort(-found).tolist() == [2, 1, 0]
    mean = (query + near) / 2
    assert found == pytest.approx([float(mean @ t) for t in targets])


def test_the_query_is_no_neighbour_of_its_own() -> None:
    query, near, far = turned(0), turned(20), turned(50)
    found = QE(Dot(), 1).scores(query, [query, near, far])
    assert found == pytest.approx([float((query + near) / 2 @ t) for t in (query, near, far)])
    assert QE(Dot()).scores(query, [query]) == pytest.approx([1])
    assert len(QE(Dot()).scores(query, [])) == 0


def test_more_neighbours_than_targets_and_ties() -> None:
    query, a, b = turned(0), turned(30), turned(-30)
    found = QE(Dot(), 10).scores(query, [a, b])
    assert found == pytest.approx([float((query + a + b) / 3 @ t) for t in (a, b)])
    assert (
        QE(Dot(), 1).scores(query, [a, b])[0] > QE(Dot(), 1).scores(query, [a, b])[1]
    )  # the first of equals


def test_the_rest_is_the_systems() -> None:
    inner = ArrayDot()
    system = QE(inner, 2)
    assert (system.name, system.reads) == ("dot+QE", "imac")
    videos = [VideoFeatures(turned(d).float()[None, None], torch.zeros(1)) for d in (0, 20, 50)]
    system.learn(videos, seed=9)
    assert inner.seen == [3, 9]
    query, *targets = (system.describe(video) for video in videos)
    mean = torch.stack([turned(d) for d in (0, 20, 50)]).mean(dim=0)
    assert system.scores(query, targets) == pytest.approx(
        [float(mean @ turned(d)) for d in (20, 50)], abs=1e-6
    )


@pytest.mark.parametrize("system", [CTE(codes=0), TMK(), LAMV()])
def test_a_chain_of_overlaps(system: CTE | TMK) -> None:
    """Query and last share nothing, but the middle one shows what lies between: scores rise for it alone."""
    generator = torch.Generator().manual_seed(0)
    event = F.normalize(torch.randn(40, 48, generator=generator), dim=1)
    other = F.normalize(torch.randn(25, 48, generator=generator), dim=1)

    def described(vectors: Tensor, start: float) -> object:
        times = start + torch.arange(len(vectors), dtype=torch.float64)
        return system.describe(VideoFeatures(vectors[:, None], times))

    query, middle = described(event[:25], 0.0), described(event[5:35], 3.0)
    last, stranger = described(event[15:], 50.0), described(other, 0.0)
    targets = [middle, last, stranger]
    wrapped: QE[object] = QE(system, 1)  # type: ignore[arg-type]
    before = system.scores(query, targets)  # type: ignore[arg-type]
    after = wrapped.scores(query, targets)
    assert np.argmax(before) == 0
    assert np.isfinite(after).all()
    assert after[1] - after[2] > before[1] - before[2] + 0.05
    assert after.argmin() == 2


def test_descriptions_without_a_mean_are_refused() -> None:
    with pytest.raises(UsageError, match="neighbours"):
        QE(Dot(), 0)
    with pytest.raises(UsageError, match="dot cannot be expanded"):
        QE(Ragged()).scores(torch.ones(2), [torch.ones(3)])
    lbow = LBoW(4)
    lbow.learn([VideoFeatures(torch.eye(4)[:, None], torch.arange(4.0))])
    with pytest.raises(UsageError, match="LBoW cannot be expanded"):
        QE(lbow).scores(Bag.of([0]), [Bag.of([0]), Bag.of([1])])


class Ragged(Dot):
    """Its descriptions are of any length."""

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        return np.array([float(query.sum() * target.sum()) for target in targets], np.float64)
