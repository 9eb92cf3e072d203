"""The machine a result was measured on, and where results are kept."""

from __future__ import annotations

import json
from pathlib import Path

from visil.bench.machine import machine

__all__ = ["RESULTS", "keep", "machine"]

RESULTS = Path(__file__).parent / "results"


def keep(name: str, result: dict[str, object]) -> Path:
    """Write a result with its machine to ``results/name.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **result}, indent=2) + "\n")
    print(f"kept in {path.relative_to(RESULTS.parent)}")
    return path
