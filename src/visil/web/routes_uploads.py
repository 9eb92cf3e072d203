"""Calls about files that callers send."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from visil.errors import VideoError
from visil.web import shapes
from visil.web.pictures import picture_size
from visil.web.problems import RESPONSES, Problem
from visil.web.ranges import send_file
from visil.web.routes_library import FILE, JPEG, Tag, Width, picture_response
from visil.web.serving import Serving, caller
from visil.web.uploads import clean_name

BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}

MOST_PICTURES = 500
"""Of one uploaded file, kept in memory."""


def routes(serving: Serving) -> APIRouter:
    """``/api/uploads``."""
    router = APIRouter(prefix="/api/uploads", tags=["uploads"], responses=RESPONSES)
    warming: set[asyncio.Task[None]] = set()

    @router.post(
        "",
        response_model=shapes.Upload,
        status_code=201,
        openapi_extra=BODY,
        summary="Send a video: its raw bytes",
    )
    async def send(
        request: Request, name: Annotated[str, Query(max_length=1000)] = "video"
    ) -> dict[str, Any]:
        serving.sends.take(caller(request))
        task = asyncio.create_task(serving.jobs.quick.warm())  # a search will follow
        warming.add(task)
        task.add_done_callback(warming.discard)
        declared = request.headers.get("content-length")
        length = int(declared) if declared is not None and declared.isdecimal() else None
        try:
            one = await serving.uploads.receive(clean_name(name), length, request.stream())
        except ClientDisconnect:
            raise Problem(400, "The file did not arrive whole.") from None
        return {
            "upload": one.id,
            "name": one.name,
            "bytes": one.size,
            "expires": serving.uploads.expires(one),
        }

    @router.delete("/{upload}", status_code=204, summary="Delete it now")
    async def delete(upload: str) -> None:
        if serving.uploads.get(upload).jobs:
            raise Problem(409, "A job still needs that file; cancel the job first.")
        serving.uploads.delete(upload)

    @router.get(
        "/{upload}/stream", responses=FILE, response_class=Response, summary="The file, or a part of it"
    )
    @router.head("/{upload}/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(upload: str, request: Request) -> Response:
        one = serving.uploads.get(upload)
        return send_file(request, one.path, one.name, serving.readers)

    @router.get("/{upload}/thumbnail", responses=JPEG, response_class=Response, summary="One frame")
    async def thumbnail(
        upload: str,
        request: Request,
        at: Annotated[float | None, Query(ge=0, le=10**7, allow_inf_nan=False)] = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        one = serving.uploads.get(upload)
        time = 0.3 * (one.facts.duration or 0.0) if at is None else at
        key = serving.pictures.key(upload, [time], width)
        if known == f'"{key}"':
            return picture_response(None, key)
        data = one.pictures.get(key)
        if data is None:
            serving.paintings.take(caller(request))
            size = picture_size(width, one.facts.width, one.facts.height)
            try:
                data = await serving.painted(serving.pictures.make_once, upload, one.path, [time], size)
            except VideoError as error:
                raise Problem(404, f"{one.name}: there is no picture ({error.reason}).") from error
            if len(one.pictures) < MOST_PICTURES:
                one.pictures[key] = data
        return picture_response(data, key)

    return router
