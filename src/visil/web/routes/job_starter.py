"""Starting jobs for callers: once for each Idempotency-Key, with word to a webhook at the end, and waiting a while."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import Header, Query, Request

from visil.web.problems import Problem
from visil.web.service import Service, who
from visil.web.state import Job

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="The same request with the same key within a day starts one job, and is answered with that.",
        examples=["8e03978e-40d5-43e8-bc93-6894a57f9324"],
    ),
]
Webhook = Annotated[
    str | None,
    Query(
        max_length=2000,
        description="Where to send word when the job is over; its host must be allowed by --webhook-host.",
        examples=["https://hooks.example.org/visil"],
    ),
]


class JobStarter:
    """Takes on jobs."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._under_way: set[tuple[str, str]] = set()

    async def once(
        self,
        request: Request,
        key: str | None,
        webhook: str | None,
        body: bytes,
        start: Callable[[], Awaitable[Job]],
    ) -> Job:
        """The job that a request starts, or has started before under the same key."""
        store, name = self.service.jobs.store, who(request).name
        self.service.webhooks.check(webhook)
        asked = f"{request.method} {request.url.path}?{request.url.query}".encode() + b"\n" + body
        print_of = hashlib.sha256(asked).hexdigest()
        known = None if key is None else await self.service.look_up(store.job_of_key, name, key)
        if known is not None:
            if known[0] != print_of:
                raise Problem(422, "That Idempotency-Key was used for another request.")
            found = store.get(known[1])
            if found is not None:
                return self.service.jobs.get(found.id)
        if key is None:
            return self._told(await start(), webhook)
        if (name, key) in self._under_way:
            raise Problem(409, "A request with that Idempotency-Key is under way.", retry_after=1)
        self._under_way.add((name, key))
        try:
            job = self._told(await start(), webhook)
            store.keep_key(name, key, print_of, job.id)
            return job
        finally:
            self._under_way.discard((name, key))

    async def done(self, job: Job, seconds: float) -> dict[str, Any] | None:
        """The result of a job that is done in time; None where it is not. A problem where it has failed."""
        found = await self.service.jobs.over(job.id, seconds)
        if found.state == "failed":
            raise Problem(422, found.error or "This did not work.")
        if found.state == "cancelled":
            raise Problem(409, "This was stopped before it was done.")
        if found.state != "done":
            return None
        return await self.service.look_up(self.service.jobs.store.result, found.id)

    def _told(self, job: Job, webhook: str | None) -> Job:
        if webhook is not None:
            self.service.jobs.store.keep_webhook(job.id, webhook)
        return job
