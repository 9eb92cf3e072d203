"""Calls about jobs, and about what people say of pairs."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from visil.errors import UsageError
from visil.web import shapes
from visil.web.jobs import as_dict
from visil.web.problems import RESPONSES, Problem
from visil.web.results import dressed
from visil.web.serving import Serving, changed

EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The job whenever it changes, until it is over.",
        "content": {"text/event-stream": {}},
    }
}


def routes(serving: Serving) -> APIRouter:
    """``/api/jobs`` and ``/api/judgements``."""
    router = APIRouter(prefix="/api", responses=RESPONSES)

    @router.get("/jobs", response_model=shapes.Jobs, tags=["jobs"], summary="The latest jobs, newest first")
    async def latest(limit: Annotated[int, Query(ge=1, le=200)] = 50) -> dict[str, Any]:
        return {"jobs": [as_dict(job) for job in await serving.listed(serving.jobs.latest, limit)]}

    @router.get(
        "/jobs/{job}", response_model=shapes.JobWithResult, tags=["jobs"], summary="A job, and its result"
    )
    async def one(job: str) -> dict[str, Any]:
        def read() -> dict[str, Any]:
            found = serving.jobs.get(job)
            told = as_dict(found)
            if found.state == "done":
                result = serving.jobs.store.result(found.id)
                told["result"] = None if result is None else dressed(serving.library, found.kind, result)
            return told

        return await serving.listed(read)

    @router.delete("/jobs/{job}", response_model=shapes.Job, tags=["jobs"], summary="Cancel a job")
    async def cancel(job: str) -> dict[str, Any]:
        return as_dict(await serving.jobs.cancel(job))

    @router.get(
        "/jobs/{job}/events",
        response_class=StreamingResponse,
        responses=EVENTS,
        tags=["jobs"],
        summary="Follow a job: server-sent events",
    )
    async def events(job: str) -> Response:
        serving.jobs.check_listeners()
        serving.jobs.get(job)
        return StreamingResponse(_events(serving, job), media_type="text/event-stream")

    @router.get(
        "/judgements", response_model=shapes.Judgements, tags=["duplicates"], summary="What people said"
    )
    async def judgements() -> dict[str, Any]:
        said = await serving.listed(serving.index.catalogue.verdicts)
        return {"judgements": [{"a": a, "b": b, "verdict": verdict} for (a, b), verdict in said.items()]}

    @router.put(
        "/judgements", response_model=shapes.Judgement, tags=["duplicates"], summary="Say, or take back"
    )
    async def judge(body: shapes.JudgementRequest) -> dict[str, Any]:
        def record() -> dict[str, Any]:
            for video in (body.a, body.b):
                if not serving.index.catalogue.has(video):
                    raise Problem(404, "There is no such video in this collection.")
            low, high = sorted((body.a, body.b))
            previous = serving.index.catalogue.verdicts().get((low, high))
            try:
                serving.index.judge(body.a, body.b, body.verdict)
            except UsageError as error:
                raise Problem(422, f"{error}".capitalize() + ".") from error
            return {"a": body.a, "b": body.b, "verdict": body.verdict, "previous": previous}

        return await changed(serving, record)

    return router


async def _events(serving: Serving, job: str) -> AsyncIterator[str]:
    async for found in serving.jobs.events(job):
        yield ": still here\n\n" if found is None else f"data: {json.dumps(as_dict(found))}\n\n"
