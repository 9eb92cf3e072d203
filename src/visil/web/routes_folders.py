"""Calls about the folders that the server may read, so that nobody has to type a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query

from visil.errors import printable
from visil.video import is_video_path
from visil.web import shapes
from visil.web.problems import RESPONSES, Problem
from visil.web.roots import Roots
from visil.web.serving import Serving

MOST = 1000
"""Folders, and videos, that one answer names."""


def routes(serving: Serving) -> APIRouter:
    """``/api/folders``."""
    router = APIRouter(prefix="/api/folders", tags=["folders"], responses=RESPONSES)

    @router.get("", response_model=shapes.Folder, summary="What is in a folder that the server may read")
    async def folder(path: Annotated[str, Query(max_length=4096)] = "") -> dict[str, Any]:
        return await serving.listed(look_into, serving.roots, path)

    return router


def look_into(roots: Roots, path: str) -> dict[str, Any]:
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
    """What a folder holds, by name; nothing hidden, and nothing that a link leads outside to."""
    try:
        names = sorted(os.listdir(folder), key=str.casefold)
    except OSError as error:
        raise Problem(
            403, f"{printable(os.fspath(folder))}: cannot be read ({(error.strerror or '').lower()})."
        ) from error
    shown = [folder / name for name in names if not name.startswith(".")]
    yield from roots.inside(shown)


def _fit(named: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those whose path survives being sent as text."""
    return [one for one in named if one["path"].isprintable()]
