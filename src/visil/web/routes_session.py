"""Calls about who asks."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from visil import __version__
from visil.errors import printable
from visil.web import shapes
from visil.web.guard import COOKIE, SESSION_S, new_session, same
from visil.web.problems import RESPONSES, Problem
from visil.web.serving import Serving, caller


def routes(serving: Serving) -> APIRouter:
    """``/api/session``, ``/api/login`` and ``/api/logout``."""
    router = APIRouter(prefix="/api", tags=["session"], responses=RESPONSES)
    settings = serving.settings

    def facts(known: bool) -> dict[str, Any]:
        nothing = {"name": "", "videos": 0, "model": "", "writable": False}
        return {
            "authenticated": known,
            "token_needed": settings.token is not None,
            "version": __version__ if known else "",
            "index": _index(serving) if known else nothing,
            "limits": {
                "upload_bytes": settings.limits.upload_bytes,
                "upload_seconds": settings.limits.upload_seconds,
            },
            "roots": [printable(os.fspath(root)) for root in serving.roots.folders] if known else [],
        }

    @router.get(
        "/session", response_model=shapes.Session, summary="Whether a token is needed, and what is served"
    )
    async def session(request: Request) -> dict[str, Any]:
        return await serving.listed(facts, bool(request.state.authenticated))

    @router.post("/login", response_model=shapes.Session, summary="Trade the token for a cookie")
    async def login(body: shapes.LoginRequest, request: Request, response: Response) -> dict[str, Any]:
        if settings.token is not None:
            serving.logins.take(caller(request))
            if not same(body.token, settings.token):
                raise Problem(401, "That is not the token that the server was started with.")
            response.set_cookie(
                COOKIE,
                new_session(settings.token),
                max_age=SESSION_S,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return await serving.listed(facts, True)

    @router.post("/logout", status_code=204, summary="Forget the cookie")
    async def logout(response: Response) -> None:
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    return router


def _index(serving: Serving) -> dict[str, Any]:
    return {
        "name": printable(serving.settings.index.name),
        "videos": len(serving.library.snapshot().by_id),
        "model": serving.index.catalogue.fact("model") or "not chosen yet",
        "writable": serving.index.writable,
    }
