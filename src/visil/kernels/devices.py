"""Devices: the one asked for, or the one there is; and whether the GPU kernels run there."""

from __future__ import annotations

import os
from functools import lru_cache

import torch

from visil.errors import UsageError
from visil.model.formula import Formula
from visil.model.similarity import MP_AP

VARIABLE = "VISIL_DEVICE"
"""The environment variable by which a user chooses for a whole process, and those it starts."""

KERNELS_VARIABLE = "VISIL_GPU_KERNELS"
"""Set to 0, plain torch is used on a GPU too."""

OLDEST = (8, 0)
"""Compute capability that the kernels' matrix instructions need."""


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


def has_kernels(device: torch.device) -> bool:
    """Whether tensors on ``device`` may be given to the GPU kernels; where not, plain torch does the same work."""
    return device.type == "cuda" and why_no_kernels(device) is None


def kernels_know(formula: Formula) -> bool:
    """Whether the kernels compute a formula: each region's best partner, then any pooling; videos by Chamfer."""
    return formula.frame_pool[0] == "max" and formula.video_pool == MP_AP


def why_no_kernels(device: torch.device) -> str | None:
    """The reason why the kernels cannot run, for people; None: they can."""
    if device.type != "cuda":
        return "not a CUDA device"
    if os.environ.get(KERNELS_VARIABLE) == "0":
        return f"{KERNELS_VARIABLE}=0"
    return _tried(device.index if device.index is not None else torch.cuda.current_device())


@lru_cache(maxsize=64)
def _tried(index: int) -> str | None:
    """One small product: compilers, drivers and old chips say what they lack, unless it was right here before."""
    major, minor = torch.cuda.get_device_capability(index)
    if (major, minor) < OLDEST:
        return f"compute capability {major}.{minor}, {OLDEST[0]}.{OLDEST[1]} is needed"
    device = torch.device("cuda", index)
    try:
        from visil.kernels.passed_checks import passed, remember_key

        remember_key()
        return None if passed(lambda: _multiplies(device), "products", device) else "its result is wrong"
    except ImportError:
        return "Triton is not installed: pip install triton"
    except Exception as error:  # whatever a compiler or driver raises: torch takes over
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def _multiplies(device: torch.device) -> bool:
    from visil.kernels.triton_frames import frame_products, prepared

    vectors = prepared(torch.ones(1, 1, 64, device=device) / 8, torch.float16)
    found = frame_products(vectors, vectors, torch.empty(1, 1, device=device))
    return abs(float(found) - 1) < 1e-2
