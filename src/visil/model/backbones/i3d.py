"""I3D (Carreira and Zisserman 2017): Inception-v1 inflated to three dimensions, RGB stream, for the action videos.

The paper takes its features for ActivityNet from the last 3D convolution, max-pooled over space (Sec. 5.2): here the
output of ``Mixed_5c``, 1,024 channels for every eight frames. Videos are read as by its authors: 25 frames a second,
the shorter side 256 pixels, the centre 224, values in [-1, 1], in windows of 64 frames, as long as its training clips.
(ViSiL's own TensorFlow code takes something else than its paper says: the 400 logits of windows of 25 frames.)
Convolutions and poolings pad as TensorFlow's "SAME" does, where the published weights come from.

Parameter names are those that conversions of the published checkpoint to PyTorch commonly carry: each convolution is
``NAME.conv3d.weight`` with its batch norm ``NAME.bn.{weight,bias,running_mean,running_var}``, where NAME is
``Conv3d_1a_7x7``, ``Conv3d_2b_1x1``, ``Conv3d_2c_3x3``, or a branch of ``Mixed_3b`` to ``Mixed_5c``: ``.b0`` (1×1×1),
``.b1a`` then ``.b1b`` (3×3×3), ``.b2a`` then ``.b2b`` (3×3×3), ``.b3b`` (1×1×1 after a pooling).
"""

from __future__ import annotations

import os

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from visil.errors import ModelError, UsageError
from visil.model.backbones.efficientnet_lite import same_padding
from visil.model.backbones.weights import load_into, read_checkpoint

FILE = "rgb_imagenet.pt"
"""Usual name of the converted checkpoint (ImageNet, then Kinetics)."""

STRIDE = 8
"""Frames for each feature."""

CLIP = 64
"""Frames that go through the network together: the length of its training clips, at 25 frames a second."""

Triple = tuple[int, int, int]

# Channels of the branches b0, b1a, b1b, b2a, b2b, b3b: Inception-v1's table.
MIXED: dict[str, tuple[int, int, int, int, int, int]] = {
    "3b": (64, 96, 128, 16, 32, 32),
    "3c": (128, 128, 192, 32, 96, 64),
    "4b": (192, 96, 208, 16, 48, 64),
    "4c": (160, 112, 224, 24, 64, 64),
    "4d": (128, 128, 256, 24, 64, 64),
    "4e": (112, 144, 288, 32, 64, 64),
    "4f": (256, 160, 320, 32, 128, 128),
    "5b": (256, 160, 320, 32, 128, 128),
    "5c": (384, 192, 384, 48, 128, 128),
}


