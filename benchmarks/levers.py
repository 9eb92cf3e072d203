"""Which training makes the best default model: each row of a planned table trained and judged on validation sources.

    python benchmarks/levers.py VIDEOS VALIDATION_COPYSET OUT --only NAME... --steps 2000 --device cuda

VIDEOS is the folder of training clips; VALIDATION_COPYSET comes from ``copyset.py --split validation``. Each row is a
model folder and a line of JSON in OUT.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.copy_ranking import best_diagonal, frame_matrices, report
from shared.copy_sets import CopySet, reciprocal_ranks
from shared.levers_rows import ROWS, SIDE, STAGE
from visil.compare.visil import ViSiL
from visil.matching.blank import blank_frames
from visil.model.config import ViSiLConfig
from visil.model.whitening import PCA
from visil.training.cached_footage import CachedFootage
from visil.training.frame_bank import FrameBank
from visil.training.frames import train_frames
from visil.training.trainer import Step
from visil.video import Sampling, is_video_path, read_frames


def decoded(video: Path, fps: float) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """All frames of a clip that are not blank, whole, large enough for every row; and their times."""
    frames = read_frames(video, Sampling(fps=fps, resize=SIDE, crop=SIDE, fit="whole"))
    keep = ~blank_frames(torch.from_numpy(frames.images)).numpy()
    return frames.images[keep], frames.timestamps[keep]


def read_bank(videos: Path, kept: Path, fps: float, device: torch.device) -> FrameBank:
    """The training frames; kept as they are for the next process."""
    if not (kept / "lengths.npy").exists():
        kept.mkdir(parents=True, exist_ok=True)
        files = sorted(path for path in videos.rglob("*") if is_video_path(path))
        with ProcessPoolExecutor() as pool:
            parts = [p for p in pool.map(decoded, files, repeat(fps), chunksize=4) if len(p[1])]
        np.save(kept / "images.npy", np.concatenate([images for images, _ in parts]))
        np.save(kept / "times.npy", np.concatenate([times for _, times in parts]))
        np.save(kept / "lengths.npy", np.array([len(times) for _, times in parts]))
    images = torch.from_numpy(np.load(kept / "images.npy"))
    return FrameBank(images.to(device), np.load(kept / "times.npy"), np.load(kept / "lengths.npy").tolist())


@torch.inference_mode()
def embed(model: ViSiL, frames: Tensor, lengths: Sequence[int]) -> list[Tensor]:
    """Refined vectors of every video, on the device; ``frames`` are those of all videos, one after the other."""
    side = model.config.sampling.crop
    vectors = []
    for pixels in frames.split(256):
        if pixels.shape[1] != side:
            resized = torch.nn.functional.interpolate(
                pixels.permute(0, 3, 1, 2).float(), (side, side), mode="bilinear", antialias=True
            )
            pixels = resized.round().clamp(0, 255).byte().permute(0, 2, 3, 1)
        vectors.append(model.refine(model.region_vectors(pixels)).float())
    return list(torch.cat(vectors).split(list(lengths)))


def started(config: ViSiLConfig, bank: FrameBank, device: torch.device, weights: Path | None) -> ViSiL:
    """ImageNet's backbone, whitening fitted on the training frames."""
    file = None if weights is None else next(weights.glob(f"{config.backbone}-*"))
    model = ViSiL(config, with_backbone=False).load_backbone(file).to(device)
    pca = PCA()
    side = config.sampling.crop
    with torch.inference_mode():
        for batch in bank.images[:: max(1, len(bank.images) // 6000)].split(256):
            resized = torch.nn.functional.interpolate(
                batch.permute(0, 3, 1, 2).float(), (side, side), mode="bilinear", antialias=True
            )
            pca.partial_fit(model.region_vectors(resized.permute(0, 2, 3, 1)).cpu())
    model.whitening = pca.whitening(config.dim or model.channels).to(device)
    return model


@dataclass(frozen=True)
class Copies:
    """A copy set with its frames on the device, the database's and then the queries'."""

    names: CopySet
    frames: Tensor
    lengths: list[int]

    @classmethod
    def read(cls, folder: Path, cache: Path, device: torch.device) -> Copies:
        """Decoded once; the next process finds the frames in ``cache``."""
        folder, copies = folder.absolute(), CopySet.read(folder)
        names = [folder / "database" / n for n in copies.database]
        names += [folder / "queries" / n for n in copies.queries]
        footage = CachedFootage(names, cache, Sampling(resize=SIDE, crop=SIDE, fit="whole"))
        assert footage.names == [str(name) for name in names]

        def frames(video: int) -> Tensor:
            return footage.images(video, range(len(footage.times(video))))

        with ThreadPoolExecutor(16) as pool:
            videos = list(pool.map(frames, range(len(footage))))
        return cls(copies, torch.cat(videos).to(device), [len(video) for video in videos])

    def judged(self, model: ViSiL) -> dict[str, object]:
        """mAP by several ways to read a score, and each query's 1/rank by the best diagonal."""
        features = embed(model, self.frames, self.lengths)
        count = len(self.names.database)
        queries, database = features[count:], features[:count]
        wide = frame_matrices(model.config, queries, database)
        ranks = reciprocal_ranks([best_diagonal(*w) for w in wide], self.names.truth)
        means = report(model.config, self.names, queries, database)
        return {**means, "1/rank": [round(float(rank), 4) for rank in ranks]}


def main() -> None:
    """Train and judge some rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("videos", type=Path)
    parser.add_argument("copyset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--only", nargs="*", default=list(ROWS), help="none: only decode, for rows run side by side"
    )
    parser.add_argument("--steps", type=int, default=STAGE.steps)
    parser.add_argument("--fps", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--weights", type=Path, help="folder of backbone weights, where their packages are not"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    bank = read_bank(args.videos, args.out / "bank", args.fps, device)
    print(f"{len(bank)} videos, {len(bank.images)} frames", flush=True)
    copies = Copies.read(args.copyset, args.out / "cache", device)
    for name in args.only:
        chosen = ROWS[name]
        model = started(chosen.config.replaced(name=name), bank, device, args.weights)
        figures: dict[str, object] = {"row": name, "seed": args.seed, "steps": args.steps}
        figures["before"] = copies.judged(model)
        begun = time.perf_counter()
        lines: list[dict[str, object]] = []

        def told(step: Step, name: str = name, lines: list[dict[str, object]] = lines) -> None:
            line: dict[str, object] = {"step": step.done, **step.figures}
            line |= {"pairs/s": step.rate, "data": step.data_share}
            lines.append(line)
            print(name, {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()}, flush=True)

        stage = replace(chosen.stage, steps=args.steps)
        train_frames(model, bank, stage, seed=args.seed, on_step=told, every=max(1, args.steps // 8))
        figures["seconds"] = round(time.perf_counter() - begun, 1)
        figures["log"] = lines
        figures["after"] = copies.judged(model)
        if name == "base":  # how regions are read can be changed after training
            for pool in ("max", "top2", "top5", "mean"):
                model.config = model.config.replaced(frame_pool=("max", pool))
                figures[f"read by {pool}"] = copies.judged(model)
            model.config = chosen.config.replaced(name=name)
        print(json.dumps({"row": name, "seconds": figures["seconds"]}), flush=True)
        with (args.out / "levers.jsonl").open("a") as file:
            file.write(json.dumps(figures) + "\n")
        model.cpu().save_pretrained(args.out / name.replace(" ", "-"))


if __name__ == "__main__":
    main()
