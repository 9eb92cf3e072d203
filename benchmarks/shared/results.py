"""Results on disk: which machine they were measured on, where they are kept, and how they are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from visil.bench.results import machine

__all__ = ["RESULTS", "as_text", "keep", "machine", "write"]

RESULTS = Path(__file__).parents[1] / "results"
WIDTH = 160
"""Characters of a line, where it can be broken."""
ROW_WIDTH = 800
"""Characters of a line that is a row of a table."""
DIGITS = 6
"""Of numbers, the significant ones."""


def keep(name: str, result: dict[str, object]) -> Path:
    """Write a result with its machine to ``results/name.json``."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    write(path, {"machine": machine(), **result})
    print(f"kept in {path.relative_to(RESULTS.parent)}")
    return path


def write(path: Path, result: object) -> None:
    """Write a result as JSON with one row of a table to a line."""
    path.write_text(as_text(result) + "\n", "utf-8")


def as_text(result: object) -> str:
    """JSON that people can read: a row of a table, or whatever fits, is one line; the rest is spread over lines."""
    return _spread(_rounded(result), "\n")


def _spread(value: Any, newline: str) -> str:
    parts = _values(value)
    width = ROW_WIDTH if len(parts) > 2 and all(isinstance(part, dict) for part in parts) else WIDTH
    deeper = newline + " "
    lines = []
    for part in parts:
        line = json.dumps(part, ensure_ascii=False)
        nested = isinstance(part, dict | list) and any(isinstance(p, dict | list) for p in _values(part))
        lines.append(_spread(part, deeper) if nested and len(line) > width else line)
    if isinstance(value, dict):
        lines = [f"{json.dumps(k, ensure_ascii=False)}: {line}" for k, line in zip(value, lines, strict=True)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return first + deeper + ("," + deeper).join(lines) + newline + last


def _values(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
