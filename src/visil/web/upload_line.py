"""Lanes in which files are sent, and a line to wait in: nobody takes all lanes, and whoever has fewest comes next."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from visil.web.problems import Problem
from visil.web.settings import Limits


class UploadLine:
    """Who sends, and who waits to."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.sending: Counter[str] = Counter()
        """Files that each caller is sending."""
        self.waiting: list[tuple[str, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def lane(self, caller: str) -> AsyncIterator[None]:
        """A lane of one's own, once one is free; a problem 429 where that takes too long."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((caller, turn))
        self._next()
        try:
            if not turn.done():
                await self._wait(caller, turn)
            yield
        finally:
            if (caller, turn) in self.waiting:
                self.waiting.remove((caller, turn))
            else:
                self.sending -= Counter([caller])
            self._next()

    async def _wait(self, caller: str, turn: asyncio.Future[None]) -> None:
        if len(self.waiting) > self.limits.uploads_waiting:
            raise Problem(429, "Too many files are waiting to be sent; try again later.", retry_after=30)
        try:
            await asyncio.wait_for(asyncio.shield(turn), self.limits.upload_wait_s)
        except TimeoutError:
            if not turn.done():
                why = "you are" if self.sending[caller] >= self.limits.uploads_of_one else "others are"
                detail = (
                    f"As many files are being sent as may be, and {why} not done yet; try again in a moment."
                )
                raise Problem(429, detail, retry_after=5) from None

    def _next(self) -> None:
        """Give free lanes to those who wait, first to whom has fewest, then to whom came first."""
        while self.sending.total() < self.limits.uploads_under_way:
            can = [one for one in self.waiting if self.sending[one[0]] < self.limits.uploads_of_one]
            if not can:
                return
            chosen = min(can, key=lambda one: self.sending[one[0]])
            self.waiting.remove(chosen)
            self.sending[chosen[0]] += 1
            chosen[1].set_result(None)
