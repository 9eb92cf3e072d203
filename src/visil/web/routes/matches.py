"""Calls about one match as evidence: its result by a link that lasts, a report, stretches for editors, small copies."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from visil.web import shapes
from visil.web.jobs import ask
from visil.web.pictures import picture_size
from visil.web.problems import RESPONSES, Problem
from visil.web.ranges import send_file
from visil.web.results import REPORT, SIDES, KeptMatch, with_addresses
from visil.web.routes.review import REPORT_POLICY
from visil.web.routes.videos import FILE, JPEG, At, FilePath, FilesByPath, Tag, Width, picture
from visil.web.sandbox import Decoder
from visil.web.service import Service, caller
from visil.web.state import SAVED

Side = Literal["query", "target"]
Form = Literal["edl", "otio", "csv", "srt", "jsonl"]
TOLD = ("score", "confidence", "verdict", "note", "segments")
"""What a file about a match says as the comparison did."""
TYPES: dict[Form, str] = {
    "edl": "text/plain; charset=utf-8",
    "otio": "application/json",
    "csv": "text/csv; charset=utf-8",
    "srt": "application/x-subrip",
    "jsonl": "application/x-ndjson",
}
HTML: dict[int | str, dict[str, Any]] = {200: {"description": "A page.", "content": {"text/html": {}}}}
TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "A file.", "content": {kind.split(";")[0]: {} for kind in TYPES.values()}}
}


def routes(service: Service) -> APIRouter:
    """``/api/comparisons`` as something to keep, and small copies of every kind of video."""
    router = APIRouter(prefix="/api", responses=RESPONSES)
    router.include_router(_comparisons(service))
    router.include_router(_copies(service))
    return router


def _comparisons(service: Service) -> APIRouter:
    router = APIRouter(prefix="/comparisons/{comparison}", tags=["comparisons"])

    @router.get("", response_model=shapes.Comparison, summary="What a comparison found")
    async def one(comparison: str) -> dict[str, Any]:
        match = await KeptMatch.found(service, comparison)
        found = with_addresses(await service.look_up(match.result))
        said = {"sources": match.sources(), "saved": (match.folder / SAVED).exists()}
        return {"comparison": comparison, "result": found | said}

    @router.put("/keep", status_code=204, summary="Keep it for good, with what is needed to show it")
    async def keep(comparison: str) -> None:
        match = await KeptMatch.found(service, comparison)
        await service.look_up((match.folder / SAVED).touch)
        if None not in match.paths and not (match.folder / REPORT).is_file():
            await _report(service, match)
        for side, ref, path in zip(SIDES, match.refs, match.paths, strict=True):
            if ref["kind"] != "video" and path is not None and not match.copy(side).is_file():
                await service.copies.make(path, match.copy(side))

    @router.delete("/keep", status_code=204, summary="Keep it no longer than others")
    async def let_go(comparison: str) -> None:
        folder = service.state.comparison(comparison)
        await service.look_up(partial((folder / SAVED).unlink, missing_ok=True))

    @router.get("/report.html", responses=HTML, response_class=Response, summary="One match as a report")
    async def report(comparison: str, request: Request) -> Response:
        match = await KeptMatch.found(service, comparison)
        if not (match.folder / REPORT).is_file():
            service.searches.take(caller(request))
            await _report(service, match)
        return FileResponse(
            match.folder / REPORT,
            media_type="text/html; charset=utf-8",
            filename="match.html",
            headers={"Content-Security-Policy": REPORT_POLICY},
        )

    @router.get(
        "/stretches.{form}", responses=TEXT, response_class=Response, summary="Shared stretches for editors"
    )
    async def stretches(comparison: str, form: Form, request: Request) -> Response:
        match = await KeptMatch.found(service, comparison)
        file = match.folder / f"stretches.{form}"
        if not file.is_file():
            service.searches.take(caller(request))
            found = await service.look_up(match.result)
            asked = {
                "match": {key: found[key] for key in TOLD},
                "names": [
                    ref["name"] if path is None or ref["kind"] == "upload" else os.fspath(path)
                    for ref, path in zip(match.refs, match.paths, strict=True)
                ],
                "paths": [None if path is None else os.fspath(path) for path in match.paths],
                "seconds": [found[side]["duration"] for side in SIDES],
            }
            await ask(service.jobs.quick, {"do": "stretches", **asked, "file": os.fspath(file)})
        return FileResponse(file, media_type=TYPES[form], filename=f"stretches.{form}")

    @router.get("/{side}.mp4", responses=FILE, response_class=Response, summary="A small copy that was kept")
    async def copy(comparison: str, side: Side, request: Request) -> Response:
        file = _copy(service, comparison, side)
        return send_file(request, file, file.name, service.read_threads)

    @router.get("/thumbnail", responses=JPEG, response_class=Response, summary="A frame of a kept copy")
    async def thumbnail(
        comparison: str, side: Side, request: Request, at: At = None, width: Width = 160, known: Tag = None
    ) -> Response:
        file = _copy(service, comparison, side)
        time = at or 0.0
        key = service.pictures.key(f"{comparison} {side}", [time], width)

        def make() -> bytes:
            with Decoder(service.settings.limits) as decoder:
                info = decoder.probe(file)
            size = picture_size(width, info.width, info.height)
            return service.pictures.make(key, file, [time], size)

        kept = partial(service.decode, service.pictures.kept, key)
        return await picture(service, request, (key, known), file.name, kept, partial(service.decode, make))

    return router


def _copy(service: Service, comparison: str, side: Side) -> Path:
    file = service.state.comparison(comparison) / f"{side}.mp4"
    if not file.is_file():
        raise Problem(404, "No copy of this video was kept.")
    return file


async def _report(service: Service, match: KeptMatch) -> None:
    gone = [ref["name"] for ref, path in zip(match.refs, match.paths, strict=True) if path is None]
    if gone:
        raise Problem(404, f"{gone[0]} is gone, so no report can be made of it any more.")
    found = await service.look_up(match.result)
    asked = {
        "match": {key: found[key] for key in TOLD},
        "refs": match.refs,
        "paths": [os.fspath(path) for path in match.paths if path is not None],
        "names": [ref["name"] if ref["kind"] == "upload" else None for ref in match.refs],
    }
    await ask(service.jobs.quick, {"do": "report", **asked, "file": os.fspath(match.folder / REPORT)})


def _copies(service: Service) -> APIRouter:
    router = APIRouter()
    say = "A small copy without sound, for browsers that cannot play the file"
    files = FilesByPath(service)

    @router.get(
        "/videos/{video}/small.mp4", tags=["videos"], responses=FILE, response_class=Response, summary=say
    )
    async def of_video(video: str, request: Request) -> Response:
        path, name, _ = await service.file_of(video)
        return send_file(request, await service.copies.get(video, path), f"{name}.mp4", service.read_threads)

    @router.get(
        "/uploads/{upload}/small.mp4", tags=["uploads"], responses=FILE, response_class=Response, summary=say
    )
    async def of_upload(upload: str, request: Request) -> Response:
        one = service.uploads.get(upload)
        copy = await service.copies.get(upload, one.path)
        return send_file(request, copy, f"{one.name}.mp4", service.read_threads)

    @router.get("/files/small.mp4", tags=["files"], responses=FILE, response_class=Response, summary=say)
    async def of_file(request: Request, path: FilePath) -> Response:
        real, stamp, _ = await service.decode(files.probed, path)
        copy = await service.copies.get(service.pictures.key(f"{real} {stamp}", [], 0), real)
        return send_file(request, copy, f"{real.name}.mp4", service.read_threads)

    return router
