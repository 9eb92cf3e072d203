"""Calls about files that callers name by path: to watch what was searched for where it lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from visil.collection.identity import Stamp, stamp_of
from visil.errors import VideoError, printable
from visil.video import VideoInfo
from visil.web.pictures import picture_size
from visil.web.problems import RESPONSES, Problem
from visil.web.ranges import send_file
from visil.web.routes_library import FILE, JPEG, Tag, Width, picture_response
from visil.web.sandbox import Decoder
from visil.web.serving import Serving, caller

MOST_KNOWN = 500
"""Files that are remembered to be videos."""

Named = Annotated[str, Query(max_length=4096, examples=["/videos/b.mp4"])]


class Files:
    """Files inside the roots; only what a decoder takes for a video is shown."""

    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self._known: dict[tuple[str, Stamp], VideoInfo] = {}

    def look_at(self, path: str) -> tuple[Path, Stamp, VideoInfo]:
        """A video by its path; a problem where it is none, or may not be read."""
        real = self.serving.roots.resolve(path)
        if not real.is_file():
            raise Problem(422, f"{printable(path)}: is a folder, and cannot be played.")
        try:
            stamp = stamp_of(real)
            key = (os.fspath(real), stamp)
            if key not in self._known:
                with Decoder(self.serving.settings.limits) as decoder:
                    info = decoder.probe(real)
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = info
        except VideoError as error:
            raise Problem(422, f"{printable(real.name)}: {error.reason}") from error
        return real, stamp, self._known[key]


def routes(serving: Serving) -> APIRouter:
    """``/api/files``."""
    router = APIRouter(prefix="/api/files", tags=["files"], responses=RESPONSES)
    files = Files(serving)

    @router.get(
        "/stream", responses=FILE, response_class=Response, summary="The file at a path, or a part of it"
    )
    @router.head("/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(request: Request, path: Named) -> Response:
        real, stamp, _ = await serving.painted(files.look_at, path)
        whole = (stamp.size, stamp.modified_ns)
        return send_file(request, real, printable(real.name), serving.readers, whole)

    @router.get("/thumbnail", responses=JPEG, response_class=Response, summary="One frame of it")
    async def thumbnail(
        request: Request,
        path: Named,
        at: Annotated[float | None, Query(ge=0, le=10**7, allow_inf_nan=False)] = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        real, stamp, info = await serving.painted(files.look_at, path)
        time = 0.3 * (info.duration or 0.0) if at is None else at
        pictures = serving.pictures
        key = pictures.key(f"{os.fsencode(real)!r} {stamp}", [time], width)
        if known == f'"{key}"':
            return picture_response(None, key)
        data = await serving.painted(pictures.kept, key)
        if data is None:
            serving.paintings.take(caller(request))
            size = picture_size(width, info.width, info.height)
            try:
                data = await serving.painted(pictures.make, key, real, [time], size)
            except VideoError as error:
                raise Problem(
                    404, f"{printable(real.name)}: there is no picture ({error.reason})."
                ) from error
        return picture_response(data, key)

    return router
