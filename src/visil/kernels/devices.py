"""Where a model computes: what was asked for, or what there is."""

from __future__ import annotations

import os

import torch

from visil.errors import UsageError

VARIABLE = "VISIL_DEVICE"
"""The environment variable by which a user chooses for a whole process, and those it starts."""


def chosen_device(name: str | None = None, local_rank: int = 0) -> torch.device:
    """``auto`` is CUDA where there is one; None: as :data:`VARIABLE` says, else the CPU.

    Processes that were started together take one GPU each, by their ``local_rank``.
    """
    origin = "" if name else f"{VARIABLE}: "
    name = name or os.environ.get(VARIABLE) or "cpu"
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"{origin}unknown device {name!r}: choose auto, cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"{origin}device {name} was asked for, but torch finds no GPU: choose cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"{origin}device {name} was asked for, but torch finds {torch.cuda.device_count()} GPU"
        )
    return torch.device("cuda", local_rank) if device == torch.device("cuda") else device
