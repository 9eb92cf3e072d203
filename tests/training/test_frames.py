"""The frame stage: what a batch holds, what its loss is, that it learns, and that it goes on where it was stopped."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from array_footage import ArrayFootage
from visil.compare.visil import ViSiL
from visil.errors import FileError, ModelError, UsageError
from visil.model.config import VISIL_F, VISIL_F_W
from visil.training.checkpoint import LAST
from visil.training.config import FrameStage, Part
from visil.training.frame_bank import FrameBank
from visil.training.frames import PLAIN, accuracy, draw_views, schedule, train_frames, views_ahead
from visil.training.losses import frame_info_nce, frame_triplet_loss, spread_loss
from visil.training.pictures import Pictures, read_pictures
from visil.training.starting_model import widened
from visil.video import Sampling

SIDE = 32


def footage(videos: int = 6, frames: int = 8, seed: int = 0) -> ArrayFootage:
    """Videos of two shots, each a slowly brightening picture of coarse random blocks; four frames a second."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(videos):
        shots = rng.integers(0, 256, (2, 4, 4, 3)).repeat(SIDE // 4, 1).repeat(SIDE // 4, 2)
        made.append(
            np.stack([np.clip(shots[2 * i // frames] + i, 0, 255) for i in range(frames)]).astype(np.uint8)
        )
    return ArrayFootage(made, [torch.arange(frames) / 4 for _ in range(videos)])


@pytest.fixture(scope="module")
def bank() -> FrameBank:
    return FrameBank.read(footage())


def small_model(seed: int = 0) -> ViSiL:
    config = VISIL_F_W.replaced(
        backbone="efficientnet-lite0",
        stages=(0, 1),
        levels=(1, 2),
        dim=16,
        symmetric=True,
        frame_pool=("max", "top3"),
        sampling=Sampling(resize=SIDE, crop=SIDE),
    )
    model = ViSiL(config)  # seeded: the same network each time
    assert model.whitening is not None
    generator = torch.Generator().manual_seed(seed)
    model.whitening.projection.copy_(torch.randn(model.channels, 16, generator=generator))
    return model


# ---------------------------------------------------------------- the bank


def test_a_batch_holds_different_videos(bank: FrameBank) -> None:
    drawn = bank.draw(6, np.random.default_rng(0))
    assert drawn.plain.shape == (6, SIDE, SIDE, 3)
    assert torch.equal(drawn.plain, drawn.edited)  # without a shift
    rows = [int((bank.images == image).flatten(1).all(dim=1).nonzero()[0, 0]) for image in drawn.plain]
    assert sorted(row // 8 for row in rows) == [0, 1, 2, 3, 4, 5]


def test_more_than_there_are_videos_is_as_many_as_there_are(bank: FrameBank) -> None:
    assert len(bank.draw(50, np.random.default_rng(0)).plain) == 6


def test_second_moments_are_of_another_shot_and_far_away(bank: FrameBank) -> None:
    for seed in range(20):
        drawn = bank.draw(6, np.random.default_rng(seed), twice=0.5, apart=1.0)
        rows = [int((bank.images == image).flatten(1).all(dim=1).nonzero()[0, 0]) for image in drawn.plain]
        assert len(rows) == 6
        for first in rows[:3]:
            for second in rows[3:]:
                if first // 8 == second // 8:
                    assert abs(first - second) >= 4  # a second at four frames a second
                    assert first % 8 // 4 != second % 8 // 4  # within a shot they look the same
        assert len({row // 8 for row in rows}) < 6


def test_the_edited_frame_lies_beside_the_plain_one_in_the_same_shot(bank: FrameBank) -> None:
    moved = 0
    for seed in range(10):
        drawn = bank.draw(6, np.random.default_rng(seed), shift=0.5)
        for plain, edited in zip(drawn.plain, drawn.edited, strict=True):
            a, b = (int((bank.images == i).flatten(1).all(dim=1).nonzero()[0, 0]) for i in (plain, edited))
            assert a // 4 == b // 4
            assert abs(a - b) <= 2
            moved += a != b
    assert moved


def test_blank_frames_are_left_out_and_many_are_thinned() -> None:
    videos = [np.zeros((4, SIDE, SIDE, 3), np.uint8), *(v.numpy() for v in footage(3)._videos)]
    bank = FrameBank.read(ArrayFootage(videos))
    assert bank.lengths.tolist() == [8, 8, 8]
    assert FrameBank.read(footage(6, 8), most=20).lengths.tolist() == [3] * 6


def test_too_few_videos() -> None:
    with pytest.raises(UsageError, match="two videos"):
        FrameBank.read(ArrayFootage([np.zeros((4, SIDE, SIDE, 3), np.uint8)]))


# ---------------------------------------------------------------- views and losses


def test_views_are_the_same_for_the_same_step(bank: FrameBank) -> None:
    stage = FrameStage(steps=4, batch=6)
    for a, b in zip(views_ahead(bank, stage, SIDE, 3, 1), range(1, 4), strict=True):
        again = draw_views(bank, stage, SIDE, 3, [b])[0]
        torch.testing.assert_close(a.edited, again.edited)
        torch.testing.assert_close(a.plain, again.plain)
        assert torch.equal(a.neither, again.neither)
    other = draw_views(bank, stage, SIDE, 4, [1])[0]
    assert not torch.equal(other.plain, draw_views(bank, stage, SIDE, 3, [1])[0].plain)


def test_views_made_together_are_those_made_alone(bank: FrameBank) -> None:
    stage = FrameStage(steps=4, batch=6, composite=0.5)
    for views, step in zip(draw_views(bank, stage, SIDE, 3, [1, 2, 3]), (1, 2, 3), strict=True):
        (alone,) = draw_views(bank, stage, SIDE, 3, [step])
        torch.testing.assert_close(views.edited, alone.edited)
        torch.testing.assert_close(views.plain, alone.plain)
        assert torch.equal(views.neither, alone.neither)


def test_the_companion_of_a_composed_picture_is_set_aside(bank: FrameBank) -> None:
    views = draw_views(bank, FrameStage(steps=1, batch=6, composite=1.0), SIDE, 0, [0])[0]
    assert views.neither.sum(dim=0).tolist() == [1] * 6
    assert views.neither.sum(dim=1).tolist() == [1] * 6
    assert not views.neither.diagonal().any()
    assert not draw_views(bank, FrameStage(steps=1, batch=6, composite=0.0), SIDE, 0, [0])[0].neither.any()


def test_views_have_the_size_the_model_sees(bank: FrameBank) -> None:
    views = draw_views(bank, FrameStage(steps=1, batch=4), 24, 0, [0])[0]
    assert views.plain.shape == views.edited.shape == (4, 3, 24, 24)


def test_the_loss_by_hand() -> None:
    similarity = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.3], [0.4, 0.0, 0.7]], dtype=torch.float64)
    neither = torch.zeros(3, 3, dtype=torch.bool)
    neither[0, 2] = True
    e = torch.exp(similarity / 0.1)
    rows = [e[0, 0] / (e[0, 0] + e[0, 1]), e[1, 1] / e[1].sum(), e[2, 2] / e[2].sum()]
    columns = [e[0, 0] / e[:, 0].sum(), e[1, 1] / e[:, 1].sum(), e[2, 2] / (e[1, 2] + e[2, 2])]
    expected = -sum(torch.log(p) for p in (*rows, *columns)) / 6
    assert float(frame_info_nce(similarity, neither, 0.1)) == pytest.approx(float(expected))
    assert float(accuracy(similarity, neither)) == 1.0
    assert float(accuracy(similarity.flip(0), neither)) == pytest.approx(
        2 / 3
    )  # columns 1 and, its 0.7 set aside, 2


def test_the_hardest_stranger_by_hand() -> None:
    similarity = torch.tensor([[0.9, 0.1, 0.8], [0.2, 0.6, 0.3], [0.7, 0.5, 0.4]], dtype=torch.float64)
    neither = torch.zeros(3, 3, dtype=torch.bool)
    neither[0, 2] = True
    # Rows: 0.1 against 0.9, 0.3 against 0.6, 0.7 against 0.4; columns: 0.7 to 0.9, 0.5 to 0.6, 0.3 to 0.4.
    rows, columns = (0.0, 0.0, 0.7 - 0.4 + 0.2), (0.7 - 0.9 + 0.2, 0.5 - 0.6 + 0.2, 0.3 - 0.4 + 0.2)
    expected = sum((*rows, *columns)) / 6
    assert float(frame_triplet_loss(similarity, neither, 0.2)) == pytest.approx(expected)
    assert float(frame_triplet_loss(torch.eye(3), neither, 0.9)) == 0.0
    # With 0.8 no longer set aside it is the hardest of its row and of its column.
    more = float(frame_triplet_loss(similarity, torch.zeros_like(neither), 0.2))
    assert more == pytest.approx(expected + (0.8 - 0.9 + 0.2 + 0.8 - 0.3) / 6)


def test_the_hardest_stranger_in_a_batch_where_all_others_are_set_aside() -> None:
    neither = ~torch.eye(3, dtype=torch.bool)
    similarity = torch.rand(3, 3, requires_grad=True)
    loss = frame_triplet_loss(similarity, neither, 0.5)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert similarity.grad is not None
    assert not similarity.grad.isnan().any()


def test_spread_by_hand() -> None:
    vectors = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [-1.0, 0.0]]])
    # Nearest in the other frame: (1,0) at distance 0; (0,1) to (1,0) at √2, from either side; (-1,0) to (0,1).
    expected = -(2 * np.log(1e-6) + 2 * np.log(2**0.5 + 1e-6)) / 4
    assert float(spread_loss(vectors)) == pytest.approx(expected, rel=1e-4)


def test_the_rate_rises_then_falls() -> None:
    stage = FrameStage(steps=100, warmup=10)
    rates = [schedule(step, stage) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[10] == pytest.approx(1.0)
    assert all(b <= a for a, b in pairwise(rates[10:]))
    assert rates[-1] < 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": -1},
        {"batch": 1},
        {"composite": 1.5},
        {"scale": (0.7, 0.3)},
        {"keep": 1.0},
        {"fps": 0.0},
        {"margin": -0.1},
        {"learn": ()},
        {"learn": ("comparator",)},
        {"learn": ("backbone", "attention")},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="frames:"):
        FrameStage(**wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------- learning


def state(model: ViSiL) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_it_learns_and_leaves_a_model_that_only_answers(bank: FrameBank) -> None:
    model = small_model()
    before = state(model)
    losses: list[float] = []
    stage = FrameStage(steps=12, batch=6, lr=2e-3, warmup=2, composite=0.0, strength=0.3)
    assert train_frames(model, bank, stage, on_step=lambda step: losses.append(step.figures["loss"]), every=1)
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])
    after = state(model)
    assert not torch.equal(before["whitening.projection"], after["whitening.projection"])
    assert any(
        not torch.equal(before[k], after[k]) for k in before if k.startswith("backbone") and "conv" in k
    )
    statistics = [k for k in before if k.endswith(("running_mean", "running_var"))]
    assert statistics
    assert all(torch.equal(before[k], after[k]) for k in statistics)
    assert not model.training
    assert not any(t.requires_grad for t in (*model.parameters(), *model.buffers()))
    frames = torch.randint(0, 256, (2, SIDE, SIDE, 3), dtype=torch.uint8)
    assert F.normalize(model.embed_frames(frames).vectors, dim=-1).shape == (2, 5, 16)


@pytest.mark.parametrize(("learn", "still"), [("whitening", "backbone"), ("backbone", "whitening")])
def test_what_does_not_learn_stays_to_the_last_bit(bank: FrameBank, learn: Part, still: Part) -> None:
    model = small_model()
    before = state(model)
    stage = FrameStage(steps=3, batch=6, lr=2e-3, warmup=1, learn=(learn,))
    assert train_frames(model, bank, stage)
    changed = {name for name, tensor in state(model).items() if not torch.equal(tensor, before[name])}
    assert changed
    assert all(name.startswith(learn) for name in changed)
    assert any(name.startswith(still) for name in before)


def test_it_learns_by_the_hardest_stranger(bank: FrameBank) -> None:
    losses: list[float] = []
    # Gently: at ten times this rate all frames fall together, and the loss stays at the margin.
    stage = FrameStage(steps=16, batch=6, lr=3e-4, warmup=2, composite=0.0, strength=0.3, margin=0.1)
    assert train_frames(
        small_model(), bank, stage, on_step=lambda step: losses.append(step.figures["loss"]), every=1
    )
    assert np.mean(losses[-4:]) < 0.9 * np.mean(losses[:4])


@pytest.mark.parametrize("keep", [0.0, 0.5])
def test_stopped_and_gone_on_ends_the_same(bank: FrameBank, tmp_path: Path, keep: float) -> None:
    stage = FrameStage(steps=5, batch=4, warmup=1, keep=keep)
    straight = small_model()
    assert train_frames(straight, bank, stage, seed=7)
    broken = small_model()
    asked = iter([False, True])
    options = {"seed": 7, "folder": tmp_path, "identity": {"videos": "x"}}
    assert not train_frames(broken, bank, stage, stop=lambda: next(asked), **options)  # type: ignore[arg-type]
    broken = small_model()
    assert train_frames(broken, bank, stage, **options)  # type: ignore[arg-type]
    for name, tensor in state(straight).items():
        assert torch.equal(tensor, state(broken)[name]), name
    with pytest.raises(FileError, match="belongs to a run"):
        train_frames(
            small_model(), bank, FrameStage(steps=6, batch=4), folder=tmp_path, identity={"videos": "x"}
        )


def test_a_checkpoint_of_the_stage_before_it_shared_the_trainer_is_read(
    bank: FrameBank, tmp_path: Path
) -> None:
    stage = FrameStage(steps=4, batch=4, warmup=1, keep=0.5)
    straight, broken = small_model(), small_model()
    train_frames(straight, bank, stage, seed=7)
    asked = iter([False, True])
    assert not train_frames(broken, bank, stage, seed=7, folder=tmp_path, stop=lambda: next(asked))
    now = torch.load(tmp_path / LAST, weights_only=True)
    older = {name: now[name] for name in ("format", "identity", "kept", "optimiser")}
    older |= {"step": now["standing"]["step"], "learning": list(now["model"].values())}
    torch.save(older, tmp_path / LAST)
    again = small_model()
    assert train_frames(again, bank, stage, seed=7, folder=tmp_path)
    for name, tensor in state(straight).items():
        assert torch.equal(tensor, state(again)[name]), name


def test_the_log_goes_on_where_the_checkpoint_stands(bank: FrameBank, tmp_path: Path) -> None:
    stage = FrameStage(steps=4, batch=4, warmup=1)
    asked = iter([False, True])
    options = {"every": 1, "folder": tmp_path}
    train_frames(small_model(), bank, stage, stop=lambda: next(asked), **options)  # type: ignore[arg-type]
    train_frames(small_model(), bank, stage, **options)  # type: ignore[arg-type]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert set(lines[0]) == {"step", "loss", "accuracy", "pairs/s", "data", "left, s"}


def test_a_loss_that_is_no_number_ends_the_stage(bank: FrameBank) -> None:
    model = small_model()
    assert model.whitening is not None
    model.whitening.projection.fill_(torch.nan)
    with pytest.raises(ModelError, match=r"no number in step 1: lower frames\.lr"):
        train_frames(model, bank, FrameStage(steps=1, batch=4))


def test_a_model_without_whitening_is_refused(bank: FrameBank) -> None:
    config = VISIL_F.replaced(backbone="efficientnet-lite0", stages=(1, 2))
    with pytest.raises(UsageError, match="whitening"):
        train_frames(ViSiL(config), bank, FrameStage(steps=1, batch=2))


# ---------------------------------------------------------------- pictures beside the videos


def some_pictures(kinds: list[str]) -> Pictures:
    """Pictures of one colour each, by their number."""
    images = torch.arange(len(kinds), dtype=torch.uint8)[:, None, None, None].expand(-1, SIDE, SIDE, 3)
    return Pictures(images.contiguous(), kinds, [], "made")


def test_a_share_of_the_batch_are_pictures() -> None:
    bank = FrameBank.read(footage(), pictures=some_pictures(["map"] * 20))
    drawn = bank.draw(10, np.random.default_rng(0), pictured=0.6)
    flat = (drawn.plain.flatten(1) == drawn.plain[:, 0, 0, :1]).all(dim=1)
    assert flat.tolist() == [False] * 4 + [True] * 6
    numbers = drawn.plain[flat][:, 0, 0, 0].tolist()
    assert len(set(numbers)) == 6
    assert torch.equal(drawn.plain[flat], drawn.edited[flat])


def test_without_a_share_or_without_pictures_batches_are_as_before(bank: FrameBank) -> None:
    plain = bank.draw(5, np.random.default_rng(3), twice=0.4, apart=1.0)
    beside = FrameBank.read(footage(), pictures=some_pictures(["map"] * 3))
    for other in (
        beside.draw(5, np.random.default_rng(3), twice=0.4, apart=1.0),
        bank.draw(5, np.random.default_rng(3), twice=0.4, apart=1.0, pictured=0.6),
    ):
        assert torch.equal(plain.plain, other.plain)
        assert torch.equal(plain.edited, other.edited)


def test_kinds_are_drawn_by_the_square_root_of_their_number() -> None:
    pictures = some_pictures(["photo"] * 100 + ["map"] * 4)
    assert pictures.weights.sum() == pytest.approx(1)
    assert pictures.weights[100:].sum() == pytest.approx(2 / (10 + 2))


def test_pictures_of_a_folder_are_read_as_frames_are(tmp_path: Path) -> None:
    (tmp_path / "slide" / "deck").mkdir(parents=True)
    (tmp_path / "photo").mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
    for name in ("slide/deck/a.png", "photo/b.png", "c.png"):
        Image.fromarray(noise).save(tmp_path / name)
    Image.new("RGB", (40, 60), "white").save(tmp_path / "photo" / "blank.png")
    (tmp_path / "photo" / "broken.jpg").write_bytes(b"junk")
    (tmp_path / "photo" / "notes.txt").write_text("no picture")
    found = read_pictures([str(tmp_path)], Sampling(resize=SIDE, crop=SIDE, fit="whole"))
    assert sorted(found.kinds) == sorted(["slide", "photo", tmp_path.name])
    assert found.images.shape == (3, SIDE, SIDE, 3)
    assert [Path(path).name for path, _ in found.failed] == ["broken.jpg"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="no pictures below"):
        read_pictures([str(tmp_path / "empty")], Sampling())
    with pytest.raises(FileError, match="is no folder of pictures"):
        read_pictures([str(tmp_path / "c.png")], Sampling())


def test_an_edited_view_always_shows_something() -> None:
    """A small mark on white: most crops of it are plain, and those frames are learned from as they are."""
    marked = torch.full((6, SIDE, SIDE, 3), 255, dtype=torch.uint8)
    marked[:, 2:10, 2:10] = torch.tensor([[200, 30, 40]], dtype=torch.uint8)
    pictures = Pictures(marked, ["slide"] * 6, [], "made")
    bank = FrameBank.read(footage(), pictures=pictures)
    stage = FrameStage(steps=1, batch=8, composite=0.0, pictures=0.7)
    for step in range(20):
        (views,) = draw_views(bank, stage, SIDE, 0, [step])
        assert (views.edited.flatten(2).std(dim=2).amax(dim=1) > PLAIN).all()


# ---------------------------------------------------------------- a model with more stages


def test_more_stages_begin_with_the_same_features() -> None:
    model = small_model()
    model.whitening = widened(model, (0, 1))
    pictures = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 3), np.uint8))
    wider = ViSiL(model.config.replaced(stages=(0, 1, 3)), with_backbone=False)
    wider.backbone = model.backbone
    wider.whitening = widened(model, (0, 1, 3))
    with torch.no_grad():
        torch.testing.assert_close(wider.features(pictures), model.features(pictures), atol=1e-5, rtol=0)
