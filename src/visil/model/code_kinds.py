"""The kinds of codes that region vectors are kept as (:mod:`visil.model.codes`), without the networks."""

from __future__ import annotations

from typing import Literal, get_args

from visil.errors import UsageError

Codes = Literal["fp16", "int8", "binary"]

KINDS: tuple[Codes, ...] = get_args(Codes)


def checked(kind: str) -> Codes:
    """``kind``, if there is such a one."""
    for known in KINDS:
        if kind == known:
            return known
    raise UsageError(f"codes must be one of {', '.join(KINDS)}, not {kind!r}")
