"""Calls that start jobs and follow them, calls about what came of them, and what people say of pairs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from visil.errors import UsageError, printable
from visil.web import shapes
from visil.web.ask import ask
from visil.web.jobs import as_dict
from visil.web.library import NO_VIDEO
from visil.web.problems import RESPONSES, Problem
from visil.web.results import with_videos
from visil.web.service import Service, caller, who
from visil.web.sources import source

Matrix = Literal["frame_matrix", "output_matrix"]
LASTING = {"Cache-Control": "private, max-age=86400"}
"""What belongs to one comparison never changes."""

PNG: dict[int | str, dict[str, Any]] = {200: {"description": "A picture.", "content": {"image/png": {}}}}
BIN: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Little-endian float32, row by row; X-Rows and X-Columns say how many.",
        "content": {"application/octet-stream": {}},
    }
}
EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The job whenever it changes, until it is over.",
        "content": {"text/event-stream": {}},
    }
}


def routes(service: Service) -> APIRouter:
    """Search, compare, duplicates and add; jobs, judgements and the pictures of comparisons."""
    router = APIRouter(prefix="/api", responses=RESPONSES)

    @router.post(
        "/search", response_model=shapes.Started, status_code=202, tags=["work"], summary="Search for a video"
    )
    async def search(body: shapes.SearchRequest, request: Request) -> dict[str, Any]:
        service.searches.take(caller(request))
        query = await service.resolve(body)
        job = service.submit(
            request, "search", f"Search for {query['name']}", {"query": query, "k": body.k}, query
        )
        return {"job": as_dict(job)}

    @router.post(
        "/compare",
        response_model=shapes.Started,
        status_code=202,
        tags=["work"],
        summary="Compare two videos",
    )
    async def compare(body: shapes.CompareRequest, request: Request) -> dict[str, Any]:
        service.searches.take(caller(request))
        query, target = await service.resolve(body.query), await service.resolve(body.target)
        asked = {
            "query": query,
            "target": target,
            "comparison": service.state.new_comparison(service.settings.limits),
        }
        title = f"Compare {query['name']} with {target['name']}"
        return {"job": as_dict(service.submit(request, "compare", title, asked, query, target))}

    @router.post(
        "/add", response_model=shapes.Started, status_code=202, tags=["work"], summary="Add a file or folder"
    )
    async def add(body: shapes.AddRequest, request: Request) -> dict[str, Any]:
        service.long_jobs.take(caller(request))
        if not service.index.writable:
            raise Problem(403, "This collection cannot be written to: it is open for looking only.")
        real = await service.look_up(service.roots.resolve, body.path)
        asked = {"path": os.fspath(real), "roots": [os.fspath(root) for root in service.roots.folders]}
        return {"job": as_dict(service.submit(request, "add", f"Add {printable(os.fspath(real))}", asked))}

    @router.post(
        "/duplicates",
        response_model=shapes.Started,
        status_code=202,
        tags=["work"],
        summary="Look for duplicates",
    )
    async def find(body: shapes.DuplicatesRequest, request: Request) -> dict[str, Any]:
        service.long_jobs.take(caller(request))
        asked = {"min_confidence": body.min_confidence}
        return {"job": as_dict(service.submit(request, "duplicates", "Look for duplicates", asked))}

    @router.get(
        "/jobs", response_model=shapes.Jobs, tags=["jobs"], summary="A page of the jobs, newest first"
    )
    async def latest(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
        kind: shapes.Kind | None = None,
        state: shapes.JobState | None = None,
        mine: Annotated[bool, Query(description="Only those of the token that asks.")] = False,
    ) -> dict[str, Any]:
        chosen = {"kind": kind or "", "state": state or "", "caller": who(request).name if mine else ""}

        def page() -> dict[str, Any]:
            jobs = service.jobs.latest(limit, offset, **chosen)
            total = service.jobs.store.count(**chosen)
            return {"total": total, "offset": offset, "jobs": [as_dict(job) for job in jobs]}

        return await service.look_up(page)

    @router.get(
        "/jobs/{job}", response_model=shapes.JobWithResult, tags=["jobs"], summary="A job, and its result"
    )
    async def one(job: str) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            found = service.jobs.get(job)
            told = as_dict(found)
            if found.state == "done":
                result = service.jobs.store.result(found.id)
                told["result"] = None if result is None else with_videos(service, found.kind, result)
            return told

        return await service.look_up(read)

    @router.delete("/jobs/{job}", response_model=shapes.Job, tags=["jobs"], summary="Cancel a job")
    async def cancel(job: str, request: Request) -> dict[str, Any]:
        if not who(request).may("reviewer") and service.jobs.get(job).caller != who(request).name:
            raise Problem(403, "That job was started by someone else.")
        return as_dict(await service.jobs.cancel(job))

    @router.get(
        "/jobs/{job}/events",
        response_class=StreamingResponse,
        responses=EVENTS,
        tags=["jobs"],
        summary="Follow a job: server-sent events",
    )
    async def events(job: str) -> Response:
        service.jobs.check_listeners()
        service.jobs.get(job)
        return StreamingResponse(_events(service, job), media_type="text/event-stream")

    @router.get(
        "/judgements", response_model=shapes.Judgements, tags=["duplicates"], summary="What people said"
    )
    async def judgements(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int | None, Query(ge=1, le=10_000, description="By default all.")] = None,
    ) -> dict[str, Any]:
        said = sorted((await service.look_up(service.index.catalogue.verdicts)).items())
        page = said[offset : None if limit is None else offset + limit]
        shown = [{"a": a, "b": b, "verdict": verdict} for (a, b), verdict in page]
        return {"total": len(said), "offset": offset, "judgements": shown}

    @router.put(
        "/judgements", response_model=shapes.Judgement, tags=["duplicates"], summary="Say, or take back"
    )
    async def judge(body: shapes.JudgementRequest) -> dict[str, Any]:
        def record() -> dict[str, Any]:
            for video in (body.a, body.b):
                if not service.index.catalogue.has(video):
                    raise Problem(404, NO_VIDEO)
            low, high = sorted((body.a, body.b))
            previous = service.index.catalogue.verdicts().get((low, high))
            try:
                service.index.judge(body.a, body.b, body.verdict)
            except UsageError as error:
                raise Problem(422, f"{error}".capitalize() + ".") from error
            return {"a": body.a, "b": body.b, "verdict": body.verdict, "previous": previous}

        return await service.change(record)

    @router.get(
        "/comparisons/{comparison}/attention.png",
        responses=PNG,
        response_class=Response,
        tags=["comparisons"],
        summary="What attention looks at in one frame",
    )
    async def attention(
        comparison: str,
        request: Request,
        side: Literal["query", "target"],
        frame: Annotated[int, Query(ge=0, le=10**6)],
    ) -> Response:
        folder = service.state.comparison(comparison)
        file = folder / f"attention-{side}-{frame}.png"
        if not file.is_file():
            service.searches.take(caller(request))
            meta = json.loads(await service.look_up((folder / "meta.json").read_text, "utf-8"))
            if not meta["attention"]:
                raise Problem(404, "The model of this collection has no attention to show.")
            if frame >= len(meta[f"{side}_times"]):
                raise Problem(404, f"There are frames 0 to {len(meta[f'{side}_times']) - 1}.")
            path = await source(service, meta["refs"][side == "target"])
            asked = {"comparison": comparison, "side": side, "frame": frame, "path": os.fspath(path)}
            await ask(service.jobs.quick, {"do": "attention", **asked, "file": os.fspath(file)})
        return FileResponse(file, media_type="image/png", headers=LASTING)

    @router.get(
        "/comparisons/{comparison}/{matrix}.png",
        responses=PNG,
        response_class=Response,
        tags=["comparisons"],
        summary="A matrix as a picture, one pixel a cell",
    )
    async def picture(comparison: str, matrix: Matrix) -> Response:
        file = service.state.comparison(comparison) / f"{matrix}.png"
        return FileResponse(file, media_type="image/png", headers=LASTING)

    @router.get(
        "/comparisons/{comparison}/{matrix}.bin",
        responses=BIN,
        response_class=Response,
        tags=["comparisons"],
        summary="A matrix as numbers",
    )
    async def numbers(comparison: str, matrix: Matrix) -> Response:
        folder = service.state.comparison(comparison)
        shape = json.loads(await service.look_up((folder / "meta.json").read_text, "utf-8"))[matrix]
        headers = {
            "X-Rows": str(shape["rows"]),
            "X-Columns": str(shape["columns"]),
            **LASTING,
        }
        return FileResponse(folder / f"{matrix}.bin", media_type="application/octet-stream", headers=headers)

    return router


async def _events(service: Service, job: str) -> AsyncIterator[str]:
    async for found in service.jobs.events(job):
        yield ": still here\n\n" if found is None else f"data: {json.dumps(as_dict(found))}\n\n"
