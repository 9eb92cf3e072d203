"""Which training makes the best default model: each row of a planned table trained and judged on validation sources.

    python benchmarks/levers.py DATA VALIDATION_COPYSET OUT --only NAME... --steps 2000 --device cuda
    python benchmarks/levers.py DATA VALIDATION_COPYSET OUT --only NAME... --start MODEL --side 288

The training sources of DATA teach, pictures among them; VALIDATION_COPYSET is of ``copyset.py --split validation``.
Each row is a model folder and a line of JSON in OUT. With ``--start`` rows go on from a trained model with their one
change, and else from ImageNet's weights.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from shared.copy_ranking import best_diagonal, frame_matrices, report
from shared.copy_sets import CopySet, reciprocal_ranks
from shared.footage_split import items, training_pictures
from shared.levers_rows import ROWS, SIDE, STAGE
from visil.compare.visil import ViSiL
from visil.model.config import ViSiLConfig
from visil.model.whitening import PCA
from visil.training.cached_footage import CachedFootage
from visil.training.frame_bank import FrameBank
from visil.training.frames import train_frames
from visil.training.pictures import read_pictures
from visil.training.trainer import Step
from visil.video import Sampling


def read_bank(data: Path, out: Path, fps: float, device: torch.device) -> FrameBank:
    """The training frames, and pictures beside them; the next process finds frames decoded."""
    sampling = Sampling(fps=fps, resize=SIDE, crop=SIDE, fit="whole")
    clips = [data / item.file for part in ("videos", "clips") for item in items(data, part, "train")]
    footage = CachedFootage([clip for clip in clips if clip.is_file()], out / "bank", sampling)
    kinds = training_pictures(data, out)
    return FrameBank.read(footage, device, read_pictures([str(kinds)], sampling) if kinds else None)


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


def continued(config: ViSiLConfig, start: Path, side: int, device: torch.device) -> ViSiL:
    """A trained model with what a row changes about it."""
    own, base = asdict(config), asdict(ROWS["base"].config)
    wanted = {name: value for name, value in own.items() if value != base[name] and name in GOES_ON}
    wanted["sampling"] = Sampling(resize=side, crop=side, fit="whole")
    if config.sampling != ROWS["base"].config.sampling:
        wanted["sampling"] = config.sampling
    trained = ViSiL.from_pretrained(start)
    model = ViSiL(trained.config.replaced(**wanted, **BARE), with_backbone=False)
    model.backbone, model.whitening = trained.backbone, trained.whitening
    return model.to(device)


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


GOES_ON = ("levels", "frame_pool", "symmetric")
"""What can be changed about a model that has learned, and its weights kept."""

BARE: dict[str, object] = {"calibration": None, "background": 0, "reader": None}
"""What belongs to the similarities of the model as it was."""


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
    parser.add_argument("data", type=Path)
    parser.add_argument("copyset", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--only", nargs="*", default=list(ROWS), help="none: only decode, for rows run side by side"
    )
    parser.add_argument("--steps", type=int, default=STAGE.steps)
    parser.add_argument("--fps", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="a trained model to go on from")
    parser.add_argument("--side", type=int, default=288, help="of pictures, with --start")
    parser.add_argument("--lr", type=float, help="for all rows")
    parser.add_argument(
        "--weights", type=Path, help="folder of backbone weights, where their packages are not"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    bank = read_bank(args.data, args.out, args.fps, device)
    print(f"{len(bank)} videos, {len(bank.images)} frames", flush=True)
    copies = Copies.read(args.copyset, args.out / "cache", device)
    for name in args.only:
        chosen = ROWS[name]
        if args.start is not None:
            model = continued(chosen.config, args.start, args.side, device)
        else:
            model = started(chosen.config.replaced(name=name), bank, device, args.weights)
        figures: dict[str, object] = {"row": name, "seed": args.seed, "steps": args.steps}
        figures |= {"start": args.start and args.start.name, "side": model.config.sampling.crop}
        figures["before"] = copies.judged(model)
        begun = time.perf_counter()
        lines: list[dict[str, object]] = []

        def told(step: Step, name: str = name, lines: list[dict[str, object]] = lines) -> None:
            line: dict[str, object] = {"step": step.done, **step.figures}
            line |= {"pairs/s": step.rate, "data": step.data_share}
            lines.append(line)
            print(name, {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()}, flush=True)

        stage = replace(chosen.stage, steps=args.steps)
        if args.lr is not None and chosen.stage.lr == STAGE.lr:
            stage = replace(stage, lr=args.lr)
        if args.steps:
            train_frames(model, bank, stage, seed=args.seed, on_step=told, every=max(1, args.steps // 8))
        figures["seconds"] = round(time.perf_counter() - begun, 1)
        figures["log"] = lines
        figures["after"] = copies.judged(model)
        if name == "base" and args.start is None:  # how regions are read can be changed after training
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
