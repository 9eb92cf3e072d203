"""The tables of a finished ablation as Markdown: mAP by copy set beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visil.paper.ablation import TABLES, VARIANTS, paper_dsvr

COLUMNS = ("easy", "hard", "all", "look-alikes")


def markdown(result: Mapping[str, Any]) -> str:
    """All tables of what has been run so far."""
    rows: Mapping[str, Any] = result["rows"]
    sets = list(dict.fromkeys(name for row in rows.values() for name in row["mAP"]))
    heads = [f"{name}, {column}" if len(sets) > 1 else column for name in sets for column in COLUMNS]
    theirs = paper_dsvr()  # on FIVR-5K: another set, so only the order can be compared
    parts = [_how(result["settings"])] if "settings" in result else []
    for title, lines in TABLES.items():
        shown = {label: name for label, name in lines.items() if name in rows}
        if not shown:
            continue
        parts.append(f"## {title}\n")
        parts.append(f"| mAP by CS_v | {' | '.join(heads)} | the paper's DSVR |")
        parts.append("|---|" + "---|" * (len(heads) + 1))
        for label, name in shown.items():
            figures = [_figure(rows[name]["mAP"].get(s, {}), column) for s in sets for column in COLUMNS]
            paper = f"{theirs[name]:.3f}" if name in theirs else ""
            parts.append(f"| {label} | {' | '.join(figures)} | {paper} |")
        parts.append("")
    return "\n".join(parts)


def _how(settings: Mapping[str, Any]) -> str:
    """How rows were trained, beside the paper's."""
    others = f"f+W+A {VARIANTS['f+W+A'].lr:g}"
    return (
        f"{settings['epochs']} epochs of {settings['triplets']} triplets (new ones for {settings['distinct']} epochs, "
        f"then again), batches of {settings['batch']}, Adam at {settings['lr']:g} ({others}) with cosine decay, "
        f"clips strung together by up to {settings['strings']}, {settings['dim']} channels, seed {settings['seed']}; "
        "the paper: 100 epochs of 2,000, one at a time, 1e-5. ±: standard error over queries.\n"
    )


def _figure(figures: Mapping[str, Any], column: str) -> str:
    if column not in figures:
        return ""
    error = f" ± {figures['error']:.3f}" if column == "all" else ""
    return f"{figures[column]:.3f}{error}"
