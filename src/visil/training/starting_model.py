"""The model that training begins with: a finished one or a preset, with what the configuration changes about it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.model.backbones import channels_of
from visil.model.config import PRESETS, ViSiLConfig
from visil.model.whitening import Whitening
from visil.training.config import TrainConfig
from visil.video import Sampling


@dataclass(frozen=True)
class Start:
    """A model, and what of it has yet to be fitted."""

    model: ViSiL
    fit_whitening: bool
    fit_rotation: bool = False
    """Whether its binary codes have yet to be turned so that signs lose least."""


def starting_model(config: TrainConfig) -> Start:
    """The model of ``config.model``; parts that the model it starts from has in the same shape are taken over."""
    wanted = config.model
    is_preset = wanted.start.lower().replace("_", "-") in PRESETS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a preset is untrained is why we are here
        base = load(wanted.start, backbone=wanted.backbone, backbone_weights=wanted.backbone_weights)
    settings = changed_config(config, base.config)
    model = ViSiL(settings, with_backbone=False)
    model.backbone, model.why_no_backbone = base.backbone, base.why_no_backbone
    for part in ("whitening", "attention", "comparator"):
        _take_over(getattr(model, part), getattr(base, part))
    same = all(
        getattr(settings, name) == getattr(base.config, name) for name in ("dim", "pooling", "sampling")
    )
    if same and not is_preset and _adds_stages(base, settings.stages):
        model.whitening = widened(base, settings.stages)
    elif settings.stages != base.config.stages:
        same = False
    rotates = settings.attention == "binary" and base.config.attention != "binary"
    return Start(model, model.whitening is not None and (is_preset or not same), rotates)


def changed_config(config: TrainConfig, base: ViSiLConfig) -> ViSiLConfig:
    """The configuration of the model: ``base`` with the changes in ``config.model``."""
    wanted = config.model
    changes: dict[str, Any] = {
        name: value
        for name in ("stages", "levels", "dim", "symmetric", "frame_pool", "video_pool")
        if (value := getattr(wanted, name)) is not None
    }
    for name in ("attention", "comparator"):
        value = getattr(wanted, name)
        if value is not None:
            changes[name] = None if value == "none" else value
    changes["sampling"] = _sampling(config, base.sampling)
    # Calibration, background and reader belong to the similarities they were fitted on, which are about to change.
    changes |= {"name": wanted.name or f"{base.name}-trained", "calibration": None}
    changes |= {"background": 0, "reader": None}
    settings = base.replaced(**changes)
    if settings.dim is not None:
        channels = channels_of(settings.backbone)
        width = sum(channels[i] for i in settings.stages if i < len(channels)) or settings.dim
        settings = settings.replaced(dim=min(settings.dim, width))
    return settings


def widened(base: ViSiL, stages: tuple[int, ...]) -> Whitening:
    """The whitening of ``base`` for more stages: new channels count for nothing yet, so features stay the same.

    Each stage's part of a region vector has the length 1/√(number of stages) (L_N-iMAC), which shrinks as stages are
    added; the mean shrinks along, and unit vectors come out as before.
    """
    assert base.whitening is not None
    assert base.backbone is not None
    widths = [base.backbone.channels[stage] for stage in stages]
    old = [base.backbone.channels[stage] for stage in base.config.stages]
    means = dict(zip(base.config.stages, base.whitening.mean.split(old), strict=True))
    axes = dict(zip(base.config.stages, base.whitening.projection.split(old), strict=True))
    shrunk = (len(old) / len(widths)) ** 0.5
    dim = base.whitening.dim
    mean = [
        means[s] * shrunk if s in means else torch.zeros(width)
        for s, width in zip(stages, widths, strict=True)
    ]
    projection = [
        axes[s] if s in axes else torch.zeros(width, dim) for s, width in zip(stages, widths, strict=True)
    ]
    return Whitening(torch.cat(mean), torch.cat(projection))


def _adds_stages(base: ViSiL, stages: tuple[int, ...]) -> bool:
    more = set(stages) > set(base.config.stages)
    return more and base.whitening is not None and base.backbone is not None


def _sampling(config: TrainConfig, base: Sampling) -> Sampling:
    """How frames are seen; by a student, as its teacher sees them."""
    if config.loss.teacher is not None:
        seen = load(config.loss.teacher).config.sampling
        return replace(seen, fps=config.data.fps or seen.fps)
    side = config.model.side or base.crop
    return replace(
        base,
        fps=config.data.fps or base.fps,
        crop=side,
        resize=max(side, base.resize) if config.model.side is None else side,
        fit=config.model.fit or base.fit,
    )


def _take_over(part: nn.Module | None, old: nn.Module | None) -> None:
    if part is None or old is None or type(part) is not type(old):
        return
    state = old.state_dict()
    if {k: v.shape for k, v in part.state_dict().items()} == {k: v.shape for k, v in state.items()}:
        part.load_state_dict(state)
