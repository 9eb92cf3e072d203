"""Do the GPU engine's precisions rank as float32 does? On the copy benchmark's clips, among a larger collection.

    python benchmarks/gpu_agreement.py pack COPYSET FEATURES INDEX PACK --videos 600     # where the clips are
    python benchmarks/gpu_agreement.py run PACK --out gpu_agreement.json [--comparator MODEL]

PACK holds the features of the copy set's queries and database, and of some other videos of INDEX. By precision:
Kendall's τ of each query's ranking with that of float32, how much of the top 100 is the same, and the mAP of both.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from shared.results import as_text, machine, write
from visil.kernels.precision import Precision
from visil.model.formula import Formula

Scores = NDArray[np.float64]


def pack(copyset: Path, features: Path, index: Path, out: Path, videos: int) -> None:
    """Gather features into one file."""
    import visil
    from shared.copy_sets import embedded_set

    model = visil.load()
    copies, database, queries = embedded_set(model, copyset, features)
    tensors = {f"q{i:05d}": q.vectors.half() for i, q in enumerate(queries)}
    tensors |= {f"d{i:05d}": d.vectors.half() for i, d in enumerate(database)}
    sources = set(json.loads((copyset / "truth.json").read_text())["sources"])
    with visil.Index(index, create=False) as collection:
        others = [v for v in collection.catalogue.videos() if not sources & set(Path(v.path).parts)][:videos]
        for i, video in enumerate(others, len(database)):
            tensors[f"d{i:05d}"] = collection.store.read(video.id).vectors.half()
    config = {
        "truth": copies.truth,
        "halves": copies.halves,
        "symmetric": model.config.symmetric,
        "frame_pool": model.config.frame_pool,
    }
    save_file({k: v.contiguous() for k, v in tensors.items()}, out, metadata={"visil": json.dumps(config)})
    print(f"{len(queries)} queries, {len(tensors) - len(queries)} videos, {out.stat().st_size / 1e6:.0f} MB")


def scores_in(
    precision: Precision, queries: list[Tensor], targets: list[Tensor], formula: Formula, device: str
) -> Scores:
    """CS_v of every query with every target in one precision."""
    from visil.kernels import Scorer

    return np.hstack([found for _, found in Scorer(formula, device, precision).stream(queries, targets)])


def kendall(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """τ-a of two score lists: concordant minus discordant pairs, over all."""
    i, j = np.triu_indices(len(a), 1)
    return float(np.mean(np.sign(a[i] - a[j]) * np.sign(b[i] - b[j])))


def mean_ap(scores: Scores, truth: NDArray[np.int64], chosen: NDArray[np.bool_]) -> float:
    """Mean of 1/rank of the right answer, ties against us."""
    own = scores[np.arange(len(scores)), truth][:, None]
    return float((1 / (scores >= own).sum(axis=1))[chosen].mean())


def run(file: Path, model: Path | None, out: Path | None, device: str) -> None:
    """Score by every precision, compare with float32."""
    with safe_open(file, "pt") as opened:
        config = json.loads(opened.metadata()["visil"])
        queries = [opened.get_tensor(k) for k in sorted(opened.keys()) if k.startswith("q")]
        targets = [opened.get_tensor(k) for k in sorted(opened.keys()) if k.startswith("d")]
    comparator = None
    if model is not None:
        from visil.compare.visil import ViSiL

        comparator = ViSiL.from_pretrained(model).comparator
        assert comparator is not None
        comparator = comparator.to(device)
    pool = (config["frame_pool"][0], config["frame_pool"][1])
    formula = Formula(frame_pool=pool, symmetric=config["symmetric"], comparator=comparator)
    exact = scores_in("fp32", queries, targets, formula, device)
    truth, halves = np.array(config["truth"]), np.array(config["halves"])
    known = len({*truth.tolist()})
    result: dict[str, object] = {
        "machine": machine(),
        "queries": len(queries),
        "videos": len(targets),
        "comparator": None if model is None else model.name,
        "fp32": {half: round(mean_ap(exact, truth, halves == half), 4) for half in ("easy", "hard")},
    }
    precisions: tuple[Precision, ...] = ("fp16", "bf16", "fp8")
    for precision in precisions:
        found = scores_in(precision, queries, targets, formula, device)
        top = [
            len({*np.argsort(-a)[:100].tolist()} & {*np.argsort(-b)[:100].tolist()}) / min(100, len(a))
            for a, b in zip(found, exact, strict=True)
        ]
        result[precision] = {
            **{half: round(mean_ap(found, truth, halves == half), 4) for half in ("easy", "hard")},
            "Kendall tau, mean": round(
                float(np.mean([kendall(a, b) for a, b in zip(found, exact, strict=True)])), 5
            ),
            "top 100 the same": round(float(np.mean(top)), 4),
            "largest difference of a score": float(f"{np.abs(found - exact).max():.2g}"),
        }
    print(as_text(result), f"({known} originals)")
    if out is not None:
        kept = json.loads(out.read_text()) if out.exists() else []
        write(out, [*kept, result])


def main() -> None:
    """From the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("pack")
    for name in ("copyset", "features", "index", "out"):
        one.add_argument(name, type=Path)
    one.add_argument("--videos", type=int, default=600)
    two = parts.add_parser("run")
    two.add_argument("pack", type=Path)
    two.add_argument("--comparator", type=Path, help="a model folder whose comparator reads S_f")
    two.add_argument("--out", type=Path)
    two.add_argument("--device", default="cuda")
    args = parser.parse_args()
    if args.part == "pack":
        pack(args.copyset, args.features, args.index, args.out, args.videos)
    else:
        run(args.pack, args.comparator, args.out, args.device)


if __name__ == "__main__":
    main()
