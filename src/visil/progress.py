"""Progress of long work: what it calls as it goes on. The command line makes bars of that."""

from __future__ import annotations

from collections.abc import Callable

Counted = Callable[[int, int, str], None]
"""Called with how many are done, how many there are, and the path of the last one."""
