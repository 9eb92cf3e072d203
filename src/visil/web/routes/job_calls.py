"""Calls that start jobs: search by a clip, a path or a video, one or many; compare; duplicates; add."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect

from visil.errors import printable
from visil.web import shapes
from visil.web import shapes_search as searching
from visil.web.banks import NoBank
from visil.web.jobs import as_dict
from visil.web.problems import RESPONSES, Problem
from visil.web.results import with_videos
from visil.web.routes.banks import no_bank
from visil.web.routes.job_starter import JobStarter, Key, Webhook
from visil.web.routes.multipart import FormFile
from visil.web.service import Service, caller
from visil.web.state import Job
from visil.web.uploads import Uploaded, clean_name

FORM = 65536
"""Bytes that a form may have besides its file."""
BINARY = {"schema": {"type": "string", "format": "binary"}}
SEARCH_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A clip as a form or as raw bytes, or the name of a video.",
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/SearchRequest"}},
            "multipart/form-data": {"schema": {"$ref": "#/components/schemas/SearchForm"}},
            "application/octet-stream": BINARY,
        },
    }
}
WAITED: dict[int | str, dict[str, Any]] = {
    200: {"model": searching.Found, "description": "What was found, in the time that the caller waits."},
    202: {"model": shapes.Started, "description": "Not done yet: the job."},
}
WAITED_FOR_MANY: dict[int | str, dict[str, Any]] = {
    200: {"model": searching.BatchFound, "description": "What was found, in the time that the caller waits."},
    202: {"model": shapes.Started, "description": "Not done yet: the job."},
}
Wait = Annotated[
    float, Query(ge=0, le=300, allow_inf_nan=False, description="Seconds to wait for the answer.")
]


def routes(service: Service) -> APIRouter:
    """Search, batches, compare, add, duplicates."""
    router = APIRouter(prefix="/api", responses=RESPONSES, tags=["work"])
    starting = JobStarter(service)

    async def answered(job: Job, wait: float) -> Response:
        """The result, where it comes in time, else the job."""
        result = await starting.done(job, wait) if wait > 0 or job.over else None
        if result is None:
            return JSONResponse({"job": as_dict(service.jobs.get(job.id))}, 202)
        shown = await service.look_up(with_videos, service, job.kind, result)
        return JSONResponse({**shown, "job": job.id})

    async def check_banks(names: list[str] | None) -> None:
        try:
            for name in names or []:
                await service.look_up(service.banks.bank, name)
        except NoBank as error:
            raise no_bank(error) from error

    @router.post(
        "/search",
        responses=WAITED,
        response_class=JSONResponse,
        status_code=202,
        openapi_extra=SEARCH_BODY,
        summary="Search for a video: a clip that is sent, a file on the server, or one of the collection",
    )
    async def search(
        request: Request, options: Annotated[searching.SearchQuery, Query()], key: Key = None
    ) -> Response:
        service.searches.take(caller(request))
        read = _reader(service, request, options)

        async def start() -> Job:
            ref, chosen = await read.ref()
            await check_banks(chosen.bank)
            query = await service.resolve(ref)
            asked = {"query": query, **chosen.asked()}
            return service.submit(request, "search", f"Search for {query['name']}", asked, query)

        job = await starting.once(request, key, options.webhook, await read.known(), start)
        return await answered(job, options.wait)

    @router.post(
        "/batches",
        responses=WAITED_FOR_MANY,
        response_class=JSONResponse,
        status_code=202,
        summary="Search for many videos",
    )
    async def batch(
        body: searching.BatchRequest,
        request: Request,
        wait: Wait = 0.0,
        webhook: Webhook = None,
        key: Key = None,
    ) -> Response:
        service.searches.take(caller(request))

        async def start() -> Job:
            await check_banks(body.bank)
            queries = [await service.resolve_or_say(ref) for ref in body.queries]
            title = f"Search for {len(queries)} videos"
            found = [query for query in queries if "error" not in query]
            return service.submit(request, "batch", title, {"queries": queries, **body.asked()}, *found)

        job = await starting.once(request, key, webhook, body.model_dump_json().encode(), start)
        return await answered(job, wait)

    async def started(
        request: Request,
        key: str | None,
        webhook: str | None,
        body: shapes.Asked,
        start: Callable[[], Awaitable[Job]],
    ) -> dict[str, Any]:
        job = await starting.once(request, key, webhook, body.model_dump_json().encode(), start)
        return {"job": as_dict(job)}

    @router.post("/compare", response_model=shapes.Started, status_code=202, summary="Compare two videos")
    async def compare(
        body: shapes.CompareRequest, request: Request, webhook: Webhook = None, key: Key = None
    ) -> dict[str, Any]:
        service.searches.take(caller(request))

        async def start() -> Job:
            query, target = await service.resolve(body.query), await service.resolve(body.target)
            comparison = service.state.new_comparison(service.settings.limits)
            asked = {"query": query, "target": target, "comparison": comparison, "refine": body.refine}
            title = f"Compare {query['name']} with {target['name']}"
            return service.submit(request, "compare", title, asked, query, target)

        return await started(request, key, webhook, body, start)

    @router.post("/add", response_model=shapes.Started, status_code=202, summary="Add a file or folder")
    async def add(
        body: shapes.AddRequest, request: Request, webhook: Webhook = None, key: Key = None
    ) -> dict[str, Any]:
        service.long_jobs.take(caller(request))
        if not service.index.writable:
            raise Problem(403, "This collection is read-only.")

        async def start() -> Job:
            real = await service.look_up(service.roots.resolve, body.path)
            asked = {"path": os.fspath(real), "roots": [os.fspath(root) for root in service.roots.folders]}
            return service.submit(request, "add", f"Add {printable(os.fspath(real))}", asked)

        return await started(request, key, webhook, body, start)

    @router.post("/duplicates", response_model=shapes.Started, status_code=202, summary="Find duplicates")
    async def find(
        body: shapes.DuplicatesRequest, request: Request, webhook: Webhook = None, key: Key = None
    ) -> dict[str, Any]:
        service.long_jobs.take(caller(request))

        async def start() -> Job:
            asked = {"min_confidence": body.min_confidence}
            return service.submit(request, "duplicates", "Find duplicates", asked)

        return await started(request, key, webhook, body, start)

    return router


class _Body:
    """The body of a search that names a video: JSON."""

    def __init__(self, service: Service, request: Request, options: searching.SearchQuery) -> None:
        self.service = service
        self.request = request
        self.options = options
        self._read: bytes | None = None

    async def known(self) -> bytes:
        """Tells this request from another."""
        if self._read is None:
            self._read = await self._whole()
        return self._read

    async def _whole(self) -> bytes:
        limits, data = self.service.settings.limits, bytearray()
        until = time.monotonic() + limits.body_s
        body = self.request.stream()
        while True:
            try:
                data += await asyncio.wait_for(anext(body), max(0.0, until - time.monotonic()))
            except StopAsyncIteration:
                return bytes(data)
            except TimeoutError:
                raise Problem(408, "That request came too slowly, and was given up.") from None
            except ClientDisconnect:
                raise Problem(400, "The request did not arrive whole.") from None
            if len(data) > limits.json_bytes:
                raise Problem(413, "That request is too long.")

    async def ref(self) -> tuple[shapes.Ref, searching.SearchOptions]:
        """The video to search for, and how; the body comes before the address."""
        try:
            body = searching.SearchRequest.model_validate_json(await self.known())
        except ValidationError as error:
            found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors(include_url=False)]
            raise RequestValidationError(found) from error
        ref = shapes.Ref(upload=body.upload, video=body.video, path=body.path)
        return ref, _merged(self.options, body)


class _FileBody(_Body):
    """The body of a search that is the video: raw bytes, or a form."""

    async def known(self) -> bytes:
        """Its length: nobody sends a file twice to be told that it came before."""
        return self.request.headers.get("content-length", "").encode()

    async def ref(self) -> tuple[shapes.Ref, searching.SearchOptions]:
        """The file once it is here."""
        request, options = self.request, self.options
        self.service.sends.take(caller(request))
        declared = request.headers.get("content-length", "")
        length = int(declared) if declared.isdecimal() else None
        try:
            if not _is_form(request):
                return _upload(await self._receive(options.name, length, request.stream())), options
            if length is not None and length > self.service.settings.limits.upload_bytes + FORM:
                raise self.service.uploads.too_large()
            form = await FormFile(request.headers["content-type"], request.stream()).opened()
            one = await self._receive(form.name or "video", None, aiter(form))
        except ClientDisconnect:
            raise Problem(400, "The file did not arrive whole.") from None
        try:
            fields = {name: _listed(name, text) for name, text in form.fields.items()}
            return _upload(one), _merged(options, searching.SearchQuery.model_validate(fields))
        except ValidationError as error:
            self.service.uploads.delete(one.id)
            found = [
                {**dict(said), "loc": ("body", *said["loc"])} for said in error.errors(include_url=False)
            ]
            raise RequestValidationError(found) from error

    async def _receive(self, name: str, length: int | None, body: Any) -> Uploaded:
        return await self.service.uploads.receive(clean_name(name), length, body, caller(self.request))


def _reader(service: Service, request: Request, options: searching.SearchQuery) -> _Body:
    kind = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
    json = kind in ("application/json", "") or kind.endswith("+json")
    return (_Body if json else _FileBody)(service, request, options)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/")


def _listed(name: str, text: str) -> str | list[str]:
    """A field of a form; those with several values have commas between them."""
    return text.split(",") if name in ("verdict", "bank") else text


def _upload(one: Uploaded) -> shapes.Ref:
    return shapes.Ref(upload=one.id)


def _merged(address: searching.SearchQuery, body: searching.SearchOptions) -> searching.SearchOptions:
    """The body's values, and the address's where the body has none."""
    names = searching.SearchOptions.model_fields
    given = {name: getattr(body if name in body.model_fields_set else address, name) for name in names}
    return searching.SearchOptions.model_construct(**given)
