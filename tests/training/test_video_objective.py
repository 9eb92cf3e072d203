"""The loss of a batch against single comparisons, and which pairs of it are what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from toy_training import toy_config, toy_model, toy_trainer
from visil.compare.visil import ViSiL
from visil.training.config import LossConfig
from visil.training.embedding import SnippetEmbedder
from visil.training.losses import Pairs, s2vs_loss, similarity_regularisation
from visil.training.snippets import Snippet
from visil.training.triplets import Triplet
from visil.training.videos import VideoObjective, batch_loss, batch_pairs


def snippet(*videos: int) -> Snippet:
    return Snippet(tuple((video, 0) for video in videos))


def triplet(anchor: int, positive: int, negative: int) -> Triplet:
    return Triplet(snippet(anchor), snippet(positive), snippet(negative))


def signs(triplets: list[Triplet], related: list[set[int]] | None = None) -> list[str]:
    pairs = batch_pairs(triplets, torch.device("cpu"), related)
    return [
        "".join("=" if i else "+" if p else "-" if n else "." for p, n, i in zip(*row, strict=True))
        for row in zip(pairs.positive, pairs.negative, pairs.itself, strict=True)
    ]


def test_pairs_of_a_batch() -> None:
    # Anchors 0, 1; positives 0, 2; negatives 3, 0. Targets in that order.
    assert signs([triplet(0, 0, 3), triplet(1, 2, 0)]) == [
        "=-+--.",  # 0: itself, 1 is another, its positive, 2 is another, 3 is its negative, 0 again
        "-=-+--",
        "+-=--.",
        "-+-=--",
    ]


def test_related_videos_are_no_negatives() -> None:
    # 0 and 1 are related by annotation outside of the batch.
    related = [{0, 1}, {0, 1}, {2}, {3}]
    assert signs([triplet(0, 0, 3), triplet(1, 2, 3)], related)[0] == "=.+.--"


def test_inserted_frames_relate_too() -> None:
    pairs = signs([Triplet(snippet(0), snippet(0, 3), snippet(3)), triplet(1, 1, 2)])
    assert pairs[0] == "=-+-.-"


def vectors(seed: int, frames: int = 8) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(frames, 4, 24, generator=random), dim=-1)


@pytest.fixture
def model() -> ViSiL:
    model = toy_model()
    assert model.comparator is not None
    for parameter in model.comparator.parameters():
        parameter.data *= 4  # outputs far apart, some beyond 1
    return model


def test_triplets_are_eq_9(model: ViSiL) -> None:
    triplets = [triplet(0, 0, 1), triplet(2, 2, 3)]
    anchors, positives, negatives = ([vectors(10 * role + i, 8 + i) for i in range(2)] for role in range(3))
    config = LossConfig(margin=0.5, regularisation=0.1)
    found = batch_loss(model, triplets, anchors, positives, negatives, config)
    assert model.comparator is not None
    losses, excess = [], []
    for a, p, n in zip(anchors, positives, negatives, strict=True):
        losses.append(max(0.0, (model(a, n) - model(a, p) + 0.5).item()))
        for other in (p, n):
            matrix = torch.tensor([[(x @ y.T).amax(1).mean() for y in other] for x in a])
            excess.append(similarity_regularisation(model.comparator(matrix)).item())
    assert max(losses) > 0
    assert found.main.item() == pytest.approx(sum(losses) / 2, abs=1e-5)
    assert found.regularisation.item() == pytest.approx(sum(excess) / 2, rel=1e-4)
    assert found.loss.item() == pytest.approx(sum(losses) / 2 + 0.1 * sum(excess) / 2, rel=1e-4)


def test_the_contrastive_loss_sees_every_pair(model: ViSiL) -> None:
    triplets = [triplet(0, 0, 1), triplet(2, 2, 3)]
    anchors, positives, negatives = ([vectors(10 * role + i) for i in range(2)] for role in range(3))
    config = LossConfig(kind="infonce", temperature=0.5, hard_negative=2.0, regularisation=0.0)
    found = batch_loss(model, triplets, anchors, positives, negatives, config)
    everything = [*anchors, *positives, *negatives]
    s = [[(model(q, t).item() / 2 + 0.5) for t in everything] for q in everything[:4]]
    nce, hard, own = [], [], []
    cases = ((0, 2, (1, 3, 4, 5)), (1, 3, (0, 2, 4, 5)), (2, 0, (1, 3, 4, 5)), (3, 1, (0, 2, 4, 5)))
    for query, positive, others in cases:
        row = torch.tensor(s[query], dtype=torch.float64)
        against = torch.exp(row[list(others)] / 0.5).sum()
        nce.append(-torch.log(torch.exp(row[positive] / 0.5) / (torch.exp(row[positive] / 0.5) + against)))
        hard.append(-torch.log(1 - row[list(others)].max() + 1e-6))
        own.append(-torch.log(row[query] + 1e-6))
    expected = sum(nce) / 4 + 2 * (sum(hard) + sum(own)) / 4
    assert found.loss.item() == pytest.approx(float(expected), abs=1e-3)


def test_without_negatives_the_rest_of_the_batch_is_what_a_pair_is_set_against(model: ViSiL) -> None:
    triplets = [triplet(0, 0, 1), triplet(2, 2, 3)]
    anchors, positives = ([vectors(10 * role + i) for i in range(2)] for role in range(2))
    config = LossConfig(kind="infonce", temperature=0.5, hard_negative=2.0, regularisation=0.0)
    found = batch_loss(model, triplets, anchors, positives, [], config)
    everything = [*anchors, *positives]
    similarity = torch.stack([torch.stack([model(q, t) for t in everything]) for q in everything])
    itself = torch.eye(4, dtype=torch.bool)
    copies = itself.roll(2, dims=0)
    expected = s2vs_loss(similarity, Pairs(copies, ~copies & ~itself, itself), 0.5, 2.0)
    assert found.loss.item() == pytest.approx(expected.item(), abs=1e-4)


def test_a_student_learns_what_its_teacher_says(model: ViSiL, tmp_path: Path) -> None:
    """The loss of a batch is the mean difference of similarities, over pairs of the pictures that both have seen."""
    teacher = toy_model()
    objective = toy_trainer(
        replace(
            toy_config(tmp_path), loss=LossConfig(kind="distillation", teacher="other", regularisation=0.0)
        ),
        model,
    ).objective
    assert isinstance(objective, VideoObjective)
    objective.teacher = SnippetEmbedder(teacher, objective.embedder.footage, objective.embedder.transform)
    with objective.epoch(1, 0) as (_, batches):
        triplets, pictures = next(batches).batch
    loss = objective.loss((triplets, pictures))["loss"]
    snippets = [getattr(t, role) for role in ("anchor", "positive", "negative") for t in triplets]
    differences = []
    refined = [embed(snippets, pictures) for embed in (objective.embedder, objective.teacher)]
    for place in range(len(triplets)):
        for other in (1, 2):
            said = [
                one(v[place], v[other * len(triplets) + place])
                for one, v in zip((model, teacher), refined, strict=True)
            ]
            differences.append(abs(said[0].item() - said[1].item()))
    assert max(differences) > 0.01
    assert loss.item() == pytest.approx(sum(differences) / len(differences), abs=1e-4)
    loss.backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert model.comparator is not None
    assert model.comparator.fconv.weight.grad is not None
