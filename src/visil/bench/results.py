"""All measurements of this machine, section by section, with what a reader needs to judge them, and their file."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from visil.errors import FileError, UsageError
from visil.files import replacing


@dataclass(frozen=True)
class Measurement:
    """A speed or a size, beside that of the plain formula measured in the same process."""

    name: str
    value: float
    unit: str
    plain: float | None = None
    """The same by the plain formula."""
    ratio: float | None = None
    """How many times better; None: nothing to compare with."""
    note: str = ""


Sections = Mapping[str, Callable[[], Iterator[Measurement]]]


def sections(device: str | None = None) -> dict[str, Sections]:
    """The measurements possible here: by device, by section; ``device``: of that one alone."""
    import torch

    if device not in (None, "cpu", "gpu"):
        raise UsageError(f"--device must be cpu or gpu, not {device!r}")
    found: dict[str, Sections] = {}
    if device in (None, "cpu"):
        from visil.bench import cpu

        found["cpu"] = cpu.SECTIONS
    if device in (None, "gpu") and torch.cuda.is_available():
        from visil.kernels.devices import has_kernels, why_no_kernels

        if not has_kernels(torch.device("cuda")):
            raise UsageError(f"this GPU cannot run the kernels: {why_no_kernels(torch.device('cuda'))}")
        from visil.bench import gpu

        found["gpu"] = gpu.SECTIONS
    if device == "gpu" and not found:
        raise UsageError("torch sees no GPU here: run on the CPU, or install a torch built for it")
    return found


def measured(
    chosen: Mapping[str, Sections], on_section: Callable[[str, str], None], only: Iterable[str] = ()
) -> dict[str, Any]:
    """Every measurement; ``on_section`` is called with each section's name. ``only``: parts of sections' names."""
    wanted = [part.lower() for part in only]
    result: dict[str, Any] = {"machine": machine()}
    for device, parts in chosen.items():
        for name, measurements in parts.items():
            if wanted and not any(part in name.lower() for part in wanted):
                continue
            on_section(device, name)
            result.setdefault(device, {})[name] = [asdict(one) for one in measurements()]
    if len(result) == 1:
        known = ", ".join(name for parts in chosen.values() for name in parts)
        raise UsageError(f"no section is called so: there are {known}")
    return result


def write(result: Mapping[str, Any], path: Path) -> None:
    """As JSON, whole or not at all."""
    with replacing(path) as fresh:
        fresh.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


def read(path: Path) -> dict[str, Any]:
    """Read a file of :func:`write`."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if "machine" not in found:
            raise ValueError("no machine in it")
    except (OSError, ValueError) as error:
        raise FileError(path, f"is not a result of visil bench ({error})") from error
    return found


def machine() -> dict[str, object]:
    """Processor, cores, GPU, versions."""
    import torch

    from visil.machine.processor import usable_cores

    return {
        "processor": _processor(),
        "cores": usable_cores(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "av": _version("av"),
    }


def _version(package: str) -> str | None:
    """None where it is not installed: the kernels alone can be measured without PyAV."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())
