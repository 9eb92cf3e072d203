"""`visil.load`: one name, whatever it stands for."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from importlib import resources
from pathlib import Path

import torch

from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.kernels.devices import chosen_device
from visil.kernels.precision import Precision, check_precision
from visil.model.config import PRESETS, ViSiLConfig, preset
from visil.model.pretrained import load as load_pretrained
from visil.model.pretrained import load_folder

DEFAULT = "default"


def load(
    name: str | os.PathLike[str] | None = None,
    *,
    backbone: str | None = None,
    backbone_weights: str | os.PathLike[str] | None = None,
    device: str | None = None,
    precision: Precision | None = None,
) -> ViSiL:
    """A model, ready to embed and compare.

    ``name`` is None for the default model, a preset of the paper ("visil-v"), a folder written by
    ``save_pretrained``, or a hub id. ``backbone`` and ``backbone_weights`` choose another network for a preset, and
    the file of its weights; without a file they come from their package or torch's hub cache. ``device`` is "cpu",
    "cuda" or "auto"; None: as ``VISIL_DEVICE`` says, else the CPU. ``precision`` is its arithmetic: "auto",
    "fp32", or another that the device has (:mod:`visil.kernels.precision`); None: as ``VISIL_PRECISION`` says, else
    fp16 on a GPU and fp32 on the CPU.
    """
    there = chosen_device(device)
    check_precision(precision, there)
    if there.type == "cuda":
        threading.Thread(target=_load_libraries, args=(there,), name="visil-cudnn", daemon=True).start()
    model = _load(name, backbone, backbone_weights).to(there).eval()
    model.precision = precision
    return model


def _load_libraries(device: torch.device) -> None:
    """A GPU's libraries for convolutions and products are loaded when first used: that can be while a model is read."""
    with suppress(RuntimeError), torch.inference_mode():
        one = torch.ones(1, 8, 8, 8, dtype=torch.float16, device=device)
        torch.conv2d(one, one)
        torch.mm(one[0, 0], one[0, 0])


def default_folder() -> Path:
    """Where the default model lies inside the package."""
    return Path(str(resources.files("visil"))) / "models" / DEFAULT


def _load(
    name: str | os.PathLike[str] | None, backbone: str | None, backbone_weights: str | os.PathLike[str] | None
) -> ViSiL:
    if isinstance(name, str) and name.lower().replace("_", "-") in PRESETS:
        model = ViSiL(preset_config(name, backbone), with_backbone=False).load_backbone(backbone_weights)
        parts = {"whitening": model.whitening, "attention": model.attention, "comparator": model.comparator}
        model.warn_untrained([part for part, module in parts.items() if module is not None])
        return model
    if backbone is not None:
        raise ModelError("a backbone can be chosen for a preset of the paper, not for a finished model")
    model = (
        load_folder(default_folder(), ViSiL) if name in (None, DEFAULT) else load_pretrained(str(name), ViSiL)
    )
    return model.load_backbone(backbone_weights) if backbone_weights is not None else model


def preset_config(name: str, backbone: str | None = None) -> ViSiLConfig:
    """A preset, also on another backbone: as wide as that backbone is, where the paper keeps the full width."""
    from visil.model.backbones import channels_of

    config = preset(name)
    if backbone is None or backbone == config.backbone:
        return config
    width = sum(channels_of(backbone)[i] for i in config.stages)
    full = config.dim == sum(channels_of(config.backbone)[i] for i in config.stages)
    dim = config.dim and (width if full else min(config.dim, width))
    return config.replaced(backbone=backbone, dim=dim)
