"""Calls about who asks, and about the folders that the server may read, so that nobody has to type a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from visil import __version__
from visil.errors import os_reason, printable
from visil.video import is_video_path
from visil.web import shapes
from visil.web.callers import COOKIE, SESSION_S, Caller, new_session, session_ends
from visil.web.problems import RESPONSES, Problem
from visil.web.roots import Roots
from visil.web.service import Service

MOST = 1000
"""Folders, and videos, that one answer names."""


def routes(service: Service) -> APIRouter:
    """``/api/session``, ``/api/login``, ``/api/logout``, ``/api/audit`` and ``/api/folders``."""
    router = APIRouter(prefix="/api", responses=RESPONSES)
    settings = service.settings

    def facts(caller: Caller | None) -> dict[str, Any]:
        nothing = {"name": "", "videos": 0, "model": "", "writable": False}
        known = caller is not None
        return {
            "authenticated": known,
            "token_needed": bool(settings.tokens),
            "name": caller.name if caller is not None else None,
            "role": caller.role if caller is not None else None,
            "version": __version__ if known else "",
            "index": _index(service) if known else nothing,
            "limits": {
                "upload_bytes": settings.limits.upload_bytes,
                "upload_seconds": settings.limits.upload_seconds,
            },
            "roots": [printable(os.fspath(root)) for root in service.roots.folders] if known else [],
        }

    @router.get(
        "/session",
        response_model=shapes.Session,
        summary="Whether a token is needed, and what is served",
        tags=["session"],
    )
    async def session(request: Request) -> dict[str, Any]:
        return await service.look_up(facts, request.state.caller)

    @router.post(
        "/login", response_model=shapes.Session, tags=["session"], summary="Trade the token for a cookie"
    )
    async def login(body: shapes.LoginRequest, request: Request, response: Response) -> dict[str, Any]:
        caller: Caller | None = request.state.caller
        if settings.tokens:
            address = request.client.host if request.client else ""
            token = await service.tokens.find(body.token, address)
            if token is None:
                raise Problem(401, "That token is not valid.")
            caller = Caller(token.name, token.role, address)
            request.state.logged_in = token.name
            response.set_cookie(
                COOKIE,
                new_session(token.secret),
                max_age=SESSION_S,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return await service.look_up(facts, caller)

    @router.post("/logout", status_code=204, tags=["session"], summary="End the session of the cookie")
    async def logout(request: Request, response: Response) -> None:
        cookie = request.cookies.get(COOKIE, "")
        if service.tokens.of_session(cookie) is not None:
            await service.look_up(service.access.log_out, cookie, session_ends(cookie))
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    @router.get(
        "/audit", response_model=shapes.Audit, tags=["audit"], summary="Who changed and judged what, and when"
    )
    async def audit(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        who: Annotated[str, Query(max_length=64, description="Only of this token.")] = "",
        action: Annotated[str, Query(max_length=200, examples=["judgements"])] = "",
        since: shapes.Moment | None = None,
    ) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            after = 0.0 if since is None else since.timestamp()
            total, entries = service.access.audit(offset, limit, who=who, action=action, since=after)
            return {"total": total, "offset": offset, "entries": entries}

        return await service.look_up(read)

    @router.get(
        "/folders",
        response_model=shapes.Folder,
        tags=["folders"],
        summary="What is in a folder that the server may read",
    )
    async def folder(path: Annotated[str, Query(max_length=4096)] = "") -> dict[str, Any]:
        return await service.look_up(contents, service.roots, path)

    return router


def _index(service: Service) -> dict[str, Any]:
    return {
        "name": printable(service.settings.index.name),
        "videos": len(service.library.snapshot().by_id),
        "model": service.index.catalogue.fact("model") or "not chosen yet",
        "writable": service.index.writable,
    }


def contents(roots: Roots, path: str) -> dict[str, Any]:
    """Folders and videos in a folder; without a path, the folders that may be read."""
    if not path:
        named = [{"name": os.fspath(root), "path": os.fspath(root)} for root in roots.folders]
        return {"path": None, "above": None, "folders": _fit(named), "videos": [], "more": False}
    folder = roots.resolve(path)
    if not folder.is_dir():
        raise Problem(422, f"{printable(path)}: is a file, not a folder.")
    folders, videos = [], []
    for entry in _inside(roots, folder):
        if entry.is_dir():
            folders.append({"name": entry.name, "path": os.fspath(entry)})
        elif is_video_path(entry):
            videos.append({"name": entry.name, "path": os.fspath(entry)})
    above = folder.parent if roots.holds(folder.parent) else None
    return {
        "path": os.fspath(folder),
        "above": None if above is None else os.fspath(above),
        "folders": _fit(folders)[:MOST],
        "videos": _fit(videos)[:MOST],
        "more": len(folders) > MOST or len(videos) > MOST,
    }


def _inside(roots: Roots, folder: Path) -> Iterator[Path]:
    """The content of a folder, by name; nothing hidden, and nothing that a link leads outside to."""
    try:
        names = sorted(os.listdir(folder), key=str.casefold)
    except OSError as error:
        raise Problem(403, f"{printable(os.fspath(folder))}: cannot be read ({os_reason(error)}).") from error
    shown = [folder / name for name in names if not name.startswith(".")]
    yield from roots.inside(shown)


def _fit(named: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those whose path survives being sent as text."""
    return [one for one in named if one["path"].isprintable()]
