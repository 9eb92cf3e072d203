"""Whether this process is one of our commands, and nobody else's code runs in it: then it may be forked."""

from __future__ import annotations

_ours = False


def be_ours() -> None:
    """Said by a process that does nothing else, when it begins."""
    global _ours
    _ours = True


def is_ours() -> bool:
    """Whether that was said."""
    return _ours
