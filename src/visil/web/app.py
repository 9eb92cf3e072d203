"""The application: every call, the page, and who guards them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from visil import __version__
from visil.web import (
    problems,
    routes_files,
    routes_folders,
    routes_jobs,
    routes_library,
    routes_session,
    routes_uploads,
    routes_work,
)
from visil.web.guard import Guard
from visil.web.serving import Serving

STATIC = Path(__file__).parent / "static"


class _Static(StaticFiles):
    """The page's files, checked with the server each time: a new version is seen at once."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def make_app(serving: Serving) -> ASGIApp:
    """The app over the parts of a server, which start and stop with it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await serving.start()
        try:
            yield
        finally:
            await serving.stop()

    app = FastAPI(
        title="visil",
        version=__version__,
        summary="What in a collection of videos shares footage, and where.",
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    problems.install(app)
    for part in (
        *(routes_session, routes_library, routes_folders, routes_uploads),
        *(routes_files, routes_work, routes_jobs),
    ):
        app.include_router(part.routes(serving))

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    app.mount("/static", _Static(directory=STATIC, check_dir=False))
    return Guard(app, serving.settings)
