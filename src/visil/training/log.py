"""The log of a run, for people and programs: JSON lines in the output folder, TensorBoard where asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from visil.errors import UsageError
from visil.files import make_folder, replacing

FILE = "log.jsonl"


class Log:
    """One JSON object a line; on resuming, lines from after the checkpoint are dropped, since they come again.

    Without a folder nothing is written.
    """

    def __init__(self, folder: Path | None, step: int, *, tensorboard: bool = False) -> None:
        self.path = folder / FILE if folder is not None else None
        self._scalars = _scalars(folder, step) if folder is not None and tensorboard else None
        if folder is not None and self.path is not None:
            make_folder(folder, "the output folder")
            kept = [line for line in _lines(self.path) if _step(line) <= step] if step else []
            with replacing(self.path) as fresh:
                fresh.write_text("".join(f"{line}\n" for line in kept), "utf-8")

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._scalars is not None:
            self._scalars.close()

    def write(self, values: dict[str, Any] | None) -> None:
        """Add a line, where there is one; numbers become scalars under their names."""
        if self.path is None or values is None:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
        if self._scalars is not None:
            for name in values.keys() - {"epoch", "step"}:
                self._scalars.add_scalar(name, values[name], values["step"])


def _scalars(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise UsageError(
            "tensorboard is not installed: pip install 'visil[train]', or leave it off"
        ) from None
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return []


def _step(line: str) -> float:
    """The step a line tells of; one that was cut off belongs to none."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")
