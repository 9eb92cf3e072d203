"""Pairs of longer videos strung together from real clips, with known truth: to tune and judge localisation.

    python benchmarks/pack_frames.py VIDEOS PACKS
    python benchmarks/real_pairs.py PACKS --model MODEL --out results/localisation.json [--write-model FOLDER]

A pair is foreign clips and an original, against other foreign clips and a part of an edited copy of it, in any order.
Half of the queried clips tune, the other half test; no clip is in both.
"""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import find_objects, label
from torch import Tensor

import visil
from shared.packs import Span, embed_packs, random_cut
from shared.results import as_text, write
from visil.matching.localize import LocalizeConfig
from visil.matching.stretches import Stretch, localized

Box = tuple[Span, Span]
"""(query frames, target frames), inclusive."""


@dataclass
class Pair:
    """Two strung-together videos: S_f, CS, what they share, and by which edits."""

    matrix: NDArray[np.float32]
    score: float
    truth: list[Box]
    kinds: list[str]


def string_together(parts: list[Tensor], shared: list[int]) -> tuple[Tensor, list[Span]]:
    """Parts end to end; the frames that parts ``shared`` take up."""
    starts = np.cumsum([0, *(len(p) for p in parts)])
    return torch.cat(parts), [(int(starts[i]), int(starts[i + 1]) - 1) for i in shared]


def shown(span: Span, cut: Span, frames: int) -> Span:
    """The part of the original at ``span`` that frames ``cut`` of its copy of ``frames`` frames show."""
    speed = (span[1] - span[0] + 1) / frames
    first = span[0] + round(cut[0] * speed)
    return first, max(first, min(span[1], span[0] + round((cut[1] + 1) * speed) - 1))


def make_pairs(
    model: visil.ViSiL,
    features: dict[str, Tensor],
    clips: list[str],
    foreign: list[str],
    count: int,
    rng: random.Random,
) -> list[Pair]:
    """``count`` related pairs and as many unrelated ones."""
    copies: dict[str, list[str]] = {}
    for name in sorted(features):
        if "|" in name:
            copies.setdefault(name.split("|")[0], []).append(name)
    pairs = []
    for related in [True] * count + [False] * count:
        shared = rng.sample(clips, rng.choice([1, 1, 1, 2])) if related else []
        others = rng.sample(foreign, 8)
        left, right = others[: rng.randint(1, 4)], others[4 : 4 + rng.randint(1, 4)]
        edited = [rng.choice(copies[clip]) for clip in shared]
        cuts = [random_cut(len(features[name]), rng) for name in edited]
        sides = []
        for side, inserted in ((left, shared), (right, edited)):
            order = side + inserted
            rng.shuffle(order)
            parts = [features[name] for name in order]
            if inserted is edited:
                for name, (first, last) in zip(edited, cuts, strict=True):
                    parts[order.index(name)] = features[name][first : last + 1]
            sides.append(string_together(parts, [order.index(i) for i in inserted]))
        (query, query_spans), (target, target_spans) = sides
        query_spans = [
            shown(span, cut, len(features[name]))
            for span, cut, name in zip(query_spans, cuts, edited, strict=True)
        ]
        match = model.compare(_as_features(query), _as_features(target))
        pairs.append(
            Pair(
                match.frame_matrix,
                match.score,
                list(zip(query_spans, target_spans, strict=True)),
                [name.split("|", 1)[1] for name in edited],
            )
        )
    return pairs


def _as_features(vectors: Tensor) -> visil.VideoFeatures:
    return visil.VideoFeatures(vectors.float(), torch.arange(len(vectors), dtype=torch.float64))


def plain_threshold(matrix: NDArray[np.float32], threshold: float, min_cells: int = 3) -> list[Box]:
    """The baseline: every connected blob of cells above a threshold is a match, its bounding box the segment."""
    blobs, _ = label(matrix > threshold, structure=np.ones((3, 3)))
    sizes = np.bincount(blobs.ravel())
    return [
        ((rows.start, rows.stop - 1), (columns.start, columns.stop - 1))
        for i, (rows, columns) in enumerate(find_objects(blobs), 1)
        if sizes[i] >= min_cells
    ]


def boxes(found: list[Stretch]) -> list[Box]:
    """Stretches as boxes."""
    return [(stretch.query, stretch.target) for stretch in found]


