"""Errors as application/problem+json: what went wrong, in a sentence a person understands."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from visil.errors import IndexFolderError, UsageError, VideoError, VisilError

logger = logging.getLogger("visil")

PROBLEM = "application/problem+json"
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")

SCHEMA = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}
EXAMPLE = {
    "type": "about:blank",
    "title": "Not Found",
    "status": 404,
    "detail": "There is no such video here.",
}

RESPONSES: dict[int | str, dict[str, Any]] = {
    kind: {
        "description": "What went wrong, in a sentence.",
        "content": {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": EXAMPLE}},
    }
    for kind in ("4XX", "5XX")
}
"""For the OpenAPI of every call."""


class Problem(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.retry_after = retry_after

    def response(self) -> JSONResponse:
        """As it is sent."""
        headers = {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        return JSONResponse(body, self.status, headers, PROBLEM)


def problem_of(error: VisilError) -> Problem:
    """An error of visil's as a problem over HTTP."""
    match error:
        case UsageError() | VideoError():
            return Problem(422, str(error))
        case IndexFolderError(reason="the folder cannot be written to"):
            return Problem(403, "This collection is read-only.")
        case _:
            return Problem(500, str(error))


def _plain(invalid: dict[str, Any]) -> str:
    """The fault in one value of a request."""
    known = {"missing": "is missing", "extra_forbidden": "is not known here", "json_invalid": "is not JSON"}
    return known.get(invalid["type"], str(invalid["msg"]).removeprefix("Value error, "))


def _methods(app: FastAPI, request: Request) -> list[str]:
    """Everything that the address of a request may be asked for, whichever routes do it.

    An address that stands in the description as it is, such as ``videos/remove``, is no video of that name.
    """
    described = app.openapi()["paths"].get(request.url.path.replace("/api/", "/api/v1/", 1), {})
    if described:
        return sorted(method for method in METHODS if method.lower() in described)
    scopes = {method: {**request.scope, "method": method} for method in METHODS}
    return [
        method
        for method, scope in scopes.items()
        if any(route.matches(scope)[0] is Match.FULL for route in app.routes)
    ]


def install(app: FastAPI) -> None:
    """Make every error of an app a problem."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, Problem)
        return error.response()

    async def visil(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, VisilError)
        return problem_of(error).response()

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        said = [
            f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {_plain(one)}" for one in error.errors()
        ]
        text = "; ".join(said[:3]).encode("ascii", "backslashreplace").decode()
        return Problem(422, f"That request is not understood. {text}").response()

    async def plain(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if isinstance(error.__cause__, Problem):  # while a body was read
            return error.__cause__.response()
        words = {404: "There is nothing at this address.", 405: "This address does not support that method."}
        response = Problem(error.status_code, words.get(error.status_code, str(error.detail))).response()
        response.headers.update(error.headers or {})
        if error.status_code == 405:
            response.headers["Allow"] = ", ".join(_methods(app, request))
        return response

    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        logger.error("a request failed", exc_info=error)
        return Problem(500, "Something went wrong in the server itself; its log says what.").response()

    app.add_exception_handler(Problem, ours)
    app.add_exception_handler(VisilError, visil)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, plain)
    app.add_exception_handler(Exception, unexpected)
