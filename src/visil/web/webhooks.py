"""Telling another server that a job is over: only hosts that the server was started with, and never by a detour.

An address that a caller names could lead to anything that this machine reaches. So its host must be one that whoever
runs the server has allowed, redirects are not followed, and proxies of the environment are not asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import http.client
import json
import logging
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from visil import __version__
from visil.web.jobs import as_dict
from visil.web.problems import Problem
from visil.web.state import Job, JobStore

logger = logging.getLogger("visil")

SECRET = "VISIL_WEBHOOK_SECRET"
"""The variable with what messages are signed with."""
TIMEOUT_S = 10.0
PAUSES_S = (0.0, 5.0, 30.0, 120.0)
"""Seconds before each attempt."""


class Webhooks:
    """Messages that are to be sent; those that a stopped server has not sent are sent by the next."""

    def __init__(self, hosts: Sequence[str], store: JobStore) -> None:
        self.hosts = {host.lower() for host in hosts}
        self.store = store
        self.sent = self.failed = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def check(self, url: str | None) -> None:
        """A problem 422 where a message may not be sent there."""
        if url is None:
            return
        try:
            address = urlsplit(url)
            host, port = (address.hostname or "").lower(), address.port
        except ValueError:
            raise Problem(422, "That webhook is not a valid address.") from None
        if address.scheme not in ("http", "https") or address.username is not None or not host:
            raise Problem(422, "A webhook begins with http:// or https://, and holds no password.")
        if not {host, f"{host}:{port or (443 if address.scheme == 'https' else 80)}"} & self.hosts:
            raise Problem(
                422, "This server may not send to that host: start it with --webhook-host to allow it."
            )

    def start(self) -> None:
        """Send messages that a stopped server has not sent."""
        for job, url in self.store.webhooks():
            found = self.store.get(job)
            if found is None or found.over:
                self._begin(job, url, found)

    def over(self, job: Job) -> None:
        """A job has ended."""
        url = self.store.webhook(job.id)
        if url is not None:
            self._begin(job.id, url, job)

    async def stop(self) -> None:
        """Give up for now."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, job: str, url: str, found: Job | None) -> None:
        if found is None:
            self.store.webhook_over(job)
            return
        task = asyncio.create_task(self._deliver(found, url))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, job: Job, url: str) -> None:
        message = {"event": f"job.{job.state}", "job": as_dict(job), "result": f"/api/v1/jobs/{job.id}"}
        for pause in PAUSES_S:
            await asyncio.sleep(pause)
            if await asyncio.to_thread(post, url, message):
                self.sent += 1
                break
        else:
            self.failed += 1
            logger.warning("the end of job %s could not be told to %s", job.id, urlsplit(url).hostname)
        self.store.webhook_over(job.id)


def post(url: str, message: dict[str, Any]) -> bool:
    """Send a message once; whether it was taken."""
    address = urlsplit(url)
    body = json.dumps(message).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"visil/{__version__}"}
    secret = os.environ.get(SECRET)
    if secret:
        headers["X-Visil-Signature"] = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    assert address.hostname is not None
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.hostname, address.port, timeout=TIMEOUT_S)
    try:
        target = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request("POST", target, body, headers)
        return 200 <= connection.getresponse().status < 300
    except (OSError, http.client.HTTPException, ValueError):
        return False
    finally:
        connection.close()
