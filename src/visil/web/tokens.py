"""Tokens with names and roles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from visil.errors import UsageError

Role = Literal["reader", "reviewer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""


@dataclass(frozen=True)
class Token:
    """What a caller knows, and what it may do with it."""

    name: str
    role: Role
    secret: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise UsageError(
                f"{self.name!r} is no name for a token: letters, digits, dots, dashes, and up to 64 of them"
            )
        if self.role not in ROLES:
            raise UsageError(f"{self.role!r} is no role of a token: {', '.join(ROLES)}")
        if len(self.secret) < 8 or not re.fullmatch(r"[!-~]+", self.secret):
            raise UsageError(
                "a token needs at least 8 characters: letters, digits and signs of ASCII, no blanks"
            )


def read_tokens(text: str) -> list[Token]:
    """The tokens of a file: one, or a line ``NAME ROLE TOKEN`` for each; blank lines and # are skipped."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) == 1 and len(lines[0]) == 1:
        return [Token("token", "admin", lines[0][0])]
    found = []
    for words in lines:
        if len(words) != 3:
            raise UsageError("a file of tokens has one token, or lines of NAME ROLE TOKEN")
        name, role, secret = words
        found.append(Token(name, role, secret))  # type: ignore[arg-type]  # checked there
    if not found:
        raise UsageError("the file of tokens is empty")
    for what in ("name", "secret"):
        if len({getattr(token, what) for token in found}) < len(found):
            raise UsageError(f"two tokens of the file have the same {what}")
    return found
