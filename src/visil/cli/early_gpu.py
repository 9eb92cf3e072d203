"""A GPU that gets ready while torch is imported: its driver and its context take half a second to start.

By the driver's own library, in a thread: what it makes is the context that torch finds and uses. Where there is no such
library, or no GPU, nothing happens; whoever needs one says so later.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading


def wake_gpu(device: str | None) -> None:
    """Start the GPU called ``device`` (``cuda``, ``cuda:1``), or the first (``auto``); returns at once."""
    named = re.fullmatch(r"auto|cuda(?::(\d+))?", device or "")
    if named is not None and os.name == "posix":
        threading.Thread(target=_wake, args=(int(named[1] or 0),), name="visil-gpu", daemon=True).start()


def _wake(number: int) -> None:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), number) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    except (OSError, AttributeError):
        pass
