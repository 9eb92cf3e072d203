"""The machine a result was measured on, and where results are kept."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, object]:
    """Processor, cores, versions: what a reader needs to judge a figure."""
    import av
    import torch

    processor = next(
        (line.split(":", 1)[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "gpu": gpu,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "av": av.__version__,
    }


def keep(name: str, result: dict[str, object]) -> Path:
    """Write a result with its machine to ``results/name.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **result}, indent=2) + "\n")
    print(f"kept in {path.relative_to(RESULTS.parent)}")
    return path


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
