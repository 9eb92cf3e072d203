"""Calls about the videos of the collection: lists, pictures, streams, removal."""

from __future__ import annotations

import math
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from visil.errors import VideoError
from visil.web import shapes
from visil.web.library import Library
from visil.web.pictures import picture_size
from visil.web.problems import RESPONSES, Problem
from visil.web.ranges import send_file
from visil.web.rows import State
from visil.web.serving import Serving, caller, changed

JPEG: dict[int | str, dict[str, Any]] = {
    200: {"description": "A picture.", "content": {"image/jpeg": {}}},
    304: {"description": "The picture is the one that the caller has."},
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"video/*": {}}},
    206: {"description": "A part of it.", "content": {"video/*": {}}},
    304: {"description": "The file is the one that the caller has."},
}
MOST_TIMES = 60
Width = Annotated[int, Query(ge=16, le=640)]
Tag = Annotated[str | None, Header(alias="If-None-Match")]


def routes(serving: Serving) -> APIRouter:
    """``/api/videos``."""
    router = APIRouter(prefix="/api/videos", tags=["videos"], responses=RESPONSES)

    @router.get("", response_model=shapes.Videos, summary="A page of the list of videos")
    async def videos(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        sort: shapes.Sort = "name",
        q: Annotated[str, Query(max_length=200)] = "",
        state: State | None = None,
    ) -> dict[str, Any]:
        return await serving.listed(_page, serving.library, offset, limit, sort, q, state)

    @router.get("/{video}", response_model=shapes.Video, summary="One video")
    async def one(video: str) -> dict[str, Any]:
        def find() -> dict[str, Any]:
            row = serving.library.row(video)
            if row is None:
                raise Problem(404, "There is no such video in this collection.")
            return row.to_dict()

        return await serving.listed(find)

    @router.delete("/{video}", status_code=204, summary="Take a video out; its file stays")
    async def remove(video: str) -> None:
        def take_out() -> None:
            if serving.index.catalogue.video(video) is None or not serving.index.catalogue.has(video):
                raise Problem(404, "There is no such video in this collection.")
            serving.index.remove([video])

        await changed(serving, take_out)

    @router.get("/{video}/thumbnail", responses=JPEG, response_class=Response, summary="One frame")
    async def thumbnail(
        video: str,
        request: Request,
        at: Annotated[float | None, Query(ge=0, le=10**7, allow_inf_nan=False)] = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        row = await serving.listed(serving.library.row, video)
        if row is None:
            raise Problem(404, "There is no such video in this collection.")
        time = 0.3 * (row.duration or 0.0) if at is None else at
        return await _picture(serving, request, video, [time], width, known)

    @router.get("/{video}/frames.jpg", responses=JPEG, response_class=Response, summary="Frames side by side")
    async def frames(
        video: str,
        request: Request,
        times: Annotated[str, Query(max_length=2000, examples=["1.0,2.0,3.5"])],
        width: Width = 120,
        known: Tag = None,
    ) -> Response:
        return await _picture(serving, request, video, parse_times(times), width, known)

    @router.get(
        "/{video}/stream", responses=FILE, response_class=Response, summary="The file, or a part of it"
    )
    @router.head("/{video}/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(video: str, request: Request) -> Response:
        path, name, stamp = await serving.file_of(video)
        return send_file(request, path, name, serving.readers, stamp)

    return router


def _page(
    library: Library, offset: int, limit: int, sort: str, text: str, state: State | None
) -> dict[str, Any]:
    total, rows = library.page(offset, limit, sort, text, state)
    return {"total": total, "offset": offset, "videos": [row.to_dict() for row in rows]}


async def _picture(
    serving: Serving, request: Request, video: str, times: list[float], width: int, known: str | None
) -> Response:
    pictures = serving.pictures
    key = pictures.key(video, times, width)
    row = await serving.listed(serving.library.row, video)
    if row is None:
        raise Problem(404, "There is no such video in this collection.")
    if known == f'"{key}"':
        return picture_response(None, key)
    data = await serving.painted(pictures.kept, key)
    if data is None:
        serving.paintings.take(caller(request))
        path, name, _ = await serving.file_of(video)
        size = picture_size(width, row.width or 16, row.height or 9)
        try:
            data = await serving.painted(pictures.make, key, path, times, size)
        except VideoError as error:
            raise Problem(404, f"{name}: there is no picture ({error.reason}).") from error
    return picture_response(data, key)


def picture_response(data: bytes | None, key: str) -> Response:
    """A picture that never changes under its address; None: the caller has it."""
    headers = {"ETag": f'"{key}"', "Cache-Control": "private, max-age=604800, immutable"}
    if data is None:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="image/jpeg")


def parse_times(text: str) -> list[float]:
    """Seconds between commas."""
    try:
        times = [float(part) for part in text.split(",")]
    except ValueError:
        raise Problem(422, "times are seconds with commas between, such as 1.0,2.5") from None
    if len(times) > MOST_TIMES or not all(math.isfinite(time) and 0 <= time <= 1e7 for time in times):
        raise Problem(422, f"times are up to {MOST_TIMES} seconds from the start of the video")
    return times