class Unit3D(nn.Module):
    """Convolution without bias, batch norm, ReLU; the output is ceil(size / stride) along each axis."""

    def __init__(
        self, channels_in: int, channels_out: int, kernel: Triple, stride: Triple = (1, 1, 1)
    ) -> None:
        super().__init__()
        self.conv3d = nn.Conv3d(channels_in, channels_out, kernel, stride, bias=False)
        self.bn = nn.BatchNorm3d(channels_out, eps=1e-3, momentum=0.01)
        self.kernel, self.stride = kernel, stride

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T, H, W] to [B, C', T', H', W']."""
        return F.relu(self.bn(self.conv3d(F.pad(x, same_pads(x, self.kernel, self.stride)))))


class Mixed(nn.Module):
    """An Inception block: four branches side by side, their channels one after the other."""

    def __init__(self, channels_in: int, widths: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        self.b0 = Unit3D(channels_in, widths[0], (1, 1, 1))
        self.b1a = Unit3D(channels_in, widths[1], (1, 1, 1))
        self.b1b = Unit3D(widths[1], widths[2], (3, 3, 3))
        self.b2a = Unit3D(channels_in, widths[3], (1, 1, 1))
        self.b2b = Unit3D(widths[3], widths[4], (3, 3, 3))
        self.b3b = Unit3D(channels_in, widths[5], (1, 1, 1))
        self.channels = widths[0] + widths[2] + widths[4] + widths[5]

    def forward(self, x: Tensor) -> Tensor:
        """[B, C, T, H, W] to [B, C', T, H, W]."""
        pooled = max_pool(x, (3, 3, 3), (1, 1, 1))
        return torch.cat([self.b0(x), self.b1b(self.b1a(x)), self.b2b(self.b2a(x)), self.b3b(pooled)], dim=1)


class I3D(nn.Module):
    """Clips [B, 3, T, H, W] to feature maps of ``Mixed_5c``: [B, 1024, T/8, H/32, W/32], each rounded up."""

    unused_keys = ("logits.conv3d.weight", "logits.conv3d.bias")
    """In the checkpoint, but of the classifier that is not built here."""
    channels: tuple[int, ...] = (1024,)

    def __init__(self) -> None:
        super().__init__()
        self.Conv3d_1a_7x7 = Unit3D(3, 64, (7, 7, 7), (2, 2, 2))
        self.Conv3d_2b_1x1 = Unit3D(64, 64, (1, 1, 1))
        self.Conv3d_2c_3x3 = Unit3D(64, 192, (3, 3, 3))
        width = 192
        for name, widths in MIXED.items():
            block = Mixed(width, widths)
            self.add_module(f"Mixed_{name}", block)
            width = block.channels

    @classmethod
    def from_file(cls, weights: str | os.PathLike[str] | None) -> I3D:
        """The network with the weights of a converted checkpoint, ``.pt`` or ``.safetensors``; ready for inference."""
        if weights is None:
            raise ModelError(
                f"I3D needs weights: give the RGB checkpoint converted to PyTorch (usually {FILE}) as i3d_weights"
            )
        network = cls()
        load_into(network, read_checkpoint(weights), os.fspath(weights), cls.unused_keys)
        return network.eval()

    def preprocess(self, frames: Tensor) -> Tensor:
        """RGB uint8 [T, H, W, 3] to one clip [1, 3, T, H, W] in [-1, 1]."""
        return (frames.to(self.Conv3d_1a_7x7.conv3d.weight.dtype) / 127.5 - 1).permute(3, 0, 1, 2)[None]

    def forward(self, clips: Tensor) -> Tensor:
        """[B, 3, T, H, W] to [B, 1024, T', H', W']."""
        x = max_pool(self.Conv3d_1a_7x7(clips), (1, 3, 3), (1, 2, 2))
        x = max_pool(self.Conv3d_2c_3x3(self.Conv3d_2b_1x1(x)), (1, 3, 3), (1, 2, 2))
        for name in MIXED:
            if name == "4b":
                x = max_pool(x, (3, 3, 3), (2, 2, 2))
            elif name == "5b":
                x = max_pool(x, (2, 2, 2), (2, 2, 2))
            x = self.get_submodule(f"Mixed_{name}")(x)
        return x

    def stages(self, images: Tensor) -> list[Tensor]:  # noqa: ARG002
        """Not of frames: :meth:`features` reads windows."""
        raise ModelError(
            "I3D reads windows of a video at its own rate, not single frames: such a model compares features, which "
            "visil tables --i3d-weights makes"
        )

    @torch.inference_mode()
    def features(self, frames: Tensor, *, clip: int = CLIP) -> Tensor:
        """Frames uint8 [T, H, W, 3], in the video's own rate, to [ceil(T/8), 1024]: maxima over space, on the CPU.

        ``clip`` frames are seen together, so nothing moves across the borders between clips.
        """
        if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != torch.uint8 or 0 in frames.shape:
            raise UsageError(f"frames must be uint8 [T, H, W, 3], got {frames.dtype} {list(frames.shape)}")
        if clip < 1 or clip % STRIDE:
            raise UsageError(f"clip must be a multiple of {STRIDE}, not {clip}")
        device = self.Conv3d_1a_7x7.conv3d.weight.device
        parts = [self(self.preprocess(part.to(device))).amax(dim=(3, 4))[0].T for part in frames.split(clip)]
        return torch.cat([part.float().cpu() for part in parts])


def max_pool(x: Tensor, kernel: Triple, stride: Triple) -> Tensor:
    """Max pooling that pads as TensorFlow's "SAME"; what is padded never wins."""
    return F.max_pool3d(F.pad(x, same_pads(x, kernel, stride), value=-torch.inf), kernel, stride)


def same_pads(x: Tensor, kernel: Triple, stride: Triple) -> list[int]:
    """Padding of TensorFlow's "SAME" for [..., T, H, W], more behind than before; last axis first, for ``F.pad``."""
    pads: list[int] = []
    for size, length, step in zip(reversed(x.shape[-3:]), reversed(kernel), reversed(stride), strict=True):
        pads += same_padding(size, length, step)
    return pads
