"""The loop on made videos: it learns, it is repeatable, and a run that was stopped ends as one that was not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import cos, pi
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import visil
from toy_training import footage, toy_config, toy_model, toy_trainer
from visil.errors import ModelError, UsageError
from visil.training.config import LossConfig, OptimConfig, Part, TrainConfig
from visil.training.trainer import Outcome, Step
from visil.training.videos import learning_rate


def lines(out: Path) -> list[dict[str, Any]]:
    """The log, without what depends on the machine's speed."""
    speed = {"triplets_per_second", "data_share"}
    found = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in speed} for line in found]


def after(steps: int) -> Callable[[], bool]:
    """Asks to stop in the ``steps``-th step."""
    seen = 0

    def stop() -> bool:
        nonlocal seen
        seen += 1
        return seen >= steps

    return stop


def trained(config: TrainConfig, **options: Any) -> tuple[Outcome, dict[str, Tensor]]:
    trainer = toy_trainer(config, toy_model())
    outcome = trainer.run(**options)
    return outcome, {name: tensor.clone() for name, tensor in trainer.objective.model.state_dict().items()}


def assert_same(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name, tensor in a.items():
        assert torch.equal(tensor, b[name]), name


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, dict[str, Tensor]]:
    """Two epochs of three steps without a break."""
    out = tmp_path_factory.mktemp("straight")
    return out, *trained(toy_config(out))


def test_training_finds_more_copies(tmp_path: Path) -> None:
    config = toy_config(tmp_path, epochs=3, lr=1e-3)
    steps: list[Step] = []
    config = replace(config, data=replace(config.data, triplets=48))
    outcome = toy_trainer(config, toy_model(), videos=20, edits=2).run(on_step=steps.append)
    log = lines(tmp_path)
    assert log[0] == {"epoch": 0, "step": 0, "map": outcome.start_map}
    assert [line["epoch"] for line in log] == [0, 1, 2, 3]
    assert outcome.best_map > outcome.start_map + 0.05
    assert log[-1]["loss"] < log[1]["loss"]
    assert outcome.best_map == max(line["map"] for line in log[1:])
    assert (outcome.epochs, outcome.steps, outcome.stopped) == (3, 36, False)
    assert [(step.epoch, step.done) for step in steps[10:14]] == [(1, 44), (1, 48), (2, 4), (2, 8)]
    assert all(step.rate > 0 and 0 <= step.data_share <= 1 for step in steps)


def test_only_the_chosen_parts_learn(straight: tuple[Path, Outcome, dict[str, Tensor]]) -> None:
    before, (_, _, now) = toy_model().state_dict(), straight
    for name, tensor in now.items():
        if (
            name == "comparator.fconv.bias"
        ):  # adds the same to positives and negatives: no gradient in the loss
            continue
        learned = name.startswith(("attention.", "comparator."))
        assert torch.equal(tensor, before[name]) != learned, name
    assert now["attention.context_vector.weight"].norm().item() == pytest.approx(1, abs=1e-6)


def test_the_best_model_is_a_folder_to_load(straight: tuple[Path, Outcome, dict[str, Tensor]]) -> None:
    out, outcome, now = straight
    model = visil.load(out)
    assert model.config.comparator == "replicate"
    if outcome.best_epoch == outcome.epochs:
        assert_same(dict(model.state_dict()), now)
    images = footage().images(0, range(8))
    assert -1 <= model.compare(model.embed_frames(images), model.embed_frames(images)).score <= 1


def test_the_same_seed_gives_the_same_bits(
    straight: tuple[Path, Outcome, dict[str, Tensor]], tmp_path: Path
) -> None:
    out, outcome, before = straight
    again, now = trained(toy_config(tmp_path))
    assert again == outcome
    assert_same(now, before)
    assert lines(tmp_path) == lines(out)


def test_another_seed_gives_another_model(
    straight: tuple[Path, Outcome, dict[str, Tensor]], tmp_path: Path
) -> None:
    _, now = trained(replace(toy_config(tmp_path, epochs=1), seed=5))
    assert not torch.equal(now["comparator.conv1.weight"], straight[2]["comparator.conv1.weight"])


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(
    steps: int, straight: tuple[Path, Outcome, dict[str, Tensor]], tmp_path: Path
) -> None:
    out, outcome, uninterrupted = straight
    first, halfway = trained(toy_config(tmp_path), stop=after(steps))
    assert first.stopped
    assert first.steps == steps
    assert not torch.equal(halfway["comparator.conv1.weight"], uninterrupted["comparator.conv1.weight"])
    second, now = trained(toy_config(tmp_path))
    assert second == outcome
    assert_same(now, uninterrupted)
    assert lines(tmp_path) == lines(out)


