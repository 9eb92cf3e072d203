"""Progress of long work: what it calls as it goes on. The command line makes bars of that."""

from __future__ import annotations

from collections.abc import Callable

Counted = Callable[[int, int, str], None]
"""Called with how many are done, how many there are, and the path of the last one."""

OnCount = Callable[[int, int], None]
"""Called with how many are done, and how many there are."""

OnPairs = Callable[[int, int, int], None]
"""Called with how many videos are done, how many there are, and how many pairs that makes so far."""
