"""Checks of a GPU that were passed on this machine before are not made again on each start.

A check compiles kernels and loads libraries that the work itself may not need, which takes seconds. What it depends on
(the chip, the driver, the versions of torch and Triton, the weights) is its name in ``checks/`` of the cache folder;
whatever changes is checked anew, and so is what failed. Deleting the folder loses nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import metadata

import torch
from torch import Tensor

from visil.files import cache_folder


def passed(
    check: Callable[[], bool], name: str, device: torch.device, weights: Iterable[Tensor] = ()
) -> bool:
    """Whether ``check`` holds on ``device`` for a network of these weights: known from before, or found out now."""
    mark = cache_folder() / "checks" / f"{name}-{_circumstances(device, weights)}"
    if mark.exists():
        return True
    if not check():
        return False
    with suppress(OSError):  # a home that cannot be written to: checked again the next time
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return True


def _circumstances(device: torch.device, weights: Iterable[Tensor]) -> str:
    known: list[object] = [_version("visil"), torch.__version__, _version("triton")]
    if device.type == "cuda":
        chip = torch.cuda.get_device_properties(device)
        known += [chip.name, chip.major, chip.minor, torch.version.cuda, torch.backends.cudnn.version()]
        known.append(getattr(torch._C, "_cuda_getDriverVersion", lambda: None)())
    digest = hashlib.blake2b(repr(known).encode(), digest_size=12)
    parts = [part.detach().flatten() for part in weights if part.is_floating_point()]
    if parts:
        digest.update(torch.cat(parts).cpu().numpy().tobytes())
    return digest.hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
