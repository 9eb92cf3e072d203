"""Calls that start work, and calls about what came of it."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response
from starlette.background import BackgroundTask

from visil.errors import printable
from visil.web import shapes
from visil.web.engine_link import EngineCancelled, EngineFailed, EngineLink
from visil.web.jobs import as_dict, folder_of
from visil.web.problems import RESPONSES, Problem
from visil.web.results import duplicates as dressed_duplicates
from visil.web.rows import iso
from visil.web.serving import Serving, caller

EXPORTS = {"csv": "text/csv; charset=utf-8", "json": "application/json", "html": "text/html; charset=utf-8"}
REPORT_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; sandbox"
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
NO_DUPLICATES = "Nobody has looked for duplicates here yet."


def routes(serving: Serving) -> APIRouter:
    """Search, compare, duplicates, add, and matrices."""
    router = APIRouter(prefix="/api", responses=RESPONSES)

    @router.post(
        "/search", response_model=shapes.Started, status_code=202, tags=["work"], summary="Search for a video"
    )
    async def search(body: shapes.SearchRequest, request: Request) -> dict[str, Any]:
        serving.searches.take(caller(request))
        query = await serving.resolve(body)
        job = serving.submit("search", f"Search for {query['name']}", {"query": query, "k": body.k}, query)
        return {"job": as_dict(job)}

    @router.post(
        "/compare",
        response_model=shapes.Started,
        status_code=202,
        tags=["work"],
        summary="Compare two videos",
    )
    async def compare(body: shapes.CompareRequest, request: Request) -> dict[str, Any]:
        serving.searches.take(caller(request))
        query, target = await serving.resolve(body.query), await serving.resolve(body.target)
        asked = {"query": query, "target": target, "comparison": serving.new_comparison()}
        title = f"Compare {query['name']} with {target['name']}"
        return {"job": as_dict(serving.submit("compare", title, asked, query, target))}

    @router.post(
        "/add", response_model=shapes.Started, status_code=202, tags=["work"], summary="Add a file or folder"
    )
    async def add(body: shapes.AddRequest, request: Request) -> dict[str, Any]:
        serving.long_jobs.take(caller(request))
        if not serving.index.writable:
            raise Problem(403, "This collection cannot be written to: it is open for looking only.")
        real = await serving.listed(serving.roots.resolve, body.path)
        asked = {"path": os.fspath(real), "roots": [os.fspath(root) for root in serving.roots.folders]}
        return {"job": as_dict(serving.submit("add", f"Add {printable(os.fspath(real))}", asked))}

    @router.post(
        "/duplicates",
        response_model=shapes.Started,
        status_code=202,
        tags=["work"],
        summary="Look for duplicates",
    )
    async def find(body: shapes.DuplicatesRequest, request: Request) -> dict[str, Any]:
        serving.long_jobs.take(caller(request))
        asked = {"min_confidence": body.min_confidence}
        return {"job": as_dict(serving.submit("duplicates", "Look for duplicates", asked))}

    @router.get(
        "/duplicates", response_model=shapes.Duplicates, tags=["duplicates"], summary="What was found last"
    )
    async def found() -> dict[str, Any]:
        def read() -> dict[str, Any]:
            last = serving.jobs.store.latest_done("duplicates")
            result = None if last is None else serving.jobs.store.result(last.id)
            if last is None or result is None:
                raise Problem(404, NO_DUPLICATES)
            return {"made": iso(last.finished), **dressed_duplicates(serving.library, result)}

        return await serving.listed(read)

    @router.get(
        "/duplicates/export",
        response_class=Response,
        tags=["duplicates"],
        responses={
            200: {"description": "A file.", "content": {kind.split(";")[0]: {} for kind in EXPORTS.values()}}
        },
        summary="What was found last as a file, with what people have said since",
    )
    async def export(
        request: Request, form: Annotated[Literal["csv", "json", "html"], Query(alias="format")]
    ) -> Response:
        serving.searches.take(caller(request))
        last = await serving.listed(serving.jobs.store.latest_done, "duplicates")
        if last is None or not serving.jobs.store.result_file(last.id).is_file():
            raise Problem(404, NO_DUPLICATES)
        file = serving.state.results / f"{last.id}-{secrets.token_hex(8)}.{form}"
        result = os.fspath(serving.jobs.store.result_file(last.id))
        # A report with pictures takes its time: searches need not wait for it.
        engine = serving.jobs.reports if form == "html" else serving.jobs.quick
        asked = {"do": "export", "result": result, "file": os.fspath(file), "format": form}
        try:
            await _asked(engine, asked)
        finally:
            await serving.jobs.reports.stop(only_idle=True)
        return FileResponse(
            file,
            media_type=EXPORTS[form],
            filename=f"duplicates.{form}",
            headers={"Content-Security-Policy": REPORT_POLICY},
            background=BackgroundTask(file.unlink, missing_ok=True),
        )

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
        folder = folder_of(serving.state, comparison)
        file = folder / f"attention-{side}-{frame}.png"
        if not file.is_file():
            serving.searches.take(caller(request))
            meta = json.loads(await serving.listed((folder / "meta.json").read_text, "utf-8"))
            if not meta["attention"]:
                raise Problem(404, "The model of this collection has no attention to show.")
            if frame >= len(meta[f"{side}_times"]):
                raise Problem(404, f"There are frames 0 to {len(meta[f'{side}_times']) - 1}.")
            path = await _source(serving, meta["refs"][side == "target"])
            asked = {"comparison": comparison, "side": side, "frame": frame, "path": os.fspath(path)}
            await _asked(serving.jobs.quick, {"do": "attention", **asked, "file": os.fspath(file)})
        return FileResponse(file, media_type="image/png", headers=LASTING)

    @router.get(
        "/comparisons/{comparison}/{matrix}.png",
        responses=PNG,
        response_class=Response,
        tags=["comparisons"],
        summary="A matrix as a picture, one pixel a cell",
    )
    async def picture(comparison: str, matrix: Matrix) -> Response:
        file = folder_of(serving.state, comparison) / f"{matrix}.png"
        return FileResponse(file, media_type="image/png", headers=LASTING)

    @router.get(
        "/comparisons/{comparison}/{matrix}.bin",
        responses=BIN,
        response_class=Response,
        tags=["comparisons"],
        summary="A matrix as numbers",
    )
    async def numbers(comparison: str, matrix: Matrix) -> Response:
        folder = folder_of(serving.state, comparison)
        shape = json.loads(await serving.listed((folder / "meta.json").read_text, "utf-8"))[matrix]
        headers = {
            "X-Rows": str(shape["rows"]),
            "X-Columns": str(shape["columns"]),
            **LASTING,
        }
        return FileResponse(folder / f"{matrix}.bin", media_type="application/octet-stream", headers=headers)

    return router


async def _asked(engine: EngineLink, request: dict[str, Any]) -> None:
    """Short work that is no job: the caller waits for it."""
    try:
        await engine.ask(request, lambda _: None)
    except EngineFailed as error:
        raise Problem(422, str(error)) from error
    except EngineCancelled as error:
        raise Problem(409, "This was stopped before it was done.") from error


async def _source(serving: Serving, ref: dict[str, Any]) -> Path:
    """The file that a compared video is in, as long as it is there and may be read."""
    if ref["kind"] == "video":
        return (await serving.file_of(ref["id"]))[0]
    if ref["kind"] == "upload":
        return serving.uploads.get(ref["id"]).path
    return await serving.listed(serving.roots.resolve, ref["path"])
