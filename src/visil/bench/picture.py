"""The picture of ``visil bench``: time of a pair against length, and speeds beside the plain formulas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from visil.files import replacing

PUBLISHED = 1.6
"""Thousand pairs of 103 frames a second at C=512 by the authors' code on one H200 (docs/performance.md)."""

PAIR = "time of a pair of "


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Write the picture; sections that were not measured are left out."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for device in ("cpu", "gpu"):
        rows = [row for rows in result.get(device, {}).values() for row in rows]
        timed = [row for row in rows if row["name"].startswith(PAIR)]
        lengths = [int(row["name"].removeprefix(PAIR).split()[0]) for row in timed]
        if timed:
            left.plot(lengths, [_seconds(row, "value") for row in timed], "o-", label=f"visil, {device}")
            known = [
                (n, _seconds(row, "plain")) for n, row in zip(lengths, timed, strict=True) if row["plain"]
            ]
            left.plot(*zip(*known, strict=True), "o:", label=f"plain formula, {device}")
    left.set(xscale="log", yscale="log", xlabel="frames of each video", ylabel="seconds a pair")
    left.grid(alpha=0.3)
    if left.lines:
        left.legend(frameon=False, fontsize=8)
    names, speeds = _speeds(result)
    right.barh(names, speeds, color=["C7" if "formula" in n or "authors" in n else "C0" for n in names])
    right.set(xscale="log", xlabel="pairs of 103 frames a second")
    right.tick_params(labelsize=8)
    for place, speed in enumerate(speeds):
        right.annotate(f" {speed:,.0f}", (speed, place), va="center", fontsize=8)
    right.margins(x=0.25)
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=110)


def draw_end_to_end(result: Mapping[str, Any], path: Path) -> None:
    """Write the picture of ``--end-to-end``: samples a second by workers, and how each step scales."""
    from matplotlib.figure import Figure

    rows = result["end to end"]["rows"]
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)

    def of(what: str, device: str) -> list[Mapping[str, Any]]:
        return [row for row in rows if (row["what"], row["device"]) == (what, device)]

    for what, device, label in (
        ("decode", "cpu", "decoding alone"),
        ("add", "cpu", "add, on the processor"),
        ("add", "gpu", "add, with a GPU"),
    ):
        if found := of(what, device):
            speeds = [row["samples"] / row["seconds"] for row in found]
            left.plot([row["workers"] for row in found], speeds, "o-", label=label)
    for what in ("decode", "add", "search", "duplicates"):
        if found := of(what, "cpu"):
            workers = [row["workers"] for row in found]
            right.plot(workers, [row["efficiency"] * row["workers"] for row in found], "o-", label=what)
    ticks = sorted({row["workers"] for row in rows})
    right.plot(ticks, ticks, ":", color="C7", label="n times one")
    right.plot(ticks, [0.75 * n for n in ticks], "--", color="C7", label="0.75 of that")
    left.set(ylabel="samples a second")
    right.set(ylabel="times the work of one worker, on the processor")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="workers")
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    right.set_yticks(ticks, [str(tick) for tick in ticks])
    with replacing(path) as fresh:
        figure.savefig(fresh, dpi=110)


def _seconds(row: Mapping[str, Any], name: str) -> float:
    return float(row[name]) * {"µs": 1e-6, "ms": 1e-3, "s": 1.0}[row["unit"]]


def _speeds(result: Mapping[str, Any]) -> tuple[list[str], list[float]]:
    """Pairs a second with the comparator at nine regions and 512 channels, slowest first."""
    found: dict[str, float] = {}
    for row in (row for rows in result.get("cpu", {}).values() for row in rows):
        if row["unit"] == "pairs/s" and "comparator" in row["name"]:
            found[f"CPU, {row['name'].split(',')[0]}"] = row["value"]
            if row["plain"]:
                found["CPU, plain formula"] = row["plain"]
    for row in result.get("gpu", {}).get("end to end", []):
        found[f"GPU, {row['name'].split(':')[0]}"] = row["value"] * 1e3
        found["GPU, plain formula"] = row["plain"] * 1e3
        found["GPU, the authors' code"] = PUBLISHED * 1e3
    ordered = sorted(found.items(), key=lambda item: item[1])
    return [name for name, _ in ordered], [speed for _, speed in ordered]
