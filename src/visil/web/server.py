"""The server: the application with its calls and the page, run until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp

from visil import __version__
from visil.errors import UsageError
from visil.web import (
    assets,
    monitoring,
    openapi,
    problems,
)
from visil.web.guard import Guard
from visil.web.routes import banks, job_calls, jobs, library, matches, review, session, videos
from visil.web.service import Service
from visil.web.settings import Settings

GRACE_S = 3
"""Seconds that open connections have when the server stops."""


class Server(uvicorn.Server):
    """A server that says where it listens once it does."""

    def __init__(self, settings: Settings, ready: Callable[[int], None] | None = None) -> None:
        self.listening = _bound(settings)
        self.port: int = self.listening.getsockname()[1]
        try:
            self.service = Service(settings)
        except BaseException:
            self.listening.close()
            raise
        self.connections = self.service.connections
        super().__init__(
            uvicorn.Config(
                make_app(self.service),
                http=self.connections.protocol(),
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                # Nobody else may claim to ask for someone.
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=list(settings.proxies),
                lifespan="on",
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=30,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; then the one who started it is told."""
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready(self.port)

    def go(self) -> None:
        """Serve until stopped."""
        self.run([self.listening])


def _bound(settings: Settings) -> socket.socket:
    """The socket to listen on; port 0 takes any that is free."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {reason.lower()}; choose another --port"
        ) from error
    return listening


def make_app(service: Service) -> ASGIApp:
    """The app over the parts of a server, which start and stop with it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

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
    openapi.install(app, bool(service.settings.tokens))
    for part in (session, videos, job_calls, jobs, library, matches, review, banks):
        app.include_router(part.routes(service))

    app.include_router(monitoring.routes(service))
    app.include_router(assets.routes(assets.Assets()))
    guarded = Guard(app, service.settings, service.tokens, service.access)
    return monitoring.Monitor(guarded, service)
