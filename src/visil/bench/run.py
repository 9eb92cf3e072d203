"""All of a machine's measurements, section by section, and the file and the picture they are kept in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visil.bench.machine import machine
from visil.bench.rows import Row
from visil.errors import FileError, UsageError
from visil.files import replacing

Sections = Mapping[str, Callable[[], Iterator[Row]]]


def sections(device: str | None = None) -> dict[str, Sections]:
    """What can be measured here: by device, by section; ``device``: of that one alone."""
    import torch

    if device not in (None, "cpu", "gpu"):
        raise UsageError(f"--device must be cpu or gpu, not {device!r}")
    found: dict[str, Sections] = {}
    if device in (None, "cpu"):
        from visil.bench import cpu

        found["cpu"] = cpu.SECTIONS
    if device in (None, "gpu") and torch.cuda.is_available():
        from visil.kernels.gpu import usable, why_not

        if not usable(torch.device("cuda")):
            raise UsageError(f"this GPU cannot run the kernels: {why_not(torch.device('cuda'))}")
        from visil.bench import gpu

        found["gpu"] = gpu.SECTIONS
    if device == "gpu" and not found:
        raise UsageError("torch sees no GPU here: run on the CPU, or install a torch built for it")
    return found


def measured(
    chosen: Mapping[str, Sections], on_section: Callable[[str, str], None], only: Iterable[str] = ()
) -> dict[str, Any]:
    """Every row; ``on_section`` is told what is measured next. ``only``: parts of the sections' names."""
    wanted = [part.lower() for part in only]
    result: dict[str, Any] = {"machine": machine()}
    for device, parts in chosen.items():
        for name, rows in parts.items():
            if wanted and not any(part in name.lower() for part in wanted):
                continue
            on_section(device, name)
            result.setdefault(device, {})[name] = [asdict(row) for row in rows()]
    if len(result) == 1:
        known = ", ".join(name for parts in chosen.values() for name in parts)
        raise UsageError(f"no section is called so: there are {known}")
    return result


def write(result: Mapping[str, Any], path: Path) -> None:
    """As JSON, whole or not at all."""
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def read(path: Path) -> dict[str, Any]:
    """What :func:`write` wrote."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if "machine" not in found:
            raise ValueError("no machine in it")
    except (OSError, ValueError) as error:
        raise FileError(path, f"is not a result of visil bench ({error})") from error
    return found