def test_a_finished_run_has_nothing_left_to_do(
    straight: tuple[Path, Outcome, dict[str, Tensor]],
) -> None:
    out, outcome, before = straight
    again, now = trained(toy_config(out))
    assert again == outcome
    assert_same(now, before)


def test_another_configuration_does_not_go_on(tmp_path: Path) -> None:
    trained(toy_config(tmp_path), stop=after(1))
    other = replace(toy_config(tmp_path), loss=LossConfig(margin=0.25))
    with pytest.raises(
        visil.VisilError, match=r"last\.pt: belongs to a run with loss\.margin 0\.5, not 0\.25"
    ):
        trained(other)
    outcome, _ = trained(other, resume=False, stop=after(2))
    assert outcome.steps == 2


@pytest.mark.parametrize(
    ("parts", "learned"),
    [(("whitening",), "whitening.projection"), (("backbone", "comparator"), "backbone._conv_stem.weight")],
)
def test_whitening_and_backbone_can_learn(parts: tuple[Part, ...], learned: str, tmp_path: Path) -> None:
    config = toy_config(tmp_path, epochs=1, batch=2, trainable=parts)
    config = replace(config, data=replace(config.data, triplets=2))
    before = toy_model().state_dict()
    _, now = trained(config)
    changed = {name.split(".")[0] for name in now if not torch.equal(now[name], before[name])}
    assert changed == set(parts)
    assert not torch.equal(now[learned], before[learned])
    assert_same(dict(visil.load(tmp_path).state_dict()), now)


def test_contrastive_training_lowers_its_loss(tmp_path: Path) -> None:
    config = replace(toy_config(tmp_path, epochs=3, lr=3e-3), loss=LossConfig(kind="infonce"))
    trained(config)
    log = lines(tmp_path)
    assert log[-1]["loss"] < log[1]["loss"]
    assert log[-1]["positive"] > log[-1]["negative"]


def test_half_precision_learns_nearly_the_same(
    straight: tuple[Path, Outcome, dict[str, Tensor]], tmp_path: Path
) -> None:
    trained(toy_config(tmp_path, precision="bf16"))
    for half, full in zip(lines(tmp_path)[1:], lines(straight[0])[1:], strict=True):
        assert half["loss"] == pytest.approx(full["loss"], abs=0.05)


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    trainer = toy_trainer(toy_config(tmp_path), model := toy_model())
    assert model.comparator is not None
    model.comparator.conv1.weight.data.fill_(torch.nan)
    with pytest.raises(ModelError, match=r"no number in step 1: lower optim\.lr"):
        trainer.run()


def test_a_model_without_the_parts_cannot_learn(tmp_path: Path) -> None:
    model = toy_model()
    model.attention = None
    with pytest.raises(UsageError, match="nothing to train"):
        toy_trainer(toy_config(tmp_path, trainable=("attention",)), model)


def test_rates_by_hand() -> None:
    constant = OptimConfig(lr=1.0, warmup=3)
    assert [learning_rate(constant, step, 0.5) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    cosine = OptimConfig(lr=1.0, schedule="cosine")
    assert learning_rate(cosine, 0, 0.0) == 1.0
    assert learning_rate(cosine, 9, 0.5) == pytest.approx(0.55)
    assert learning_rate(cosine, 9, 0.25) == pytest.approx(0.1 + 0.9 * (1 + cos(pi / 4)) / 2)
    assert learning_rate(cosine, 9, 1.0) == pytest.approx(0.1)


def test_tensorboard_gets_the_figures(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = replace(toy_config(tmp_path, epochs=1, batch=2), tensorboard=True)
    outcome, _ = trained(replace(config, data=replace(config.data, triplets=2)))
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert events.Scalars("map")[0].value == pytest.approx(outcome.start_map)
    assert [event.step for event in events.Scalars("loss")] == [1]
