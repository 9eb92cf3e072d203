"""Calls about videos: those of the collection, those that callers send, and files inside the roots by path.

All three can be watched and have thumbnails.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect

from visil.collection.identity import Stamp, stamp_of
from visil.errors import VideoError, printable
from visil.video import VideoInfo
from visil.web import shapes
from visil.web.library import NO_VIDEO, State
from visil.web.pictures import picture_size
from visil.web.problems import RESPONSES, Problem
from visil.web.ranges import send_file
from visil.web.sandbox import Decoder
from visil.web.service import Service, caller
from visil.web.uploads import clean_name

JPEG: dict[int | str, dict[str, Any]] = {
    200: {"description": "A picture.", "content": {"image/jpeg": {}}},
    304: {"description": "The picture is the one that the caller has."},
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"video/*": {}, "application/octet-stream": {}}},
    206: {"description": "A part of it.", "content": {"video/*": {}, "application/octet-stream": {}}},
    304: {"description": "The file is the one that the caller has."},
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
MOST_TIMES = 60
"""Frames side by side in one picture."""
MOST_PICTURES = 500
"""Thumbnails of one uploaded file, kept in memory."""
MOST_KNOWN = 500
"""Files inside the roots that are remembered to be videos."""

Width = Annotated[int, Query(ge=16, le=640)]
Tag = Annotated[str | None, Header(alias="If-None-Match")]
At = Annotated[float | None, Query(ge=0, le=10**7, allow_inf_nan=False)]
FilePath = Annotated[str, Query(max_length=4096, examples=["/videos/b.mp4"])]


def routes(service: Service) -> APIRouter:
    """``/api/videos``, ``/api/uploads`` and ``/api/files``."""
    router = APIRouter(prefix="/api", responses=RESPONSES)
    router.include_router(_videos(service))
    router.include_router(_uploads(service))
    router.include_router(_files(service))
    return router


def _videos(service: Service) -> APIRouter:
    router = APIRouter(prefix="/videos", tags=["videos"])

    async def shown(
        request: Request, video: str, times: list[float] | None, width: int, known: str | None
    ) -> Response:
        """A picture of some times; None: of one that says something of the video."""
        entry = await service.look_up(service.library.entry, video)
        chosen = [0.3 * (entry.duration or 0.0)] if times is None else times
        key = service.pictures.key(video, chosen, width)

        async def make() -> bytes:
            path, _, _ = await service.file_of(video)
            size = picture_size(width, entry.width or 16, entry.height or 9)
            return await service.decode(service.pictures.make, key, path, chosen, size)

        kept = partial(service.decode, service.pictures.kept, key)
        return await picture(service, request, (key, known), entry.name, kept, make)

    @router.get("", response_model=shapes.Videos, summary="A page of the list of videos")
    async def videos(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        sort: shapes.Sort = "name",
        q: Annotated[str, Query(max_length=200)] = "",
        state: State | None = None,
    ) -> dict[str, Any]:
        def page() -> dict[str, Any]:
            total, entries, failed = service.library.page(offset, limit, sort, q, state)
            shown = [entry.to_dict() for entry in entries]
            return {"total": total, "failed": failed, "offset": offset, "videos": shown}

        return await service.look_up(page)

    @router.get("/{video}", response_model=shapes.Video, summary="One video")
    async def one(video: str) -> dict[str, Any]:
        return await service.look_up(lambda: service.library.entry(video).to_dict())

    @router.delete("/{video}", status_code=204, summary="Take a video out; its file stays")
    async def remove(video: str) -> None:
        def take_out() -> None:
            if service.index.catalogue.video(video) is None or not service.index.catalogue.has(video):
                raise Problem(404, NO_VIDEO)
            service.index.remove([video])
            service.library.left([video])

        await service.change(take_out)

    @router.get("/{video}/thumbnail", responses=JPEG, response_class=Response, summary="One frame")
    async def thumbnail(
        video: str,
        request: Request,
        at: At = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        return await shown(request, video, None if at is None else [at], width, known)

    @router.get("/{video}/frames.jpg", responses=JPEG, response_class=Response, summary="Frames side by side")
    async def frames(
        video: str,
        request: Request,
        times: Annotated[str, Query(max_length=2000, examples=["1.0,2.0,3.5"])],
        width: Width = 120,
        known: Tag = None,
    ) -> Response:
        return await shown(request, video, parse_times(times), width, known)

    @router.get(
        "/{video}/stream", responses=FILE, response_class=Response, summary="The file, or a part of it"
    )
    @router.head("/{video}/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(video: str, request: Request) -> Response:
        path, name, stamp = await service.file_of(video)
        return send_file(request, path, name, service.read_threads, stamp)

    return router


def _uploads(service: Service) -> APIRouter:
    router = APIRouter(prefix="/uploads", tags=["uploads"])
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
        service.sends.take(caller(request))
        task = asyncio.create_task(service.jobs.quick.warm())  # a search will follow
        warming.add(task)
        task.add_done_callback(warming.discard)
        declared = request.headers.get("content-length")
        length = int(declared) if declared is not None and declared.isdecimal() else None
        try:
            one = await service.uploads.receive(clean_name(name), length, request.stream(), caller(request))
        except ClientDisconnect:
            raise Problem(400, "The file did not arrive whole.") from None
        return {
            "upload": one.id,
            "name": one.name,
            "bytes": one.size,
            "expires": service.uploads.expires(one),
        }

    @router.delete("/{upload}", status_code=204, summary="Delete it now")
    async def delete(upload: str) -> None:
        if service.uploads.get(upload).jobs:
            raise Problem(409, "A job still needs that file; cancel the job first.")
        service.uploads.delete(upload)

    @router.get(
        "/{upload}/stream", responses=FILE, response_class=Response, summary="The file, or a part of it"
    )
    @router.head("/{upload}/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(upload: str, request: Request) -> Response:
        one = service.uploads.get(upload)
        return send_file(request, one.path, one.name, service.read_threads)

    @router.get("/{upload}/thumbnail", responses=JPEG, response_class=Response, summary="One frame")
    async def thumbnail(
        upload: str,
        request: Request,
        at: At = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        one = service.uploads.get(upload)
        time = 0.3 * (one.facts.duration or 0.0) if at is None else at
        key = service.pictures.key(upload, [time], width)

        async def kept() -> bytes | None:
            return one.pictures.get(key)

        async def make() -> bytes:
            size = picture_size(width, one.facts.width, one.facts.height)
            data = await service.decode(service.pictures.make_once, upload, one.path, [time], size)
            if len(one.pictures) < MOST_PICTURES:
                one.pictures[key] = data
            return data

        return await picture(service, request, (key, known), one.name, kept, make)

    return router


def _files(service: Service) -> APIRouter:
    router = APIRouter(prefix="/files", tags=["files"])
    files = FilesByPath(service)

    @router.get(
        "/stream", responses=FILE, response_class=Response, summary="The file at a path, or a part of it"
    )
    @router.head("/stream", responses=FILE, response_class=Response, include_in_schema=False)
    async def stream(request: Request, path: FilePath) -> Response:
        real, stamp, _ = await service.decode(files.probed, path)
        whole = (stamp.size, stamp.modified_ns)
        return send_file(request, real, printable(real.name), service.read_threads, whole)

    @router.get("/thumbnail", responses=JPEG, response_class=Response, summary="One frame of it")
    async def thumbnail(
        request: Request,
        path: FilePath,
        at: At = None,
        width: Width = 160,
        known: Tag = None,
    ) -> Response:
        real, stamp, info = await service.decode(files.probed, path)
        time = 0.3 * (info.duration or 0.0) if at is None else at
        pictures = service.pictures
        key = pictures.key(f"{os.fsencode(real)!r} {stamp}", [time], width)

        async def make() -> bytes:
            size = picture_size(width, info.width, info.height)
            return await service.decode(pictures.make, key, real, [time], size)

        kept = partial(service.decode, pictures.kept, key)
        return await picture(service, request, (key, known), printable(real.name), kept, make)

    return router


class FilesByPath:
    """Files inside the roots that were looked at; only files that a decoder takes for a video are shown."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._known: dict[tuple[str, Stamp], VideoInfo] = {}

    def probed(self, path: str) -> tuple[Path, Stamp, VideoInfo]:
        """A video by its path; a problem where it is none, or may not be read."""
        real = self.service.roots.resolve(path)
        if not real.is_file():
            raise Problem(422, f"{printable(path)}: is a folder, and cannot be played.")
        try:
            stamp = stamp_of(real)
            key = (os.fspath(real), stamp)
            if key not in self._known:
                with Decoder(self.service.settings.limits) as decoder:
                    info = decoder.probe(real)
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = info
        except VideoError as error:
            raise Problem(422, f"{printable(real.name)}: {error.reason}") from error
        return real, stamp, self._known[key]


async def picture(
    service: Service,
    request: Request,
    tags: tuple[str, str | None],
    name: str,
    kept: Callable[[], Awaitable[bytes | None]],
    make: Callable[[], Awaitable[bytes]],
) -> Response:
    """A picture as an answer; ``tags`` are its key and the tag of the one that the caller has."""
    key, known = tags
    if known == f'"{key}"':
        return _picture_response(None, key)
    data = await kept()
    if data is None:
        service.thumbnails.take(caller(request))
        try:
            data = await make()
        except VideoError as error:
            raise Problem(404, f"{name}: there is no picture ({error.reason}).") from error
    return _picture_response(data, key)


def _picture_response(data: bytes | None, key: str) -> Response:
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
