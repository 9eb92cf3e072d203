"""The rows of the paper's ablation and where each stands: Table 3, Table 4, and the supplementary's three curves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from visil.model.config import ViSiLConfig
from visil.model.presets import VISIL_F, VISIL_F_W, VISIL_F_W_A, VISIL_SYM, VISIL_V

BACKBONE = "efficientnet-lite0"


@dataclass(frozen=True)
class Row:
    """One model: a preset of the paper, and how it is trained where there is something to train."""

    preset: ViSiLConfig = VISIL_V
    margin: float = 0.5
    """γ of Eq. 7."""
    regularisation: float = 0.1
    """r of Eq. 9."""
    window: int = 64
    """W, frames of a snippet."""
    lr: float | None = None
    """None: as for all rows."""
    epochs: int | None = None
    """None: as for all rows."""
    seed: int = 0
    """Of the parts that learn."""
    joined: bool = False
    """Clips joined into videos of minutes, and the paper's own triplets of them: all of a snippet can be shared."""

    @property
    def trained(self) -> bool:
        """Whether anything in it learns."""
        return self.preset.attention is not None or self.preset.comparator is not None

    def config(self, dim: int) -> ViSiLConfig:
        """The preset on the table's backbone and at its width."""
        return self.preset.replaced(backbone=BACKBONE, dim=dim if self.preset.dim is not None else None)


ROWS = {
    "f": Row(VISIL_F),
    "f+W": Row(VISIL_F_W),
    "f+W+A": Row(VISIL_F_W_A, lr=1e-2),
    "sym": Row(VISIL_SYM),
    "v": Row(),
    "r=0": Row(regularisation=0.0),
    "gamma=0.25": Row(margin=0.25),
    "gamma=0.75": Row(margin=0.75),
    "gamma=1": Row(margin=1.0),
    "W=16": Row(window=16),
    "W=32": Row(window=32),
    "r=1": Row(regularisation=1.0),
    "r=0.05": Row(regularisation=0.05),
    "r=0.5": Row(regularisation=0.5),
    "W=96": Row(window=96),
    "joined, W=16": Row(window=16, joined=True),
    "joined, W=32": Row(window=32, joined=True),
    "joined, W=64": Row(joined=True),
    "joined, W=96": Row(window=96, joined=True),
    "v, seed 1": Row(seed=1),
    "v, seed 2": Row(seed=2),
    "W=16, seed 1": Row(window=16, seed=1),
    "W=16, seed 2": Row(window=16, seed=2),
    "joined, W=16, seed 1": Row(window=16, joined=True, seed=1),
    "joined, W=64, seed 1": Row(joined=True, seed=1),
    "joined, W=16, seed 2": Row(window=16, joined=True, seed=2),
    "joined, W=64, seed 2": Row(joined=True, seed=2),
    "lr 3e-4": Row(lr=3e-4),
    "lr 1e-4": Row(lr=1e-4),
    "sym, seed 1": Row(VISIL_SYM, seed=1),
    "r=0, seed 1": Row(regularisation=0.0, seed=1),
    "gamma=0.25, seed 1": Row(margin=0.25, seed=1),
    "gamma=1, seed 1": Row(margin=1.0, seed=1),
}
"""In the order they are run: what a run that is cut short misses are points of a curve."""

TABLES: dict[str, dict[str, str]] = {
    "Table 3: components": {
        "ViSiL_f": "f",
        "ViSiL_f+W": "f+W",
        "ViSiL_f+W+A": "f+W+A",
        "ViSiL_sym": "sym",
        "ViSiL_v": "v",
    },
    "Table 4: similarity regularisation": {"without L_reg": "r=0", "with L_reg": "v"},
    "Margin γ": {"0.25": "gamma=0.25", "0.5": "v", "0.75": "gamma=0.75", "1": "gamma=1"},
    "Regularisation r": {"0": "r=0", "0.05": "r=0.05", "0.1": "v", "0.5": "r=0.5", "1": "r=1"},
    "Snippets W": {"16": "W=16", "32": "W=32", "64": "v", "96": "W=96"},
    "Snippets W of videos of minutes": {
        "16": "joined, W=16",
        "32": "joined, W=32",
        "64": "joined, W=64",
        "96": "joined, W=96",
    },
    "Other seeds": {name: name for name in ROWS if "seed" in name},
    "Other rates": {"1e-4": "lr 1e-4", "3e-4": "lr 3e-4", "1e-3": "v"},
}
"""Each table's lines, and the row that each shows."""

PAPER = {"f": 0.838, "f+W": 0.844, "f+W+A": 0.856, "sym": 0.830, "v": 0.880, "r=0": 0.859}
"""mAP in the paper, FIVR-5K, DSVR: another set, so only the order can be compared."""

COLUMNS = ("easy", "hard", "all", "look-alikes")


def markdown(result: Mapping[str, Any]) -> str:
    """All tables of what has been run so far."""
    rows: Mapping[str, Any] = result["rows"]
    sets = list(dict.fromkeys(name for row in rows.values() for name in row["mAP"]))
    heads = [f"{name}, {column}" if len(sets) > 1 else column for name in sets for column in COLUMNS]
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
            paper = f"{PAPER[name]:.3f}" if name in PAPER else ""
            parts.append(f"| {label} | {' | '.join(figures)} | {paper} |")
        parts.append("")
    return "\n".join(parts)


def _how(settings: Mapping[str, Any]) -> str:
    """How rows were trained, beside the paper's."""
    others = f"f+W+A {ROWS['f+W+A'].lr:g}"
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
