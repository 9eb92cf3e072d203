"""Fit and judge ``confidence``: score, best stretch and lengths to the probability that footage is shared.

    python benchmarks/pack_frames.py VIDEOS PACKS
    python benchmarks/calibrate.py PACKS [--write-model FOLDER]

Pairs of whole clips and of longer videos strung together from clips; related ones share an edited copy (or a part of
one), unrelated ones are from other sources. Clips of one folder (one set, one show) are judged apart, as look-alikes.
Half of the clips fit, the other half judge. Writes results/calibration.json and docs/reliability.png.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import visil
from shared.packs import embed_packs, random_cut
from shared.reliability import draw, reliability
from shared.results import RESULTS, keep
from visil.matching.calibration import Calibration

LOOK_ALIKE = "same source"
COPY_FALSE_ALARMS = 0.0005
RELATED_FALSE_ALARMS = 0.01


@dataclass(frozen=True)
class Sample:
    """What the curve sees of a pair, and whether it is related."""

    score: float
    stretch: float
    frame_pairs: int
    related: bool
    kind: str


class Footage:
    """Originals and their edited copies, as features."""

    def __init__(self, features: dict[str, Tensor], clips: list[str]) -> None:
        self.features = features
        self.clips = clips
        self.folders: dict[str, list[str]] = {}
        for clip in clips:
            self.folders.setdefault(clip.split("/")[0], []).append(clip)
        self.copies: dict[str, list[str]] = {}
        for name in sorted(features):
            if "|" in name and name.split("|")[0] in set(clips):
                self.copies.setdefault(name.split("|")[0], []).append(name)


def samples(model: visil.ViSiL, footage: Footage, count: int, rng: random.Random) -> list[Sample]:
    """``count`` related pairs of either form, and four times as many unrelated ones."""
    result = []
    queried = sorted(footage.copies)
    for i in range(count):
        copy = rng.choice(footage.copies[rng.choice(queried)])
        clip = copy.split("|")[0]
        vectors = footage.features[copy]
        first, last = random_cut(len(vectors), rng)
        part = vectors[first : last + 1]
        strength = copy.rsplit("|", 1)[1]
        for longer in (False, True):
            query, target = footage.features[clip], part
            if longer:
                query, target = (string(footage, v, {clip}, rng) for v in (query, target))
            if i % 2:
                query, target = target, query
            result.append(
                measured(model, query, target, True, f"{strength}, {'in longer' if longer else 'alone'}")
            )
    # Folders are sources: clips of one folder may show one scene without sharing footage, so unrelated pairs take one
    # side from the largest folder and the other from the rest. Look-alikes of one folder are judged apart.
    largest = max(footage.folders, key=lambda folder: len(footage.folders[folder]))
    inside = footage.folders[largest]
    outside = [clip for clip in footage.clips if clip not in set(inside)]
    for i in range(8 * count):
        sides = [(inside, rng.choice(inside)), (outside, rng.choice(outside))]
        rng.shuffle(sides)
        one, other = [
            string(footage, footage.features[clip], {clip}, rng, pool)
            if i % 4 == 3
            else footage.features[clip]
            for pool, clip in sides
        ]
        result.append(measured(model, one, other, False, "other source"))
    for _ in range(2 * count):
        folder = footage.folders[rng.choice(footage.clips).split("/")[0]]
        if len(folder) > 1:
            a, b = rng.sample(folder, 2)
            result.append(measured(model, footage.features[a], footage.features[b], False, LOOK_ALIKE))
    return result


def string(
    footage: Footage, vectors: Tensor, barred: set[str], rng: random.Random, pool: list[str] | None = None
) -> Tensor:
    """A clip among up to four others, which no other video of the pair may use: they are added to ``barred``."""
    others: list[Tensor] = []
    while len(others) < rng.randint(1, 4):
        other = rng.choice(pool or footage.clips)
        if other not in barred:
            barred.add(other)
            others.append(footage.features[other])
    parts = [vectors, *others]
    rng.shuffle(parts)
    return torch.cat(parts)


def measured(model: visil.ViSiL, query: Tensor, target: Tensor, related: bool, kind: str) -> Sample:
    """Compare one pair."""
    pair = [
        visil.VideoFeatures(v.float(), torch.arange(len(v), dtype=torch.float64)) for v in (query, target)
    ]
    match = model.compare(*pair)
    return Sample(match.score, match.stretch, len(query) * len(target), related, kind)


def without_doubles(data: list[Sample]) -> list[Sample]:
    """Without the look-alikes that are as strong as an ordinary mildly edited copy: those do share footage.

    Clips of one source now and then have an end card or a shot in common; nobody labelled them.
    """
    bar = float(np.median([s.stretch for s in data if s.kind.startswith("mild")]))
    return [s for s in data if s.kind != LOOK_ALIKE or s.stretch < bar]


def fit(data: list[Sample]) -> Calibration:
    """Logistic regression with signs held; related and unrelated pairs weigh the same in all."""
    cap = float(np.quantile([s.stretch for s in data if s.related], 0.9))
    x = torch.tensor(
        [[1, s.score, min(s.stretch, cap), -max(0.0, np.log10(s.frame_pairs) - 2)] for s in data],
        dtype=torch.float64,
    )
    y = torch.tensor([s.related for s in data], dtype=torch.float64)
    weight = torch.where(y > 0, 0.5 / y.sum(), 0.5 / (1 - y).sum())
    w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=500, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimiser.zero_grad()
        held = torch.cat([w[:1], w[1:].clamp(min=0)])
        losses = torch.nn.functional.binary_cross_entropy_with_logits(x @ held, y, reduction="none")
        loss = (losses * weight).sum() + 1e-7 * w[1:].square().sum()
        loss.backward()
        return float(loss.detach())

    optimiser.step(closure)
    bias, score, stretch, length = (round(v, 4) for v in w.detach().tolist())
    curve = Calibration(bias, max(score, 0), max(stretch, 0), round(cap, 4), max(length, 0))
    unrelated = np.sort([confidence(curve, s) for s in data if not s.related])
    copy, related = (
        float(np.ceil(1000 * unrelated[int(len(unrelated) * (1 - rate))]) / 1000)
        for rate in (COPY_FALSE_ALARMS, RELATED_FALSE_ALARMS)
    )
    return replace(curve, copy=min(max(copy, 0.9), 0.995), related=min(max(related, 0.3), 0.8))


def confidence(curve: Calibration, sample: Sample) -> float:
    """The curve at one pair."""
    return curve.confidence(sample.score, sample.stretch, sample.frame_pairs)


def judge(curve: Calibration, data: list[Sample]) -> dict[str, object]:
    """False alarms, finds by kind, and reliability, on pairs the curve was not fitted on."""
    every, data = data, [s for s in data if s.kind != LOOK_ALIKE]
    by_kind = {}
    for kind in sorted({s.kind for s in every}):
        sure = np.array([confidence(curve, s) for s in every if s.kind == kind])
        by_kind[kind] = {
            "pairs": len(sure),
            "copy": round(float((sure >= curve.copy).mean()), 4),
            "copy or related": round(float((sure >= curve.related).mean()), 4),
        }
    values = np.array([confidence(curve, s) for s in data])
    related = np.array([s.related for s in data])
    return {
        "unrelated called copy": float((values[~related] >= curve.copy).mean()),
        "unrelated called related or copy": float((values[~related] >= curve.related).mean()),
        "related called copy": float((values[related] >= curve.copy).mean()),
        "related called related or copy": float((values[related] >= curve.related).mean()),
        "by kind": by_kind,
        "reliability": reliability(values, related),
    }


def buried(
    model: visil.ViSiL, curve: Calibration, footage: Footage, rng: random.Random, count: int = 40
) -> dict[str, float]:
    """A few copied seconds in a longer query: mAP of finding the original, by CS_v alone and by the evidence."""
    by_score: list[float] = []
    by_evidence: list[float] = []
    for clip in rng.sample(sorted(footage.copies), min(count, len(footage.copies))):
        copy = footage.features[rng.choice(footage.copies[clip])][:5]
        barred = {clip}
        query = torch.cat([string(footage, copy, barred, rng), string(footage, copy[:0], barred, rng)])
        database = [c for c in footage.clips if c not in barred or c == clip]
        results = [measured(model, query, footage.features[c], c == clip, "") for c in database]
        for values, kept in (
            ([s.score for s in results], by_score),
            ([curve.evidence(s.score, s.stretch, s.frame_pairs) for s in results], by_evidence),
        ):
            order = np.array(values)
            kept.append(1 / float((order > order[database.index(clip)]).sum() + 1))
    return {
        "CS_v alone": float(np.mean(by_score)),
        "evidence": float(np.mean(by_evidence)),
        "queries": len(by_score),
    }


def main() -> None:
    """Fit on one half of the clips, judge on the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--pairs", type=int, default=600)
    parser.add_argument("--write-model", type=Path)
    args = parser.parse_args()
    model = visil.load(args.model)
    features = embed_packs(model, args.packs, model.config.name)
    rng = random.Random(3)
    queried = sorted({name.split("|")[0] for name in features if "|" in name})
    others = sorted(name for name in features if "|" not in name and name not in set(queried))
    rng.shuffle(queried)
    rng.shuffle(others)
    halves = [Footage(features, sorted(queried[half::2] + others[half::2])) for half in (0, 1)]
    curve = fit(without_doubles(samples(model, halves[0], args.pairs, rng)))
    judged = judge(curve, samples(model, halves[1], args.pairs, rng))
    result: dict[str, object] = {
        "model": model.config.name,
        "calibration": vars(curve),
        "test": judged,
        "five copied seconds in a longer query, mAP": buried(model, curve, halves[1], rng),
    }
    keep("calibration", result)
    bins = judged["reliability"]
    assert isinstance(bins, list)
    picture = RESULTS.parent.parent / "docs" / "reliability.png"
    draw({"all": bins}, picture, "Reliability on held-out clips (number of pairs)")
    if args.write_model is not None:
        model.config = replace(model.config, calibration=curve)
        model.save_pretrained(args.write_model)


if __name__ == "__main__":
    main()
