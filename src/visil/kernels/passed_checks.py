"""Checks of a GPU that take long are remembered in the cache folder, and not repeated on each start.

A check compiles kernels and loads libraries that the work itself may not need, which takes seconds. What it depends on
(the chip, the driver, the versions of torch and Triton, the weights) is its name in ``checks/`` of the cache folder;
whatever changes is checked anew, and so is what failed. Triton's own name is part of the name of every kernel that lies
compiled on disk, and Triton makes it from the bytes of all of its files, its library among them, in every process:
nearly half a second before the first kernel runs. As long as that library is the one it was, so is the name. Deleting
the folder loses nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import metadata
from pathlib import Path

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


def remember_key() -> None:
    """Let Triton take its name from the cache folder, where it has been reckoned before; else as it always does."""
    import triton
    from triton.runtime import cache

    reckoned = getattr(cache, "triton_key", None)
    libraries = sorted(Path(triton.__file__).parent.glob("_C/libtriton*"))
    if reckoned is None or not libraries or getattr(cache, "visil_remembers", False):
        return
    try:
        stamps = [one.stat() for one in (Path(cache.__file__), *libraries)]
    except OSError:
        return
    known = [triton.__version__, triton.__file__, *((one.st_size, one.st_mtime_ns) for one in stamps)]
    digest = hashlib.blake2b(repr(known).encode(), digest_size=12).hexdigest()
    file = cache_folder() / "checks" / f"triton-{digest}"

    @lru_cache
    def triton_key() -> str:
        with suppress(OSError, UnicodeDecodeError):
            found = file.read_text("utf-8")
            if found.startswith(triton.__version__):
                return found
        made = str(reckoned())
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}-{os.getpid()}")
            fresh.write_text(made, "utf-8")
            os.replace(fresh, file)
        return made

    cache.triton_key = triton_key
    cache.visil_remembers = True
