"""The paper's attention (Eq. 3) and comparator (Table 1), learned on the default model's features: do they rank better?

    visil train READER.yaml --videos FOLDER --pictures FOLDER --out MADE    # with reader: {epochs: 0}
    python benchmarks/paper_on_top.py MADE/pairs.safetensors DATA VALIDATION_COPYSET WORK --out FILE

The features stay as they are. The comparator learns from pairs of strung and composed videos with their strangers
(``visil train``'s reader stage makes them of the training sources) by Eq. 7 to 9; the attention from frames of DATA's
training sources beside edited views of them, by the InfoNCE of the frame stage. Both are judged on a copy set of other
sources, beside CS_v as it is and the product's ranking by evidence.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import visil
from shared.copy_figures import figures
from shared.copy_sets import CopySet, embedded_set, ranked
from shared.footage_split import items, training_pictures
from shared.results import machine, write
from visil.compare.visil import ViSiL
from visil.model.attention import ContextAttention
from visil.model.comparator import Comparator, hard_tanh
from visil.model.formula import Formula
from visil.training.batch_similarity import VideoBatch, compare_all
from visil.training.cached_footage import CachedFootage
from visil.training.config import FrameStage
from visil.training.frame_bank import FrameBank
from visil.training.frames import accuracy, draw_views
from visil.training.losses import frame_info_nce, similarity_regularisation
from visil.training.pairs import Pair, load_pairs
from visil.training.pictures import read_pictures
from visil.training.reader import ranking_loss
from visil.video import Sampling

MARGIN, REGULARISATION = 0.5, 0.1
"""γ of Eq. 7 and r of Eq. 9."""

TEMPERATURE = 0.05
QUERIES = 8
"""Queries, with all their targets, of one step."""

CLIPS, STEPS = 120, 14
"""Clips that the attention learns from, and batches of 128 frames drawn of them; the last two validate."""


def score(formula: Formula, frames: Tensor) -> tuple[Tensor, Tensor]:
    """CS_v of a pair by the comparator, and L_reg, from S_f."""
    assert formula.comparator is not None
    output = formula.comparator(frames)
    return formula.video_similarity(hard_tanh(output)), similarity_regularisation(output[None]).sum()


def learned_comparator(model: ViSiL, pairs: Path, epochs: int) -> tuple[Comparator, list[dict[str, float]]]:
    """By Eq. 9 over each query's copy and strangers; the epoch that ranks the validation pairs best."""
    torch.manual_seed(0)
    made, _ = load_pairs(pairs)
    comparator = Comparator("replicate")
    formula = Formula(model.config.frame_pool, model.config.video_pool, model.config.symmetric, comparator)
    optimiser = torch.optim.Adam(comparator.parameters(), lr=1e-3)
    told: list[dict[str, float]] = []
    best: tuple[float, dict[str, Tensor]] = (-1.0, {})
    rng = np.random.default_rng(0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, 1e-3, total_steps=epochs * -(-len({p.number for p in made.training}) // QUERIES)
    )
    for epoch in range(epochs):
        losses = []
        for batch in _by_query(made.training, rng):
            both = [score(formula, pair.frames.float()) for pair in batch]
            found, excess = (torch.stack(some) for some in zip(*both, strict=True))
            number = torch.tensor([pair.number for pair in batch])
            copy = torch.tensor([pair.relation == "copy" for pair in batch])
            loss = ranking_loss(found, number, copy, MARGIN) + REGULARISATION * excess.mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            losses.append(float(loss))
        with torch.inference_mode():
            right = _ranked_first(made.validation, lambda frames: score(formula, frames)[0])
        told.append({"epoch": epoch + 1, "loss": float(np.mean(losses)), "copies ranked first": right})
        print(told[-1], flush=True)
        if right > best[0]:
            best = right, {name: tensor.clone() for name, tensor in comparator.state_dict().items()}
    comparator.load_state_dict(best[1])
    return comparator.eval(), told


def _by_query(pairs: Sequence[Pair], rng: np.random.Generator) -> Iterator[list[Pair]]:
    """All pairs of some queries at a time; the comparator needs four frames a side."""
    own: dict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if min(pair.frames.shape) >= 4:
            own[pair.number].append(pair)
    order = rng.permutation(sorted(own))
    for start in range(0, len(order), QUERIES):
        yield [pair for number in order[start : start + QUERIES] for pair in own[int(number)]]


def _ranked_first(pairs: Sequence[Pair], scored: Any) -> float:
    """The share of queries whose copy is above all of their strangers."""
    firsts = []
    for some in _by_query(pairs, np.random.default_rng(0)):
        for number in {pair.number for pair in some}:
            own = [
                (float(scored(p.frames.float())), p.relation == "copy") for p in some if p.number == number
            ]
            strangers = [value for value, copy in own if not copy]
            if strangers and any(copy for _, copy in own):
                firsts.append(max(value for value, copy in own if copy) > max(strangers))
    return float(np.mean(firsts))


def learned_attention(
    model: ViSiL, data: Path, work: Path, epochs: int
) -> tuple[ContextAttention, list[dict[str, float]]]:
    """By InfoNCE over plain and edited views of frames; the epoch that finds most of the validation frames."""
    torch.manual_seed(0)
    sampling = Sampling(fps=1.0, resize=288, crop=288, fit="whole")
    clips = [data / item.file for part in ("videos", "clips") for item in items(data, part, "train")]
    footage = CachedFootage(clips[:: -(-len(clips) // CLIPS)], work / "frames", sampling)
    kinds = training_pictures(data, work, 8)
    bank = FrameBank.read(footage, pictures=read_pictures([str(kinds)], sampling) if kinds else None)
    stage = FrameStage(steps=STEPS, batch=128, composite=0.55, scale=(0.25, 0.7))
    batches = []
    with torch.inference_mode():
        for views in draw_views(bank, stage, 288, 0, range(STEPS)):
            both = ((255 * view).byte().permute(0, 2, 3, 1) for view in (views.plain, views.edited))
            seen = [torch.cat([model.features(part) for part in frames.split(32)]).float() for frames in both]
            batches.append((*seen, views.neither))
    batches = [tuple(tensor.clone() for tensor in batch) for batch in batches]
    attention = ContextAttention(model.dim)
    optimiser = torch.optim.Adam(attention.parameters(), lr=1e-2)
    told: list[dict[str, float]] = []
    best: tuple[float, Tensor] = (-1.0, attention.context_vector.weight.detach().clone())
    for epoch in range(epochs):
        losses = []
        for plain, edited, neither in batches[:-2]:
            similarity = model.formula.frame_matrix(attention(plain), attention(edited))
            loss = frame_info_nce(similarity, neither, TEMPERATURE)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            attention.constrain_()
            losses.append(float(loss))
        with torch.inference_mode():
            right, without = (
                float(
                    np.mean(
                        [
                            float(accuracy(model.formula.frame_matrix(a(p), a(e)), n))
                            for p, e, n in batches[-2:]
                        ]
                    )
                )
                for a in (attention, torch.nn.Identity())
            )
        told.append(
            {"epoch": epoch + 1, "loss": float(np.mean(losses)), "found": right, "found without": without}
        )
        print(told[-1], flush=True)
        if right > best[0]:
            best = right, attention.context_vector.weight.detach().clone()
    attention.context_vector.weight.data.copy_(best[1])
    return attention, told


@torch.inference_mode()
def by_parts(
    model: ViSiL,
    copies: CopySet,
    queries: Sequence[visil.VideoFeatures],
    database: Sequence[visil.VideoFeatures],
    attention: ContextAttention | None = None,
    comparator: Comparator | None = None,
) -> dict[str, Any]:
    """How CS_v ranks with these parts on the model's features."""
    bare = model.config.replaced(reader=None, background=0, calibration=None)
    padding = None if comparator is None else comparator.padding
    judged = ViSiL(bare.replaced(comparator=padding), with_backbone=False).eval()
    judged.comparator = comparator
    weighed = attention or torch.nn.Identity()
    q, d = (VideoBatch.of([weighed(v.vectors.float()) for v in part]) for part in (queries, database))
    return figures(copies, compare_all(judged, q, d).similarity.double().numpy())


def main() -> None:
    """Learn both, rank with each, and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("copyset", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    model = visil.load()
    comparator, comparator_log = learned_comparator(model, args.pairs, args.epochs)
    attention, attention_log = learned_attention(model, args.data, args.work, 2 * args.epochs)
    copies, database, queries = embedded_set(model, args.copyset, args.work / "features")
    evidence = figures(copies, np.array(ranked(model, queries, database)["evidence"]))
    rows = {
        "CS_v": by_parts(model, copies, queries, database),
        "CS_v, attention": by_parts(model, copies, queries, database, attention),
        "CS_v, comparator": by_parts(model, copies, queries, database, None, comparator),
        "evidence": evidence,
    }
    for name, row in rows.items():
        print(name, row, flush=True)
    logs = {"comparator": comparator_log, "attention": attention_log}
    write(args.out, {"machine": machine(), "rows": rows, "logs": logs})


if __name__ == "__main__":
    main()
