"""Which role a call needs: looking and searching, deciding, or changing what there is to search."""

from __future__ import annotations

import re

from visil.web.tokens import Role

OPEN = {"/api/session", "/api/login", "/api/logout"}
"""Calls that need no token: they say whether one is needed, take it, and give it back."""

CHANGES_NOTHING = re.compile(r"POST /api/(search|batches|compare|uploads)|DELETE /api/(uploads|jobs)/[^/]+")
"""They start work, and change nothing in the collection."""

ADMIN = re.compile(
    r"GET /api/audit"
    r"|POST /api/add|DELETE /api/videos/[^/]+|POST /api/videos/(remove|retry)|POST /api/uploads/[^/]+/add"
    r"|POST /api/banks|(PUT|PATCH|DELETE) /api/banks/[^/]+"
)


def role_needed(method: str, path: str) -> Role:
    """The least role for a call under ``/api/``, other than :data:`OPEN` ones."""
    call = f"{method} {path}"
    if ADMIN.fullmatch(call):
        return "admin"
    if method in ("GET", "HEAD", "OPTIONS") or CHANGES_NOTHING.fullmatch(call):
        return "reader"
    return "reviewer"


def starts_work(method: str, path: str) -> bool:
    """Whether a call only starts work: of programs that are no browsers, it needs no header of ours."""
    return method == "POST" and CHANGES_NOTHING.fullmatch(f"{method} {path}") is not None
