"""The reader's stage: pairs and their file, losses by hand, and that it learns, stops and goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from toy_training import footage, toy_model
from visil.compare.visil import ViSiL
from visil.errors import FileError, UsageError
from visil.model.reader import ReaderConfig
from visil.training.config import ReaderStage
from visil.training.pairs import Pairs, load_pairs, lookalikes, save_pairs
from visil.training.pictures import SLIDES, Pictures, SlideShows, decks
from visil.training.pieces import SAME, Plan
from visil.training.pieces import made as pieces_of
from visil.training.reader import batch_of, cell_loss, precision, ranking_loss, read_batch
from visil.training.reader_stage import fit_background, learn_reader, make_pairs, stored_pairs, with_reader

STAGE = ReaderStage(
    pieces=24,
    uses=1,
    strangers=2,
    background=16,
    shape=ReaderConfig(hidden=6, dilations=(1, 2), window=4),
    epochs=3,
    batch=6,
    lr=1e-2,
    warmup=2,
)


def model() -> ViSiL:
    made = toy_model()
    made.comparator = None
    made.config = made.config.replaced(comparator=None)
    return made


def made(folder: Path) -> Pairs:
    found = make_pairs(model(), footage(), footage(8, 100), STAGE, folder)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return made(tmp_path_factory.mktemp("pieces"))


def test_every_query_meets_its_original_and_strangers(pairs: Pairs) -> None:
    relations = Counter(pair.relation for pair in pairs.training)
    assert relations["copy"] >= 20
    assert relations["other moment"] > 0
    assert relations["look-alike"] > 0
    for pair in pairs.training:
        assert pair.frames.shape == pair.truth.shape == (len(pair.query.common), len(pair.target.common))
        assert bool((pair.truth == SAME).any()) == (pair.relation == "copy")


def test_pieces_that_a_stopped_run_left_are_read_back_to_the_same_pairs(
    pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.training.pieces.TOGETHER", 8)
    calls = iter([False, False, True])
    args = (model(), footage(), footage(8, 100), STAGE, tmp_path)
    assert make_pairs(*args, stop=lambda: next(calls)) is None
    left = sorted(tmp_path.iterdir())
    assert len(left) == 2
    left[1].write_bytes(b"cut off")
    embedded: list[int] = []
    plain = ViSiL.embed_frames

    def counted(self: ViSiL, *arguments: Any) -> Any:
        embedded.append(1)
        return plain(self, *arguments)

    monkeypatch.setattr(ViSiL, "embed_frames", counted)
    again = made(tmp_path)
    assert len(embedded) == 8 + 24 + 8 + 4 - 8  # the first file's are read back
    assert not tmp_path.exists()
    assert all(torch.equal(a.frames, b.frames) for a, b in zip(pairs.training, again.training, strict=True))


def test_pairs_come_back_from_their_file_as_they_were(pairs: Pairs, tmp_path: Path) -> None:
    path = tmp_path / "pairs.safetensors"
    save_pairs(path, pairs, {"seed": 1})
    back, identity = load_pairs(path)
    assert identity == {"seed": 1}
    assert back.fingerprint == pairs.fingerprint
    assert torch.allclose(back.background.regions, pairs.background.regions, atol=1e-3)
    for own, found in ((pairs.training, back.training), (pairs.validation, back.validation)):
        for a, b in zip(own, found, strict=True):
            assert torch.equal(a.frames, b.frames)
            assert torch.equal(a.truth, b.truth)
            assert torch.equal(a.target.blank, b.target.blank)
            assert torch.allclose(a.query.change, b.query.change.float(), atol=1e-3)
            assert (a.number, a.relation) == (b.number, b.relation)
    assert stored_pairs(path, {"seed": 2}) is None
    assert stored_pairs(tmp_path / "none", {}) is None


def test_a_damaged_file_of_pairs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.safetensors"
    path.write_bytes(b"12345678901234567890")
    with pytest.raises(FileError, match=r"pairs\.safetensors: is damaged"):
        load_pairs(path)


def test_strangers_of_a_background_are_frames_of_different_videos() -> None:
    own = model()
    pieces = list(pieces_of(own, footage(2), [Plan(v, (0.0, 1.0, 2.0)) for v in (0, 1)]))
    background = fit_background(own, pieces, 5)
    across = own.formula.frame_matrix(pieces[0].vectors.float(), pieces[1].vectors.float())
    # Both directions count, and S_f of a model that is not symmetric differs by direction.
    back = own.formula.frame_matrix(pieces[1].vectors.float(), pieces[0].vectors.float())
    assert float(background.mean) == pytest.approx(float(torch.cat([across, back]).mean()), abs=1e-3)
    assert background.regions.shape == (5, 24)


def test_look_alikes_are_the_videos_with_the_most_similar_frames() -> None:
    basis = torch.eye(4)
    videos = [
        torch.stack([basis[0]])[:, None],
        torch.stack([basis[1], basis[0]])[:, None],
        basis[2][None, None],
    ]
    assert [near[0] for near in lookalikes(videos)][:2] == [1, 0]


def test_shows_hold_look_alikes_of_one_kind_and_no_picture_twice() -> None:
    rng = np.random.default_rng(0)
    kinds = ["slide"] * 20 + ["map"] * 9
    thumbs = rng.random((29, 12)).astype(np.float32)
    shows = decks(thumbs, kinds, 50, np.random.default_rng(1))
    used = [int(picture) for show in shows for picture in show]
    assert len(used) == len(set(used))
    for show in shows:
        assert SLIDES[0] <= len(show) <= SLIDES[1]
        assert len({kinds[picture] for picture in show}) == 1


def test_a_show_holds_each_picture_for_a_while() -> None:
    images = torch.arange(8, dtype=torch.uint8)[:, None, None, None].expand(8, 4, 4, 3).contiguous()
    shows = SlideShows(Pictures(images, ["slide"] * 8, [], "eight"), 1, fps=4.0)
    assert len(shows) == 1
    frames = shows.images(0, range(len(shows.times(0))))[:, 0, 0, 0].tolist()
    stays = [frames.count(picture) for picture in dict.fromkeys(frames)]
    assert min(stays) >= 6  # 1.5 s
    assert max(stays) <= 20


def test_the_loss_of_cells_is_over_true_ones_and_the_hardest_others() -> None:
    maps = torch.tensor([[[0.5, -0.5], [0.1, -1.0]]])
    truth = torch.tensor([[[1, 0], [0, 2]]], dtype=torch.uint8)
    logits = 6 * maps
    own = F.softplus(-logits[0, 0, 0])
    worst = F.softplus(logits[0, 1, 0])
    assert cell_loss(maps, truth, 0.5) == pytest.approx(float(own + worst), rel=1e-5)


def test_equation_7_is_between_pairs_of_one_query() -> None:
    found = torch.tensor([0.6, 0.4, 0.9, 0.1])
    number = torch.tensor([0, 0, 1, 1])
    copy = torch.tensor([True, False, True, False])
    # 0.4 - 0.6 + 0.5 and 0.1 - 0.9 + 0.5 (nothing)
    assert ranking_loss(found, number, copy, 0.5) == pytest.approx((0.3 + 0.0) / 2)


def test_learning_tells_true_cells_of_unseen_pairs_from_others(pairs: Pairs, tmp_path: Path) -> None:
    @torch.no_grad()
    def unseen(learned: ViSiL) -> float:
        assert learned.reader is not None
        assert learned.background is not None
        batch = batch_of(pairs.validation)
        return float(cell_loss(read_batch(learned.reader, learned.background, batch), batch.truth, 0.05))

    before = unseen(with_reader(model(), pairs.background, STAGE))
    learned, outcome = learn_reader(model(), pairs, replace(STAGE, epochs=10), tmp_path)
    assert unseen(learned) < 0.5 * before
    assert learned.background is not None
    assert precision(pairs.validation, learned.reader, learned.background) == outcome.best_map


def test_a_learned_reader_is_saved_and_loaded_with_its_model(pairs: Pairs, tmp_path: Path) -> None:
    learned, _ = learn_reader(model(), pairs, replace(STAGE, epochs=1), tmp_path / "run")
    learned.save_pretrained(tmp_path / "model")
    back = ViSiL.from_pretrained(tmp_path / "model")
    assert back.config == learned.config
    assert back.fingerprint() == learned.fingerprint() == model().fingerprint()
    frames = footage().images(0, range(6))
    query, target = back.embed_frames(frames), back.embed_frames(frames.flip(0))
    here, there = (m.compare(query, target) for m in (learned, back))
    assert here.segments == there.segments
    assert here.evidence == there.evidence


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(pairs: Pairs, tmp_path: Path) -> None:
    whole, _ = learn_reader(model(), pairs, STAGE, tmp_path / "whole")
    calls = iter(range(100))
    _, outcome = learn_reader(model(), pairs, STAGE, tmp_path / "parts", stop=lambda: next(calls) == 5)
    assert outcome.stopped
    resumed, outcome = learn_reader(model(), pairs, STAGE, tmp_path / "parts")
    assert not outcome.stopped
    assert whole.reader is not None
    assert resumed.reader is not None
    for name, tensor in whole.reader.state_dict().items():
        assert torch.equal(tensor, resumed.reader.state_dict()[name])


def test_pairs_without_copies_teach_nothing(pairs: Pairs, tmp_path: Path) -> None:
    strangers = [pair for pair in pairs.training if pair.relation != "copy"]
    with pytest.raises(UsageError, match="shares footage"):
        learn_reader(model(), replace(pairs, training=strangers), STAGE, tmp_path)


def test_batches_hold_what_is_outside_as_unsure(pairs: Pairs) -> None:
    batch = batch_of(pairs.training[:5])
    assert bool((batch.truth[~batch.inside] == 2).all())
    assert batch.inside.sum() == sum(pair.frames.numel() for pair in pairs.training[:5])