def f1(predicted: list[list[Box]], truth: list[list[Box]]) -> dict[str, float]:
    """Segment precision and recall over all pairs: lengths on both axes, geometric mean, as DVSC-2023 does."""
    hit_p = np.zeros(2)
    hit_t = np.zeros(2)
    all_p = np.zeros(2)
    all_t = np.zeros(2)
    for found, real in zip(predicted, truth, strict=True):
        for axis in range(2):
            all_p[axis] += sum(b[axis][1] - b[axis][0] + 1 for b in found)
            all_t[axis] += sum(b[axis][1] - b[axis][0] + 1 for b in real)
            hit_p[axis] += sum(_covered(b, real, axis) for b in found)
            hit_t[axis] += sum(_covered(b, found, axis) for b in real)
    precision = float(np.sqrt(np.prod(hit_p / np.maximum(all_p, 1))))
    recall = float(np.sqrt(np.prod(hit_t / np.maximum(all_t, 1))))
    return {
        "F1": 2 * precision * recall / max(precision + recall, 1e-9),
        "precision": precision,
        "recall": recall,
    }


def _covered(box: Box, others: list[Box], axis: int) -> int:
    """Frames of ``box`` on one axis that boxes which meet it on both axes cover."""
    cells = np.zeros(box[axis][1] - box[axis][0] + 1, bool)
    for other in others:
        if all(min(box[a][1], other[a][1]) >= max(box[a][0], other[a][0]) for a in range(2)):
            low, high = max(box[axis][0], other[axis][0]), min(box[axis][1], other[axis][1])
            cells[low - box[axis][0] : high - box[axis][0] + 1] = True
    return int(cells.sum())


def tune(pairs: list[Pair]) -> tuple[LocalizeConfig, float]:
    """The best settings for ours, and the best threshold for the baseline, each by F1 on the tuning half."""
    truth = [p.truth for p in pairs]
    background = np.concatenate([p.matrix.ravel()[::7] for p in pairs if not p.truth])
    grid = np.quantile(background, [0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995])
    best: tuple[float, LocalizeConfig] = (-1, LocalizeConfig())
    for threshold in grid:
        for min_gain in (0.35, 0.5, 0.7):
            for give_up in (0.2, 0.5):
                config = LocalizeConfig(round(float(threshold), 3), min_gain, give_up)
                value = f1([boxes(localized(p.matrix, config)) for p in pairs], truth)["F1"]
                best = max(best, (value, config), key=lambda b: b[0])
    plain = max(grid, key=lambda t: f1([plain_threshold(p.matrix, t) for p in pairs], truth)["F1"])
    return best[1], float(plain)


def judge(pairs: list[Pair], config: LocalizeConfig, plain: float) -> dict[str, object]:
    """Everything about the test half."""
    truth = [p.truth for p in pairs]
    found = [boxes(localized(p.matrix, config)) for p in pairs]
    by_kind = {}
    for kind in sorted({k for p in pairs for k in p.kinds}):
        # Pairs with one shared clip only, so that a figure belongs to one edit.
        chosen = [i for i, p in enumerate(pairs) if p.kinds == [kind]]
        by_kind[kind] = round(f1([found[i] for i in chosen], [truth[i] for i in chosen])["F1"], 3)
    return {
        "ours": f1(found, truth),
        "plain threshold": f1([plain_threshold(p.matrix, plain) for p in pairs], truth),
        "by edit": by_kind,
    }


def main() -> None:
    """Tune on one half, judge on the other, and write both down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--model", default=None)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--write-model", type=Path, help="save the model with what was tuned")
    args = parser.parse_args()
    model = visil.load(args.model)
    features = embed_packs(model, args.packs, model.config.name)
    queried = sorted({name.split("|")[0] for name in features if "|" in name})
    foreign = sorted(name for name in features if "|" not in name and name not in queried)
    rng = random.Random(1)
    for names in (queried, foreign):
        rng.shuffle(names)
    half, other = len(queried) // 2, len(foreign) // 2
    tuning = make_pairs(model, features, queried[:half], foreign[:other], args.pairs, rng)
    testing = make_pairs(model, features, queried[half:], foreign[other:], args.pairs, rng)
    config, plain = tune(tuning[: args.pairs // 2] + tuning[args.pairs : args.pairs + args.pairs // 2])
    result = {
        "model": model.config.name,
        "localize": vars(config),
        "plain threshold": plain,
        "test": judge(testing, config, plain),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    write(args.out, result)
    print(as_text(result))
    if args.write_model is not None:
        model.config = replace(model.config, localize=config)
        model.save_pretrained(args.write_model)


if __name__ == "__main__":
    main()
