"""Two processes against one: the same gradients, the same validation, files from one of them only."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import toy_training
from toy_training import toy_config, toy_model, toy_trainer
from visil.errors import UsageError
from visil.kernels.devices import chosen_device
from visil.machine import processes
from visil.training.config import TrainConfig
from visil.training.distributed import Processes, joined

TRIPLETS = 5
"""An odd number: the two processes do not have equal shares."""

LAUNCH = """
import sys
from pathlib import Path
import torch
import torch._dynamo  # as an optimiser's first step does: once here, and not in both processes
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
torch.set_num_threads(1)
sys.path[:0] = sys.argv[2:4]
from test_distributed import one_step
from toy_training import toy_model, toy_trainer
from visil.training.distributed import joined

folder = Path(sys.argv[1])

def work():
    with joined("cpu") as processes:
        trainer = toy_trainer(one_step(folder / "out"), toy_model(), processes, videos=4)
        outcome = trainer.run()
        gradients = {name: tensor.grad for name, tensor in trainer.objective.learning.items()}
        torch.save({"gradients": gradients, "start": outcome.start_map}, folder / f"{processes.rank}.pt")

toy_model()
settings = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0", "max_restarts": 0, "start_method": "fork"}
elastic_launch(LaunchConfig(1, 1, 2, run_id="toy", **settings), work)()
"""
"""What torchrun does, with processes that are forked and so need not import everything anew."""


def one_step(out: Path) -> TrainConfig:
    config = toy_config(out, epochs=1, batch=TRIPLETS)
    return replace(config, data=replace(config.data, triplets=TRIPLETS))


def test_two_processes_learn_as_one(tmp_path: Path) -> None:
    folders = (tmp_path, Path(__file__).parent, Path(toy_training.__file__).parent)
    done = subprocess.run(
        processes.python("-c", LAUNCH, *map(str, folders)),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    trainer = toy_trainer(one_step(tmp_path / "alone"), toy_model(), videos=4)
    outcome = trainer.run()
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert found["start"] == pytest.approx(outcome.start_map, abs=1e-12)
        for name, tensor in trainer.objective.learning.items():
            assert tensor.grad is not None
            torch.testing.assert_close(found["gradients"][name], tensor.grad, rtol=0, atol=1e-6)
    logs = [
        [json.loads(line) for line in (tmp_path / folder / "log.jsonl").read_text().splitlines()]
        for folder in ("out", "alone")
    ]
    assert len(logs[0]) == len(logs[1]) == 2
    for figure in ("loss", "positive", "negative", "map"):
        assert logs[0][1][figure] == pytest.approx(logs[1][1][figure], abs=1e-5)


def test_shares_cover_a_batch_once() -> None:
    shares = [Processes(rank, 3).mine(range(8)) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(8))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_alone_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with joined("cpu") as processes:
        assert (processes.first, processes.count) == (True, 1)
        assert processes.summed([1.0, 2.0]) == [1.0, 2.0]
        processes.wait()
    weight = torch.ones(2, requires_grad=True)
    weight.sum().backward()
    assert processes.sum_gradients({"weight": weight}, [3.0]) == [3.0]
    assert weight.grad is not None
    assert weight.grad.tolist() == [1, 1]


def test_more_processes_than_triplets(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"8 processes cannot share batches of 4: raise optim\.batch"):
        toy_trainer(toy_config(tmp_path), toy_model(), Processes(0, 8))


def test_devices() -> None:
    assert chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(UsageError, match="unknown device 'tpuu': choose auto, cpu or cuda"):
        chosen_device("tpuu")
    if not torch.cuda.is_available():
        assert chosen_device("auto") == torch.device("cpu")
        with pytest.raises(UsageError, match="torch finds no GPU"):
            chosen_device("cuda")
