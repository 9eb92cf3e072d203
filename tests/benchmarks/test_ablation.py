"""The ablation: its figures against ranks worked out by hand, its shared vectors against the plain embedder's."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from toy_training import footage, toy_config, toy_model
from visil.edits.clips import PaperPositive
from visil.paper.ablation import TABLES, VARIANTS
from visil.training.embedding import SnippetEmbedder
from visil.training.snippets import Snippet

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shared.ablation_tables")


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shared.ablation_prepared")


@pytest.fixture
def ranking(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shared.ablation_ranking")


def test_figures_are_the_means_of_hand_counted_ranks(ranking: ModuleType) -> None:
    copies = ranking.CopySet(
        database=["sitcom-1.mp4", "sitcom-2.mp4", "shorts-1.mp4", "shorts-2.mp4"],
        queries=["easy-0.mp4", "hard-0.mp4", "hard-1.mp4"],
        truth=[0, 1, 3],
        halves=["easy", "hard", "hard"],
        settings=["alone", "buried", "split-screen"],
        edits=[["crop"], ["crop"], ["blur"]],
    )
    scores = np.array(
        [
            [0.9, 0.1, 0.2, 0.3],  # first of all
            [0.4, 0.5, 0.8, 0.6],  # third of all, first of its source
            [0.9, 0.8, 0.7, 0.7],  # fourth of all, the tie against it; second of its source
        ]
    )
    found = ranking.figures(copies, scores)
    ranks = [1, 1 / 3, 1 / 4]
    assert found["easy"] == 1
    assert found["hard"] == pytest.approx((1 / 3 + 1 / 4) / 2, abs=1e-4)
    assert found["all"] == pytest.approx(sum(ranks) / 3, abs=1e-4)
    assert found["error"] == pytest.approx(np.std(ranks) / np.sqrt(3), abs=1e-4)
    assert found["look-alikes"] == pytest.approx((1 + 1 + 1 / 2) / 3, abs=1e-4)
    assert found["hard, split-screen"] == 0.25
    two = ranking.some_queries(copies, 2)
    assert (two.queries, two.truth) == (["easy-0.mp4", "hard-1.mp4"], [0, 3])
    assert two.database == copies.database


def test_a_table_shows_what_was_run(tables: ModuleType) -> None:
    figures = {"easy": 0.9, "hard": 0.2, "all": 0.5, "error": 0.03, "look-alikes": 0.6}
    text = tables.markdown({"rows": {"v": {"mAP": {"test": figures}}}})
    assert "| ViSiL_v | 0.900 | 0.200 | 0.500 ± 0.030 | 0.600 | 0.880 |" in text
    assert "ViSiL_sym" not in text
    assert {name for lines in TABLES.values() for name in lines.values()} == set(VARIANTS)


def test_words_are_the_means_of_what_is_nearest_to_them(shared: ModuleType) -> None:
    vectors = torch.from_numpy(np.random.default_rng(0).normal(size=(200, 3)))
    words = shared.kmeans(vectors, 7, 200, 1).numpy()
    points = vectors.numpy()
    nearest = ((points[:, None] - words[None]) ** 2).sum(axis=2).argmin(axis=1)
    for word in range(7):
        np.testing.assert_allclose(words[word], points[nearest == word].mean(axis=0), atol=1e-9)
    assert torch.equal(shared.kmeans(vectors[:6], 7, 10, 0), vectors[:6])


def test_shared_vectors_train_as_the_embedders_own(shared: ModuleType) -> None:
    model = toy_model()
    snippets = [Snippet(((0, 2), (0, 3), (4, 1), (4, 2))), Snippet(((1, 5), (1, 6), (1, 6), (2, 0)), 11)]
    plain = SnippetEmbedder(model, footage(), PaperPositive())
    base = toy_model()
    source = SnippetEmbedder(base, footage(), PaperPositive())
    embedder = shared.SharedEmbedder(model, source, shared.made(source, snippets[1:]))
    found = embedder(snippets, [embedder.pictures(snippet) for snippet in snippets])
    expected = plain(snippets, [plain.pictures(snippet) for snippet in snippets])
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=1e-6)
    torch.testing.assert_close(found[1], expected[1], rtol=0, atol=1e-3)  # kept in half precision
    assert found[1].requires_grad


def test_epochs_come_again_from_the_front(shared: ModuleType) -> None:
    drawn = [["a"], ["b"], ["c"]]
    epochs = shared.Epochs(drawn, {})
    assert [epochs.epoch(number) for number in range(1, 6)] == [["a"], ["b"], ["c"], ["a"], ["b"]]


def test_a_rows_training_is_the_papers_recipe_but_for_time(shared: ModuleType, tmp_path: Path) -> None:
    settings = shared.Settings(
        epochs=8, distinct=4, triplets=50, batch=8, lr=1e-3, strings=4, dim=64, seed=3, window=64
    )
    config = settings.training(VARIANTS["r=0.5"], tmp_path, torch.device("cpu"))
    assert (config.loss.kind, config.loss.margin, config.loss.regularisation) == ("triplet", 0.5, 0.5)
    assert (config.optim.trainable, config.augmentation) == (toy_config(tmp_path).optim.trainable, "paper")
    assert settings.training(VARIANTS["W=16"], tmp_path, torch.device("cpu")).data.window == 16
    assert (
        settings.training(VARIANTS["f+W+A"], tmp_path, torch.device("cpu")).optim.lr == VARIANTS["f+W+A"].lr
    )


def test_joined_clips_make_triplets_that_name_the_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    joining = importlib.import_module("shared.ablation_joined")
    monkeypatch.setattr(joining, "FRAMES", 20)
    clips = footage()
    lengths = [len(clips.times(video)) for video in range(len(clips))]
    related = [frozenset((video,)) for video in range(len(clips))]
    related[0] = frozenset((0, 1))
    negatives = [[other for other in range(len(clips)) if other != video] for video in range(len(clips))]
    videos = joining.joined(lengths, related, np.random.default_rng(0))
    assert sorted(clip for video in videos for clip in video) == list(range(len(clips)))
    assert all(sum(lengths[clip] for clip in video) >= 20 for video in videos)
    assert any({0, 1} <= set(video) for video in videos), "related clips share a video"
    epoch = joining.joined_epoch(clips, negatives, related, 1, triplets=12, window=16, seed=0)
    assert len(epoch) == 12
    for triplet in epoch:
        anchor, positive, negative = (
            {clip for clip, _ in snippet.frames}
            for snippet in (triplet.anchor, triplet.positive, triplet.negative)
        )
        assert anchor & positive
        assert not anchor & negative
        assert all(place < lengths[clip] for clip, place in triplet.positive.frames)
