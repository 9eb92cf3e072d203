"""Whether a device can run the GPU kernels; where it cannot, plain torch does the same work."""

from __future__ import annotations

import os
from functools import lru_cache

import torch

VARIABLE = "VISIL_GPU_KERNELS"
"""Set to 0, plain torch is used on a GPU too."""

OLDEST = (8, 0)
"""Compute capability that the kernels' matrix instructions need."""


def usable(device: torch.device) -> bool:
    """Whether tensors on ``device`` may be given to the kernels."""
    return device.type == "cuda" and why_not(device) is None


def why_not(device: torch.device) -> str | None:
    """The reason why the kernels cannot run, for people; None: they can."""
    if device.type != "cuda":
        return "not a CUDA device"
    if os.environ.get(VARIABLE) == "0":
        return f"{VARIABLE}=0"
    return _tried(device.index if device.index is not None else torch.cuda.current_device())


@lru_cache(maxsize=64)
def _tried(index: int) -> str | None:
    """One small product: compilers, drivers and old chips say what they lack, once in a process."""
    major, minor = torch.cuda.get_device_capability(index)
    if (major, minor) < OLDEST:
        return f"compute capability {major}.{minor}, {OLDEST[0]}.{OLDEST[1]} is needed"
    try:
        from visil.kernels.triton_frames import frame_products, prepared

        device = torch.device("cuda", index)
        vectors = prepared(torch.ones(1, 1, 64, device=device) / 8, torch.float16)
        found = frame_products(vectors, vectors, torch.empty(1, 1, device=device))
        return None if abs(float(found) - 1) < 1e-2 else "its result is wrong"
    except ImportError:
        return "Triton is not installed: pip install triton"
    except Exception as error:  # whatever a compiler or driver raises: torch takes over
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
