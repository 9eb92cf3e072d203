"""How far features and scores of the default model on a GPU are from those on the CPU.

python benchmarks/gpu_against_cpu.py
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

import visil
from visil.errors import VisilError

LENGTHS = (30, 4, 57, 1, 120)


def pictures(count: int, side: int) -> Tensor:
    """Smooth random pictures, uint8 [count, side, side, 3]."""
    coarse = torch.rand(count, 3, 9, 9, generator=torch.Generator().manual_seed(0)) * 255
    return F.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 255).byte().permute(0, 2, 3, 1)


def videos(vectors: Tensor) -> list[visil.VideoFeatures]:
    """Videos of given frames in any order, a little changed."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for length in LENGTHS:
        chosen = vectors[torch.randint(len(vectors), (length,), generator=generator)]
        noise = 0.02 * torch.randn(chosen.shape, generator=generator)
        times = torch.arange(length, dtype=torch.float64)
        found.append(visil.VideoFeatures(F.normalize(chosen + noise, dim=-1).half(), times))
    return found


def main() -> None:
    """Both, in one process."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    here, there = visil.load(device="cpu"), visil.load(device="cuda")
    frames = pictures(40, here.config.sampling.crop).contiguous()
    one, other = (model.embed_frames(frames).vectors for model in (here, there))
    print(f"features: cosine {float(F.cosine_similarity(one, other, dim=-1).min()):.5f} at worst")
    some = videos(one)
    scores = [model.scores(some[0], some) for model in (here, there)]
    print(f"scores: {np.abs(scores[0] - scores[1]).max():.1e} apart at most")
    matches = [list(model.compare_many(some[0], some)) for model in (here, there)]
    apart = [abs(a.confidence - b.confidence) for a, b in zip(*matches, strict=True)]
    print(f"confidence: {max(apart):.1e} apart at most")


if __name__ == "__main__":
    try:
        main()
    except VisilError as error:
        raise SystemExit(f"error: {error}") from None
