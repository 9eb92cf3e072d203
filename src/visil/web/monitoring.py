"""How the server is: whether it lives and can work, its figures for Prometheus, and a line for every request."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections import Counter as Count
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from prometheus_client import Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from visil import __version__
from visil.errors import UsageError, VisilError, os_reason, printable
from visil.web.jobs import LANES, lane_of
from visil.web.library import iso
from visil.web.problems import Problem
from visil.web.service import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0)


class Monitor:
    """Stands before everything else, and counts what goes through."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.registry = service.registry
        self._log = open_log(service.settings.access_log)
        ProcessCollector(registry=self.registry)
        self.registry.register(Figures(service))
        labels = ["method", "call", "status"]
        self._requests = Counter("visil_requests", "Requests answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            *(
                "visil_request_seconds",
                "Seconds from a request to the end of its answer.",
                ["method", "call"],
            ),
            buckets=SECONDS,
            registry=self.registry,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            if scope["type"] == "lifespan" and self._log not in (None, sys.stderr):
                assert self._log is not None
                self._log.close()
            return
        began, status, sent = time.monotonic(), 0, 0
        name = secrets.token_hex(8)
        path = scope["path"]

        async def counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", name.encode())]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            took = time.monotonic() - began
            call = call_of(scope)
            self._requests.labels(scope["method"], call, str(status)).inc()
            self._seconds.labels(scope["method"], call).observe(took)
            if self._log is not None:
                caller = scope.get("state", {}).get("caller")
                said = {
                    "at": iso(time.time()),
                    "request": name,
                    "caller": None if caller is None else caller.name,
                    "address": scope["client"][0] if scope.get("client") else None,
                    **{"method": scope["method"], "path": path, "status": status},
                    **{"ms": round(1000 * took, 1), "bytes": sent},
                }
                self._log.write(json.dumps(said) + "\n")
                self._log.flush()


def call_of(scope: Scope) -> str:
    """The call of a request, with names in place of values, so that there are few."""
    if "endpoint" not in scope:
        return "none"
    path: str = scope["path"]
    for name, value in reversed((scope.get("path_params") or {}).items()):
        before, _, after = path.rpartition(str(value))
        path = f"{before}{{{name}}}{after}"
    return path


class Figures(Collector):
    """Figures that are looked up when someone asks."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        """As Prometheus wants them."""
        service = self.service
        info = GaugeMetricFamily("visil_info", "The version that runs.", labels=["version"])
        info.add_metric([__version__], 1)
        yield info
        videos = len(service.library.snapshot().by_id)
        yield GaugeMetricFamily("visil_videos", "Videos in the collection.", value=videos)
        jobs = GaugeMetricFamily("visil_jobs", "Jobs that are not over.", labels=["lane", "state"])
        now = Count((lane_of(job), job.state) for job in service.jobs.live())
        for lane in LANES:
            for state in ("waiting", "running"):
                jobs.add_metric([lane, state], now[lane, state])
        yield jobs
        ended = CounterMetricFamily("visil_jobs_ended", "Jobs that are over.", labels=["kind", "state"])
        for (kind, state), count in service.jobs.ended.items():
            ended.add_metric([kind, state], count)
        yield ended
        line = service.uploads.line
        uploads = GaugeMetricFamily("visil_uploads", "Files that are sent, or wait to be.", labels=["state"])
        uploads.add_metric(["sending"], line.sending.total())
        uploads.add_metric(["waiting"], len(line.waiting))
        yield uploads
        open_ = service.connections.open
        yield GaugeMetricFamily("visil_connections", "Connections that are open.", value=open_)
        away = service.connections.turned_away
        yield CounterMetricFamily("visil_connections_turned_away", "Connections that made way.", value=away)
        hooks = CounterMetricFamily("visil_webhooks", "Messages to webhooks.", labels=["state"])
        hooks.add_metric(["sent"], service.webhooks.sent)
        hooks.add_metric(["failed"], service.webhooks.failed)
        yield hooks


def routes(service: Service) -> APIRouter:
    """``/healthz``, ``/readyz`` and ``/metrics``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    async def alive() -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    @router.get("/readyz")
    async def ready() -> Response:
        return JSONResponse(await service.look_up(readiness, service))

    @router.get("/metrics")
    async def metrics() -> Response:
        return Response(
            await service.look_up(generate_latest, service.registry), media_type=CONTENT_TYPE_LATEST
        )

    return router


def readiness(service: Service) -> dict[str, Any]:
    """That the collection can be read and there is room to work; a problem 503 where not."""
    try:
        service.index.catalogue.count()
        free = shutil.disk_usage(service.state.folder).free
    except (VisilError, OSError) as error:
        raise Problem(503, f"The collection cannot be read: {error}") from error
    if free < service.settings.limits.disk_left:
        raise Problem(503, "The disk is too full to take files in.")
    return {"status": "ready", "free_bytes": free}


def open_log(place: str | None) -> TextIO | None:
    """Where requests are logged: a file, or “-” for standard error."""
    if place is None or place == "-":
        return None if place is None else sys.stderr
    try:
        return open(place, "a", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{printable(place)}: requests cannot be logged there: {os_reason(error)}"
        ) from error
