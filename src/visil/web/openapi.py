"""The description of the API: FastAPI's, with who may call what, and the shapes that it cannot see."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from visil.web.callers import COOKIE
from visil.web.guard import OPEN, role_needed, starts_work
from visil.web.problems import PROBLEM, SCHEMA
from visil.web.shapes_search import SearchRequest

VERSION = "/api/v1/"
"""The beginning of every address; ``/api/`` alone means the same."""

SCHEMES: dict[str, Any] = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token that the server was started with. One that is open to its own machine needs none.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": COOKIE,
        "description": "A cookie from /api/v1/login; calls that change something need X-Visil as well.",
    },
    "header": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Visil",
        "description": "“1”, which no other web site can send; needed where no token is sent.",
    },
}
FORM: dict[str, Any] = {
    "title": "SearchForm",
    "type": "object",
    "description": "A clip as a form has it; its other fields are those that the address may hold.",
    "required": ["file"],
    "properties": {"file": {"type": "string", "format": "binary"}},
}
ABOUT = (
    "Searching, comparing, finding duplicates and adding are jobs: a call answers with the job, or with its result"
    " where the caller waits. Errors are application/problem+json with a sentence for people. Roles: a reader looks and"
    " searches, a reviewer also judges and decides, an admin also changes the collection."
)


def install(app: FastAPI, tokens: bool) -> None:
    """Let an app describe itself so; ``tokens``: whether callers need one."""
    made: dict[str, Any] = {}

    def described() -> dict[str, Any]:
        if not made:
            made.update(describe(app, tokens))
        return made

    app.openapi = described  # type: ignore[method-assign]


def describe(app: FastAPI, tokens: bool) -> dict[str, Any]:
    """The description of an app's calls."""
    said = get_openapi(
        title=app.title, version=app.version, summary=app.summary, description=ABOUT, routes=app.routes
    )
    said["paths"] = {
        path.replace("/api/", VERSION, 1): {
            method: _call(method.upper(), path, operation, tokens) for method, operation in ways.items()
        }
        for path, ways in said["paths"].items()
    }
    shapes = said["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # ours are problems
        shapes.pop(name, None)
    search = SearchRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    shapes |= {**search.pop("$defs", {}), "SearchRequest": search, "SearchForm": FORM, "Problem": SCHEMA}
    said["components"]["securitySchemes"] = SCHEMES
    said["tags"] = [
        {"name": name} for name in sorted({t for o in _operations(said) for t in o.get("tags", [])})
    ]
    return said


def _call(method: str, path: str, operation: dict[str, Any], tokens: bool) -> dict[str, Any]:
    """One call: its name, and the role that may make it."""
    operation["responses"] = {
        status: answer
        for status, answer in operation["responses"].items()
        if status != "422" or PROBLEM in answer.get("content", {})
    }
    for answer in operation["responses"].values():
        for kind, content in answer.get("content", {}).items():
            if "json" in kind or kind == "text/event-stream":
                continue
            text = kind.startswith("text/")
            content.setdefault(
                "schema", {"type": "string"} if text else {"type": "string", "format": "binary"}
            )
    operation["operationId"] = _name(method, path)
    operation["security"] = _security(method, path, tokens)
    if path not in OPEN:
        operation["x-role"] = role_needed(method, path)
    return operation


def _security(method: str, path: str, tokens: bool) -> list[dict[str, list[str]]]:
    """The headers of which a request must carry one."""
    looks = method == "GET"
    if path in OPEN or not tokens:
        free = looks or (path not in OPEN and starts_work(method, path))
        by_token: list[dict[str, list[str]]] = [{"token": []}] if tokens else []
        return [{}] if free else [*by_token, {"header": []}]
    return [{"token": []}, {"session": []} if looks else {"session": [], "header": []}]


def _name(method: str, path: str) -> str:
    """``get_jobs_job_events``: short, and the same in every version."""
    words = path.removeprefix("/api/").replace("{", "").replace("}", "").replace(".", "_").replace("-", "_")
    return f"{method.lower()}_{words.strip('/').replace('/', '_')}"


def _operations(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for ways in said["paths"].values() for operation in ways.values()]
