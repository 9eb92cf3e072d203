"""Calls that follow jobs, calls about their results, and people's verdicts on pairs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response, StreamingResponse

from visil.errors import UsageError
from visil.web import shapes
from visil.web import shapes_search as searching
from visil.web.jobs import as_dict, ask
from visil.web.library import NO_VIDEO
from visil.web.problems import RESPONSES, Problem
from visil.web.results import source, with_videos
from visil.web.service import Service, caller, who

Matrix = Literal["frame_matrix", "output_matrix"]
LISTS = {"search": "hits", "batch": "results", "duplicates": "groups", "add": "failed"}
"""The long list in the result of a job."""
LASTING = {"Cache-Control": "private, max-age=86400"}
"""Files of one comparison never change."""

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
    """Jobs, judgements and the pictures of comparisons."""
    router = APIRouter(prefix="/api", responses=RESPONSES)

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
        "/jobs/{job}", response_model=searching.JobWithResult, tags=["jobs"], summary="A job, and its result"
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

    @router.get(
        "/jobs/{job}/results",
        response_model=searching.ResultPage,
        tags=["jobs"],
        summary="A page of a long result: hits, results of a batch, groups, or files that failed",
    )
    async def results(
        job: str,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            found = service.jobs.get(job)
            result = service.jobs.store.result(found.id) if found.state == "done" else None
            if result is None or found.kind not in LISTS:
                raise Problem(404, "That job has no list of results, or none yet.")
            items = with_videos(service, found.kind, result)[LISTS[found.kind]]
            return {"total": len(items), "offset": offset, "items": items[offset : offset + limit]}

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
