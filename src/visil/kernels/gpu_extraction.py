"""Frames to region vectors on a CUDA GPU: fused networks in half precision, regions by one kernel a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.kernels.lite_fused import FusedEfficientNetLite
from visil.kernels.resnet_fused import FusedResNet50
from visil.kernels.triton_maps import regional_max_into
from visil.model.backbones import Backbone
from visil.model.backbones.efficientnet_lite import EfficientNetLite
from visil.model.backbones.resnet import ResNet50

AGREEMENT = 0.02
"""How far maps in half precision may lie from those in single, as a share of their norm."""

DEFAULT = "efficientnet-lite0"
"""The default model's network."""

Extract = Callable[[Tensor], Tensor]


def fused(backbone: nn.Module, last: int) -> FusedResNet50 | FusedEfficientNetLite | None:
    """A copy for inference in half precision up to stage ``last``, where there is one and it computes the same here."""
    made: FusedResNet50 | FusedEfficientNetLite
    if isinstance(backbone, ResNet50):
        made = FusedResNet50(backbone, torch.float16, last).eval()
    elif isinstance(backbone, EfficientNetLite):
        made = FusedEfficientNetLite(backbone, torch.float16, last).eval()
    else:
        return None
    return made if _agree(made, backbone) else None


@torch.inference_mode()
def _agree(made: Backbone, backbone: ResNet50 | EfficientNetLite) -> bool:
    """Whether the copy's maps of a small picture are the network's: drivers and libraries differ, features must not."""
    device = next(backbone.parameters()).device
    picture = torch.randint(
        0, 256, (2, 96, 96, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    images = backbone.preprocess(picture.to(device)).contiguous(memory_format=torch.channels_last)
    try:
        pairs = zip(made.stages(images.half()), backbone.stages(images), strict=False)
        return all((a.float() - b).norm() <= AGREEMENT * b.norm() for a, b in pairs)
    except Exception:  # whatever a library raises that lacks an operation: the plain network takes over
        return False


def imac(maps: Sequence[Tensor], levels: Sequence[int]) -> Tensor:
    """:func:`visil.model.regions.imac` of half-precision maps, channels last: float32 [B, R, C]."""
    count = sum(level * level for level in levels)
    widths = [stage.shape[1] for stage in maps]
    pooled = torch.empty(len(maps[0]), count, sum(widths), dtype=maps[0].dtype, device=maps[0].device)
    left = 0
    for stage, width in zip(maps, widths, strict=True):
        stage = stage.contiguous(memory_format=torch.channels_last)
        top = 0
        for level in levels:
            regional_max_into(stage, level, pooled[:, top : top + level * level, left : left + width])
            top += level * level
        left += width
    parts = [F.normalize(part.float(), dim=-1) for part in pooled.split(widths, dim=-1)]
    return F.normalize(torch.cat(parts, dim=-1), dim=-1)


def extraction_models() -> Iterator[tuple[str, int, int, Extract, Extract]]:
    """For ``visil bench``: name, side in pixels, batch, the plain modules in float32 and the fast way."""
    from visil import load
    from visil.model.backbones import backbone_spec
    from visil.model.regions import imac as plain_imac
    from visil.model.whitening import Whitening

    chosen = (("resnet50", (0, 1, 2, 3), (3,), 512), (DEFAULT, (1, 2, 3), (1, 2, 3), 256))
    for name, stages, levels, dim in chosen:
        torch.manual_seed(0)
        # Random weights let the deep maps of EfficientNet-Lite fall below what half precision can tell from zero.
        network = load().backbone if name == DEFAULT else backbone_spec(name).build()
        assert network is not None
        network = network.eval().to(torch.device("cuda"))
        fast = fused(network, max(stages))
        assert fast is not None
        fast = fast.cuda()
        channels = sum(network.channels[i] for i in stages)
        whitening = Whitening(torch.zeros(channels), torch.randn(channels, dim) / channels**0.5).cuda()

        def plain(
            frames: Tensor,
            network: Backbone = network,
            whitening: Whitening = whitening,
            s: tuple[int, ...] = stages,
            n: tuple[int, ...] = levels,
        ) -> Tensor:
            maps = network.stages(network.preprocess(frames))
            return whitening(plain_imac([maps[i] for i in s], n))

        def quick(
            frames: Tensor,
            network: Backbone = fast,
            whitening: Whitening = whitening,
            s: tuple[int, ...] = stages,
            n: tuple[int, ...] = levels,
        ) -> Tensor:
            images = network.preprocess(frames).contiguous(memory_format=torch.channels_last)
            maps = network.stages(images)
            return whitening(imac([maps[i] for i in s], n))

        for side in (224, 288) if name != "resnet50" else (224,):
            yield name, side, 512, plain, quick
