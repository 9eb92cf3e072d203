"""Where a run stands, on disk: whole or not at all, the one before kept, and read without running any code in it."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from visil.errors import FileError
from visil.files import replacing_tensors

LAST, PREVIOUS = "last.pt", "previous.pt"

FORMAT = 1
"""Raised when an older reader could misread a checkpoint."""


def save_checkpoint(folder: Path, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write ``state`` (tensors, numbers, text, and lists and dicts of them) as the folder's last checkpoint.

    ``identity`` are settings and data, as JSON would hold them, which a run that goes on from it must share.
    """
    last = folder / LAST
    with replacing_tensors(last) as fresh:
        torch.save({"format": FORMAT, "identity": json.dumps(dict(identity)), **state}, fresh)
        with suppress(FileNotFoundError):
            os.replace(last, folder / PREVIOUS)


def load_checkpoint(
    folder: Path, identity: Mapping[str, Any], names: Sequence[str] = ()
) -> dict[str, Any] | None:
    """The folder's last checkpoint, or where that is gone the one before; None where there is none.

    ``names`` are those of the learning tensors, which the frame stage once left out of its checkpoints.
    """
    path = next((folder / name for name in (LAST, PREVIOUS) if (folder / name).exists()), None)
    if path is None:
        return None
    state = _read(path)
    _check_identity(path, json.loads(state["identity"]), json.loads(json.dumps(dict(identity))))
    return _with_names(state, names) if "learning" in state else state


def discard_checkpoints(folder: Path) -> None:
    """Start again: the folder's checkpoints go."""
    for name in (LAST, PREVIOUS):
        (folder / name).unlink(missing_ok=True)


def _with_names(state: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A checkpoint of the frame stage as it was written before it shared the trainer of videos."""
    tensors, step = state.pop("learning"), state.pop("step")
    named = dict(zip(names, tensors, strict=False))
    standing = {"epoch": 1, "batch": step, "step": step}
    return {**state, "model": named, "standing": standing, "scaler": {}, "random": torch.get_rng_state()}


def _read(path: Path) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(path) as archive:  # torch checks no sums
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or not isinstance(state.get("identity"), str):
            raise ValueError
        if state["format"] > FORMAT:
            raise FileError(path, "was written by a newer visil: upgrade to resume from it")
        return state
    except (
        zipfile.BadZipFile,
        RuntimeError,
        ValueError,
        KeyError,
        EOFError,
        pickle.UnpicklingError,
    ) as error:
        raise FileError(path, f"is damaged: {_way_out(path)}") from error
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error


def _way_out(path: Path) -> str:
    if path.name == LAST and path.with_name(PREVIOUS).exists():
        return f"delete it to go on from {PREVIOUS}, the checkpoint before"
    return "delete it to start again from the beginning"


def _check_identity(path: Path, was: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    for key in sorted(was.keys() | now.keys()):
        if was.get(key) != now.get(key):
            raise FileError(
                path,
                f"belongs to a run with {key} {json.dumps(was.get(key))}, not {json.dumps(now.get(key))}: "
                "choose another output folder, or --no-resume to start again in this one",
            )
