"""What a benchmark found: one line of the table that ``visil bench`` prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A speed or a size, beside that of the plain formula measured in the same process."""

    name: str
    value: float
    unit: str
    plain: float | None = None
    """The same by the plain formula."""
    ratio: float | None = None
    """How many times better; None: nothing to compare with."""
    note: str = ""
