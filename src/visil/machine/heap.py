"""Memory that the C library keeps for later, bounded and given back: glibc keeps all that a thread once used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress

ARENAS = 2
"""Heaps that threads share; by default glibc makes eight for each core, and each grows to the most it ever held."""

M_ARENA_MAX = -8
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3

KEPT = 1 << 30
"""Bytes that may lie free at the end of a heap."""

ON_HEAP = 32 << 20
"""Bytes of the largest block that comes from a heap, which is the most that glibc takes."""


def bound_arenas() -> None:
    """Let all threads of this process share a few heaps. For a process of our own: it holds until that ends."""
    _glibc(lambda library: library.mallopt(M_ARENA_MAX, ARENAS))


def keep_heap() -> None:
    """Keep free memory for the next time, until :func:`give_back`.

    Else glibc gives a network's maps to the system after each layer, and for each of the next ones' pages the system
    has to be asked, which zeroes it: a fifth of the time to embed a short clip, and more where many processes ask.
    """
    _glibc(
        lambda library: (library.mallopt(M_TRIM_THRESHOLD, KEPT), library.mallopt(M_MMAP_THRESHOLD, ON_HEAP))
    )


def give_back() -> None:
    """Give memory that is free to the system, which costs some milliseconds."""
    _glibc(lambda library: library.malloc_trim(0))


def _glibc(call: Callable[..., object]) -> None:
    if sys.platform != "linux":
        return
    import ctypes

    with suppress(OSError, AttributeError):  # another C library
        call(ctypes.CDLL(None))
