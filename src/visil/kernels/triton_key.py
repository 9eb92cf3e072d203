"""Triton's own name, remembered: it is part of the name of every kernel that lies compiled on disk.

Triton makes it from the bytes of all of its files, its library among them, in every process: nearly half a second
before the first kernel runs. As long as that library is the one it was, so is the name.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from visil.files import cache_folder


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
