"""Small models of every kind in the family, and videos for them that share stretches."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from visil.compare.visil import ViSiL
from visil.model.config import VISIL_V, ViSiLConfig
from visil.model.features import VideoFeatures

DIM = 16
LITE = VISIL_V.replaced(backbone="efficientnet-lite0", dim=DIM)
FAMILY = {
    "v": LITE,
    "sym": LITE.replaced(symmetric=True),
    "zeros": LITE.replaced(comparator="zeros", attention="hidden"),
    "f": LITE.replaced(comparator=None, attention=None),
    "best few": LITE.replaced(frame_pool=("max", "top3"), symmetric=True),
    "average": LITE.replaced(frame_pool=("mean", "mean"), video_pool=("max", "max")),
}


def built(config: ViSiLConfig, *, with_backbone: bool = False) -> ViSiL:
    """A model whose comparator's outputs vary between -1 and 1, as a trained one's do."""
    model = ViSiL(config, with_backbone=with_backbone)
    if model.comparator is not None:
        generator = torch.Generator().manual_seed(0)
        for parameter in model.comparator.parameters():
            scale = (1.5 / parameter[0].numel()) ** 0.5 if parameter.ndim > 1 else 0.05
            with torch.no_grad():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return model


LENGTHS = (1, 2, 3, 4, 7, 12, 30, 5, 1)


def related(lengths: tuple[int, ...], seed: int, *, with_blank: bool) -> list[VideoFeatures]:
    """Videos that share stretches, a few frames of some blank."""
    generator = torch.Generator().manual_seed(seed)
    footage = torch.randn(60, 9, DIM, generator=generator)
    videos = []
    for length in lengths:
        start = int(torch.randint(0, 30, (1,), generator=generator))
        noise = torch.randn(length, 9, DIM, generator=generator)
        vectors = F.normalize(footage[start : start + length] + 0.5 * noise, dim=-1).half()
        blank = torch.rand(length, generator=generator) < 0.2 if with_blank else None
        times = torch.arange(length, dtype=torch.float64)
        videos.append(VideoFeatures(vectors, times, float(length), f"{length}.mp4", blank))
    return videos
