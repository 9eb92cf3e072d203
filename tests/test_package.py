"""The front door: quick to import, everything listed is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import visil

SRC = Path(visil.__file__).parents[1]
HEAVY = ("torch", "av", "matplotlib", "numpy", "PIL", "safetensors", "huggingface_hub", "typer", "rich")


def python(*arguments: str) -> str:
    """A fresh interpreter that sees this package."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def imported_by(statement: str) -> set[str]:
    loaded = json.loads(python("-c", f"import sys, json; {statement}; print(json.dumps(list(sys.modules)))"))
    return {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_importing_visil_imports_nothing_heavy() -> None:
    assert imported_by("import visil") == set()


def test_errors_can_be_caught_without_the_networks() -> None:
    assert "torch" not in imported_by("from visil import VideoError, ModelError, UsageError")


def test_the_heavy_part_comes_on_first_use() -> None:
    loaded = imported_by("import visil; visil.ViSiL")
    assert "torch" in loaded
    assert not loaded & {"av", "matplotlib", "huggingface_hub"}


def test_import_is_silent_under_strict_warnings() -> None:
    assert python("-W", "error", "-c", "import visil") == ""


def test_everything_listed_is_there() -> None:
    for name in visil.__all__:
        assert getattr(visil, name).__name__ == name
    assert visil.__all__ == sorted(visil.__all__, key=str)
    assert set(visil.__all__) <= set(dir(visil))


def test_what_the_interface_promises_of_the_core() -> None:
    assert {"load", "ViSiL", "VideoFeatures", "Match", "Segment"} <= set(visil.__all__)


def test_version_is_the_projects() -> None:
    project = (SRC.parent / "pyproject.toml").read_text("utf-8")
    assert f'\nversion = "{visil.__version__}"\n' in project


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        visil.nothing  # noqa: B018


def test_one_base_for_every_error() -> None:
    for error in (visil.VideoError, visil.ModelError, visil.UsageError):
        assert issubclass(error, visil.VisilError)
    assert issubclass(visil.UsageError, ValueError)
    assert str(visil.VideoError("a\nb.mp4", "no video stream")) == r"a\nb.mp4: no video stream"
