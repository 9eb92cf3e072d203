"""Fit and judge ``confidence``: from what a stretch shows to the probability that it is shared footage.

    python benchmarks/copyset.py FOOTAGE COPYSET --wide …           # of validation sources; and
    python benchmarks/pair_cases.py make DATA CASES
    python benchmarks/calibrate.py FEATURES --set COPYSET --cases CASES [--model MODEL] [--write-model FOLDER]

Every query of a set with every video of its database, each pair alone; every pair case of the validation split, by a
frame a second and by a closer look. The threshold at which a map is neutral is chosen first (``--thresholds``), then
the curve is fitted (``shared/curve_fit.py``). Every pair is judged by a curve fitted without its sources, a fifth of
them left out in turn; the limits of "copy" and "related" are set by the false alarms of those. The curve that is kept
is fitted on all. FEATURES keeps what was embedded, by model. Writes results/calibration.json and docs/reliability.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import visil
from shared.curve_fit import confidence, fit, left_out, logit, with_limits
from shared.pair_samples import Sample, from_cases, from_set, opened
from shared.reliability import draw, reliability
from shared.results import RESULTS, keep
from visil.errors import VisilError
from visil.matching.calibration import Calibration

COPY_ALARMS = 5e-5
RELATED_ALARMS = 0.01
FOLDS = 5


def collected(
    model: visil.ViSiL, sets: Sequence[Path], cases: Path | None, features: Path, threshold: float | None
) -> list[Sample]:
    """All pairs, as a model with that threshold shows them."""
    opened(model)
    if threshold is not None:
        model.config = replace(
            model.config, localize=replace(model.config.localize, threshold=threshold, faint=None)
        )
    samples = [sample for copyset in sets for sample in from_set(model, copyset, features)]
    if cases is not None:
        samples += list(from_cases(model, cases, "validation"))
    return samples


def found_at(samples: Sequence[Sample], curve: Calibration, one_in: int) -> dict[str, float]:
    """By half, the share of true pairs of sets with more evidence than all strangers but one in so many."""
    inside = [one for one in samples if one.group == "set"]
    strangers = np.sort([logit(curve, one, ranking=True) for one in inside if not one.related])[::-1]
    if not len(strangers):
        return {}
    bar = strangers[min(len(strangers) - 1, len(strangers) // one_in)]
    kinds = sorted({one.kind for one in inside if one.related})
    return {
        kind: float(
            np.mean(
                [logit(curve, one, ranking=True) > bar for one in inside if one.related and one.kind == kind]
            )
        )
        for kind in kinds
    }


def by_kind(
    samples: Sequence[Sample], values: NDArray[np.float64], curve: Calibration
) -> list[dict[str, object]]:
    """What is called what, by kind of footage and family of cases; each pair judged without its sources."""
    rows = []
    for group, related, kind in sorted({(one.group, one.related, one.kind) for one in samples}):
        sure = values[[(one.group, one.related, one.kind) == (group, related, kind) for one in samples]]
        rows.append(
            {
                "kind": kind,
                "of": group,
                "shares footage": related,
                "pairs": len(sure),
                "copy": round(float((sure >= curve.copy).mean()), 4),
                "copy or related": round(float((sure >= curve.related).mean()), 4),
                "from 0.5": int((sure >= 0.5).sum()),
            }
        )
    return rows


def main() -> None:
    """Choose the threshold, fit the curve, judge it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("features", type=Path)
    parser.add_argument("--set", dest="sets", type=Path, action="append", default=[], metavar="COPYSET")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--thresholds", type=float, nargs="*", default=[None], help="those to choose from")
    parser.add_argument("--write-model", type=Path)
    args = parser.parse_args()
    try:
        _calibrate(args)
    except VisilError as error:
        sys.exit(f"error: {error}")


def _calibrate(args: argparse.Namespace) -> None:
    tried: list[tuple[float, float | None, list[Sample]]] = []
    model = visil.load(args.model)
    for threshold in args.thresholds:
        # Cases need files decoded, which takes long: they do not help to choose.
        cases = args.cases if len(args.thresholds) == 1 else None
        samples = collected(model, args.sets, cases, args.features, threshold)
        found = found_at(samples, fit(samples), 1000)
        tried.append((float(np.mean(list(found.values()))), threshold, samples))
        print(f"threshold {threshold}: found at one false alarm in 1,000: {found}", flush=True)
    _, threshold, samples = max(tried, key=lambda one: one[0])
    if len(args.thresholds) > 1:
        samples = collected(model, args.sets, args.cases, args.features, threshold)
    values = left_out(samples, FOLDS)
    curve = with_limits(fit(samples), samples, values, COPY_ALARMS, RELATED_ALARMS)
    related = np.array([one.related for one in samples])
    bins = reliability(values, related)
    keep(
        "calibration",
        {
            "model": model.config.name,
            "threshold": model.config.localize.threshold,
            "calibration": asdict(curve),
            "found at one false alarm in 1,000": found_at(samples, curve, 1000),
            "found at one false alarm in 10,000": found_at(samples, curve, 10000),
            "sources left out": by_kind(samples, values, curve),
            "reliability": bins,
        },
    )
    print(
        f"fitted on all: {sum(confidence(curve, s) >= curve.copy for s in samples if not s.related)} false copies"
    )
    title = "Reliability on sources left out (number of pairs)"
    draw({"all": bins}, RESULTS.parent.parent / "docs" / "reliability.png", title)
    if args.write_model is not None:
        model.config = replace(model.config, calibration=curve)
        model.save_pretrained(args.write_model)


if __name__ == "__main__":
    main()
