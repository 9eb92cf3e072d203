"""Which backbone, stages, regions and width the default model should have: edited copies must find their originals.

    python benchmarks/pack_frames.py VIDEOS PACKS
    python benchmarks/choose_default.py PACKS --out results/choose_default.json [--device cuda]

Each edited copy is a query; all originals are the database; one of them is right. ViSiL_f+W (Eq. 5 and CS) ranks.
mAP is the mean of 1/rank; "at 0.1 %" is the share of copies that score above all but one in a thousand unrelated
pairs. The whitening is fitted on clips that are not queried.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from shared.packs import read_pack
from shared.results import write
from visil.model.backbones import backbone_spec
from visil.model.backbones.weights import load_into, read_checkpoint
from visil.model.regions import regional_max
from visil.model.whitening import PCA, Whitening

STAGES = [(0, 1, 2, 3), (1, 2, 3), (2, 3), (3,), (0, 1, 2, 3, 4), (1, 2, 3, 4), (2, 3, 4), (2, 4), (4,)]
LEVELS = [(3,), (2, 3), (1, 2, 3)]
WIDTHS = [None, 128, 256, 384, 512]


class Videos:
    """Frames of many videos end to end, with each frame's video."""

    def __init__(self, packs: list[Path]) -> None:
        self.names: list[str] = []
        self.frames: list[Tensor] = []
        for pack in packs:
            for name, frames in read_pack(pack):
                self.names.append(name)
                self.frames.append(torch.from_numpy(frames))
        lengths = torch.tensor([len(f) for f in self.frames])
        self.video = torch.repeat_interleave(torch.arange(len(lengths)), lengths)


@torch.inference_mode()
def pooled(
    backbone: str, weights: Path | None, videos: Videos, device: str, levels: list[int]
) -> dict[tuple[int, int], Tensor]:
    """{(stage, level): ℓ2 region vectors [T, N², C_k], half precision}: everything later tables recombine."""
    spec = backbone_spec(backbone)
    network = spec.build()
    load_into(network, read_checkpoint(weights or spec.weights.locate()), backbone, network.unused_keys)
    network = network.eval().to(device)
    parts: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    images = torch.cat(videos.frames)
    for batch in images.split(256):
        maps = network.stages(
            network.preprocess(batch.to(device)).contiguous(memory_format=torch.channels_last)
        )
        for (stage, feature_map), level in itertools.product(enumerate(maps), levels):
            regions = F.normalize(regional_max(feature_map, level), dim=1).flatten(2).transpose(1, 2)
            parts[stage, level].append(regions.half())
    return {key: torch.cat(values) for key, values in parts.items()}


def imac_from(
    parts: dict[tuple[int, int], Tensor], stages: tuple[int, ...], levels: tuple[int, ...]
) -> Tensor:
    """L_N-iMAC put together from pooled stages: [T, R, C]."""
    return torch.cat(
        [F.normalize(torch.cat([parts[s, level].float() for s in stages], dim=2), dim=2) for level in levels],
        dim=1,
    )


def scores(query: Tensor, target: Tensor, query_video: Tensor, target_video: Tensor) -> Tensor:
    """CS of every query video against every target video, by Eq. 5 and Eq. 2: [queries, targets]."""
    device = query.device
    targets = int(target_video.max()) + 1
    per_frame = torch.empty(len(query), targets, device=device)
    by_region = target.transpose(0, 1).contiguous()
    index = target_video.to(device)
    for start in range(0, len(query), 512):
        chunk = query[start : start + 512]
        stacked = chunk.transpose(0, 1).reshape(-1, chunk.shape[-1])
        best = stacked @ by_region[0].T
        for region in by_region[1:]:
            torch.maximum(best, stacked @ region.T, out=best)
        matrix = best.view(chunk.shape[1], len(chunk), -1).mean(0)
        video_best = torch.full((len(chunk), targets), -2.0, device=device)
        video_best.scatter_reduce_(1, index.expand(len(chunk), -1), matrix, "amax")
        per_frame[start : start + 512] = video_best
    queries = int(query_video.max()) + 1
    total = torch.zeros(queries, targets, device=device).index_add_(0, query_video.to(device), per_frame)
    return total / torch.bincount(query_video, minlength=queries).to(device)[:, None]


def measure(result: Tensor, truth: Tensor, kinds: list[str]) -> dict[str, float]:
    """mAP overall, by kind of edit, and the share found at one false alarm in a thousand."""
    right = result.gather(1, truth[:, None])
    rank = (result > right).sum(1) + 1
    precision = 1.0 / rank.double()
    others = result.clone()
    others.scatter_(1, truth[:, None], float("nan"))
    wrong = others[~others.isnan()]
    bar = wrong.sort().values[int(len(wrong) * 0.999)]
    table = {
        "mAP": float(precision.mean()),
        "at 0.1 %": float((right[:, 0] > bar).double().mean()),
        "bar": float(bar),
    }
    for kind in sorted(set(kinds)):
        chosen = torch.tensor([k == kind for k in kinds], device=result.device)
        table[kind] = float(precision[chosen].mean())
    return table


def main() -> None:
    """Print the table, best first, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--weights", type=Path, help="folder with the checkpoints, where the packages are not installed"
    )
    parser.add_argument(
        "--backbones", nargs="*", default=["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]
    )
    args = parser.parse_args()
    originals = Videos(sorted(args.packs.glob("originals*.npz")))
    copies = Videos(sorted(args.packs.glob("copies*.npz")))
    place = {name: i for i, name in enumerate(originals.names)}
    truth = torch.tensor([place[name.split("|")[0]] for name in copies.names], device=args.device)
    kinds = [" ".join(name.split("|")[1:]) for name in copies.names]
    queried = torch.zeros(len(originals.names), dtype=torch.bool)
    queried[truth.cpu()] = True
    fit_frames = ~queried[originals.video]
    print(f"{len(copies.names)} queries, {len(originals.names)} originals")

    rows: list[dict[str, object]] = []
    for backbone in args.backbones:
        started = time.time()
        weights = args.weights / backbone_spec(backbone).weights.file if args.weights else None
        needed = sorted({level for levels in LEVELS for level in levels})
        database = pooled(backbone, weights, originals, args.device, needed)
        queries = pooled(backbone, weights, copies, args.device, needed)
        print(f"{backbone}: extracted in {time.time() - started:.0f} s", flush=True)
        for stages, levels in itertools.product(STAGES, LEVELS):
            target, query = imac_from(database, stages, levels), imac_from(queries, stages, levels)
            pca = PCA().fit(target[fit_frames.to(args.device)].flatten(0, 1).split(1 << 15))
            widest = pca.whitening()  # columns by falling variance, so narrower ones are its beginning
            for width in WIDTHS:
                if width is not None and width > target.shape[-1]:
                    continue
                q, t = query, target
                if width is not None:
                    whitening = Whitening(widest.mean, widest.projection[:, :width])
                    q, t = whitening(query), whitening(target)
                table = measure(scores(q, t, copies.video, originals.video), truth, kinds)
                row: dict[str, object] = {
                    "backbone": backbone,
                    "stages": stages,
                    "levels": levels,
                    "width": width,
                }
                row["bytes/frame"] = q.shape[1] * q.shape[2] * 2
                row |= {k: round(v, 4) for k, v in table.items()}
                rows.append(row)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write(args.out, rows)
    rows.sort(key=lambda r: -float(str(r["mAP"])))
    for row in rows[:40]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
