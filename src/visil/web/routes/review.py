"""Calls about duplicates that were found: to look at, to decide about file by file, and to take away."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask

from visil.collection.plan_file import write_rows
from visil.report.tables import write_csv
from visil.web import shapes
from visil.web.jobs import ask
from visil.web.problems import RESPONSES, Problem
from visil.web.review import Reviewed, Show
from visil.web.service import Service, caller
from visil.web.shapes import ID, Asked

Name = Annotated[str, Field(max_length=64)]


class DecisionRequest(Asked):
    """The decision about one file; null leaves it to the suggestion again."""

    file: Name
    action: Literal["keep", "drop"] | None


class DecisionsRequest(Asked):
    """Decisions about some files, as one step that can be undone."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"files": [{"file": ID[:16], "action": "keep"}]}]},
    )

    files: Annotated[list[DecisionRequest], Field(min_length=1, max_length=1000)]


class AcceptRequest(Asked):
    """Which suggestions to accept: those of some groups, or of all; exact copies alone, or everything."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"groups": [ID[:16]], "only": None}]},
    )

    groups: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    only: Literal["exact"] | None = None


class ReviewProgress(BaseModel):
    """How far a review is; bytes are those of files that are dropped, suggested and decided."""

    groups: int
    reviewed: int
    files: int
    drop: int
    drop_bytes: int
    decided_drop: int
    decided_bytes: int
    exact: int


class Newer(BaseModel):
    """Changes to the collection since its videos were compared."""

    added: int
    gone: int


class ReviewState(BaseModel):
    """When duplicates were looked for, and how far their review is."""

    made: str | None
    min_confidence: float
    newer: Newer
    progress: ReviewProgress
    undo: str | None


class ReviewChange(ReviewState):
    """The groups that have changed."""

    groups: list[dict[str, Any]]


class ReviewPage(ReviewChange):
    """Some of the groups, and pairs that make none."""

    total: int
    offset: int
    common: list[dict[str, Any]]
    different: list[dict[str, Any]]


class Accepted(ReviewChange):
    """How many files were decided about."""

    files: int


class Undone(ReviewChange):
    """The step that was undone."""

    title: str


Form = Literal["csv", "json", "html", "plan", "plan-json", "script"]
EXPORTS: dict[Form, tuple[str, str]] = {
    "csv": ("duplicates.csv", "text/csv; charset=utf-8"),
    "json": ("duplicates.json", "application/json"),
    "html": ("duplicates.html", "text/html; charset=utf-8"),
    "plan": ("plan.csv", "text/csv; charset=utf-8"),
    "plan-json": ("plan.json", "application/json"),
    "script": ("plan.sh", "text/x-shellscript; charset=utf-8"),
}
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"
FILES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A file.",
        "content": {kind.split(";")[0]: {} for _, kind in EXPORTS.values()},
    }
}


def routes(service: Service) -> APIRouter:
    """``/api/duplicates`` as far as it is read, and ``/api/review``."""
    router = APIRouter(prefix="/api", responses=RESPONSES, tags=["duplicates"])
    review = service.review

    @router.get("/duplicates", response_model=shapes.Duplicates, summary="What was found last")
    async def found() -> dict[str, Any]:
        def read() -> dict[str, Any]:
            reviewed = review.latest()
            return {"made": review.state(reviewed)["made"], **review.everything(reviewed)}

        return await service.look_up(read)

    @router.get(
        "/duplicates/export",
        response_class=Response,
        responses=FILES,
        summary="What was found last as a file, as people have judged and decided since",
    )
    async def export(
        request: Request,
        form: Annotated[Form, Query(alias="format")],
        reviewed_only: Annotated[
            bool, Query(alias="reviewed", description="Of a plan, only groups where everything is decided.")
        ] = False,
    ) -> Response:
        service.searches.take(caller(request))
        reviewed = await service.look_up(review.latest)
        name, kind = EXPORTS[form]
        folder = service.state.exports / secrets.token_hex(8)
        file = folder / name
        await service.look_up(folder.mkdir)
        try:
            if form == "html":
                await _report(service, reviewed, file)
            elif form == "csv":
                await service.look_up(write_csv, service.index, reviewed.found, file)
            elif form == "json":
                await service.look_up(file.write_text, json.dumps(reviewed.found.to_dict()), "utf-8")
            else:
                await service.look_up(write_rows, reviewed.rows(reviewed_only), file)
        except BaseException:
            _delete(file)
            raise
        return FileResponse(
            file,
            media_type=kind,
            filename=name,
            headers={"Content-Security-Policy": REPORT_POLICY},
            background=BackgroundTask(_delete, file),
        )

    @router.get("/review", response_model=ReviewPage, summary="A page of the groups to review")
    async def page(
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        show: Show = "all",
    ) -> dict[str, Any]:
        return await service.look_up(review.page, offset, limit, show)

    @router.put(
        "/review/decisions",
        response_model=ReviewChange,
        summary="Keep or drop files; null takes it back",
    )
    async def decide(body: DecisionsRequest) -> dict[str, Any]:
        def put() -> dict[str, Any]:
            return review.some(review.decide({one.file: one.action for one in body.files}))

        return await service.look_up(put)

    @router.post("/review/accept", response_model=Accepted, summary="Decide as it is suggested")
    async def accept(body: AcceptRequest) -> dict[str, Any]:
        def put() -> dict[str, Any]:
            files = review.accept(body.groups, body.only == "exact")
            return {**review.some(body.groups or []), "files": files}

        return await service.look_up(put)

    @router.post("/review/undo", response_model=Undone, summary="Take the last decision back")
    async def undo() -> dict[str, Any]:
        def take_back() -> dict[str, Any]:
            step = service.decisions.undo()
            if step is None:
                raise Problem(409, "There is nothing to undo.")
            reviewed, touched = review.latest(), set(step.files)
            keys = [g.key for g in reviewed.groups if any((r.video, r.path) in touched for r in g.rows)]
            return {**review.some(keys[:50]), "title": step.title}

        return await service.look_up(take_back)

    return router


async def _report(service: Service, reviewed: Reviewed, file: Path) -> None:
    """A report with pictures takes its time: it has an engine of its own, so that searches need not wait for it."""
    assert reviewed.job is not None
    result = os.fspath(service.jobs.store.result_file(reviewed.job.id))
    try:
        await ask(service.jobs.reports, {"do": "export", "result": result, "file": os.fspath(file)})
    finally:
        await service.jobs.reports.stop(only_idle=True)


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.parent.rmdir()
