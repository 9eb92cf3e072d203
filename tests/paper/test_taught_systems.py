"""Learned baselines are taught once: in a run, with and without query expansion, and over runs in one folder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from toy_bench import small_experiment, write_clips
from visil.errors import FileError
from visil.evaluation.predictions import Predictions
from visil.paper.baselines import registry
from visil.paper.baselines.dml import DML
from visil.paper.baselines.lamv import LAMV, LamvTraining
from visil.paper.baselines.lbow import LBoW
from visil.paper.baselines.vrel import VReL
from visil.paper.experiment import Experiment

SHORT: dict[str, dict[str, Any]] = {
    "DML": {"layers": (16, 8), "triplets": 4, "epochs": 1, "batch": 2},
    "VReL": {"width": 8, "steps": 2, "batch": 2},
    "LAMV": {"training": LamvTraining(steps=2, batch=2)},
}
NAMES = ("LAMV", "LAMV+QE", "DML+QE", "DML", "VReL", "LBoW")


@pytest.fixture
def taught(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the systems that were taught, one for each time."""
    names: list[str] = []

    def counted(kind: Any) -> None:
        learn = kind.learn

        def learning(made: Any, *given: Any, **options: Any) -> None:
            names.append(made.name)
            learn(made, *given, **options)

        monkeypatch.setattr(kind, "learn", learning)

    for kind in (DML, VReL, LAMV, LBoW):
        counted(kind)
    for name, options in SHORT.items():
        monkeypatch.setitem(registry.QUICK, name, options)
    return names


def test_what_triplets_taught_is_used_again(tmp_path: Path, taught: list[str]) -> None:
    clips, out = write_clips(tmp_path / "clips", 8), tmp_path / "out"

    def scores(made: Experiment) -> list[list[float]]:
        found: list[Predictions] = [made.predictions(name) for name in NAMES]
        return [one.scores[query].values.tolist() for one in found for query in one.scores]

    first = scores(small_experiment(clips, out))
    assert taught == ["LAMV", "DML", "VReL", "LBoW"]
    shutil.rmtree(out / "cache" / "scores")
    taught.clear()
    assert scores(small_experiment(clips, out)) == first
    assert taught == ["LBoW"]
    shutil.rmtree(out / "cache" / "scores")
    taught.clear()
    small_experiment(clips, out, seed=1).predictions("LAMV")  # of another seed are other lessons
    assert taught == ["LAMV"]
    for file in (out / "models").glob("DML-*.safetensors"):
        file.write_bytes(b"junk")
    with pytest.raises(FileError, match=r"DML-.*is damaged: delete it and run again"):
        small_experiment(clips, out).predictions("DML")
