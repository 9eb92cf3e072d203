"""Names in the order in which people count: 1, 2, 10."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"\d+")


def natural_order(name: str) -> str:
    """What a name is sorted by; names that differ in case or leading zeros alone are equal."""
    return _DIGITS.sub(_counted, name.casefold())


def _counted(found: re.Match[str]) -> str:
    """A number that sorts by its digits' count first, and before any text."""
    number = found[0].lstrip("0")
    return f"\0{len(number):03}{number}"
