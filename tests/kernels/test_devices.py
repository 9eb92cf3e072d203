"""Where a model computes: by argument, by option, by environment."""

from __future__ import annotations

import os

import pytest
import torch
import typer.main

from visil.cli.app import app
from visil.cli.options import DEVICE_VARIABLE, PRECISION_VARIABLE, choose_device
from visil.compare.loading import load
from visil.errors import UsageError
from visil.kernels.devices import VARIABLE as KNOWN
from visil.kernels.devices import chosen_device
from visil.kernels.precision import VARIABLE as KNOWN_PRECISION


def test_the_variable_counts_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DEVICE_VARIABLE == KNOWN
    monkeypatch.delenv(DEVICE_VARIABLE, raising=False)
    assert chosen_device() == torch.device("cpu")
    monkeypatch.setenv(DEVICE_VARIABLE, "abacus")
    with pytest.raises(UsageError, match="VISIL_DEVICE: unknown device 'abacus': choose auto, cpu or cuda"):
        load()
    assert chosen_device("cpu") == torch.device("cpu")
    choose_device(None)
    assert os.environ[DEVICE_VARIABLE] == "abacus"
    choose_device("cpu")
    assert load().device == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="device cuda:3 was asked for, but torch finds no GPU: choose cpu"):
        chosen_device("cuda:3")
    monkeypatch.setenv(DEVICE_VARIABLE, "auto")
    assert chosen_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["add", "compare", "duplicates", "evaluate", "search", "serve"])
def test_commands_that_compute_have_the_option(name: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    option = next(p for p in commands[name].params if p.name == "device")
    assert "--device" in option.opts
    assert option.envvar == DEVICE_VARIABLE


@pytest.mark.parametrize("name", ["compare", "duplicates", "evaluate", "search"])
def test_commands_that_compare_have_a_precision(name: str) -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    option = next(p for p in commands[name].params if p.name == "precision")
    assert "--precision" in option.opts
    assert option.envvar == PRECISION_VARIABLE == KNOWN_PRECISION


def test_a_precision_that_the_device_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVICE_VARIABLE, "cpu")
    monkeypatch.setenv(PRECISION_VARIABLE, "fp32")
    assert load(precision="bf16").scorer().arithmetic == "bf16"
    choose_device(None, "fp8")
    line = "--precision or VISIL_PRECISION must be one of auto, fp32, bf16, int8 on cpu, not 'fp8'"
    with pytest.raises(UsageError, match=line):
        load()
    assert load(precision="fp32").scorer().arithmetic == "fp32"
    with pytest.raises(
        UsageError, match="precision must be one of auto, fp32, bf16, int8 on cpu, not 'fp16'"
    ):
        load(precision="fp16")
