"""The server's end of an engine process: start it, ask it, interrupt it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visil.web.settings import MIB, Limits

GRACE_S = 30.0
"""Seconds that an engine has to stop when it is interrupted; a collection survives it being killed after that."""

Heard = Callable[[dict[str, Any]], None]


class EngineFailed(Exception):
    """The work could not be done; the message is a sentence for people."""


class EngineCancelled(Exception):
    """The work was interrupted."""


class EngineLink:
    """One engine, started when first needed; one request at a time, in the order they come."""

    def __init__(self, index: Path, state: Path, limits: Limits, nice: int) -> None:
        self.index = index
        self.state = state
        self.limits = limits
        self.nice = nice
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._interrupted = False

    async def warm(self) -> None:
        """Start it, so that it is ready when work comes."""
        if not self._turn.locked():
            async with self._turn:
                await self._started()

    async def ask(self, request: dict[str, Any], heard: Heard) -> dict[str, Any]:
        """Have a request carried out; ``heard`` gets what the engine says meanwhile."""
        async with self._turn:
            self._interrupted = False
            child = await self._started()
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                child.stdin.write(json.dumps({**request, "limits": asdict(self.limits)}).encode() + b"\n")
                await child.stdin.drain()
                while line := await child.stdout.readline():
                    message = json.loads(line)
                    if "result" in message:
                        result: dict[str, Any] = message["result"]
                        return result
                    if "error" in message:
                        raise EngineFailed(message["error"])
                    if "cancelled" in message:
                        raise EngineCancelled
                    heard(message)
            except (OSError, ValueError):  # a broken pipe, or half a line
                pass
            except asyncio.CancelledError:
                await self.stop()
                raise
            await self.stop()
            if self._interrupted:
                raise EngineCancelled
            raise EngineFailed(
                "the process that does the work ended unexpectedly; a file may have been too much for it"
            )

    def interrupt(self) -> None:
        """End the request that runs, cleanly; kill the process where that takes too long."""
        child = self._child
        if child is None or child.returncode is not None:
            return
        self._interrupted = True
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        asyncio.get_running_loop().call_later(GRACE_S, self._kill_if_interrupted, child)

    def _kill_if_interrupted(self, child: asyncio.subprocess.Process) -> None:
        if self._interrupted and self._turn.locked() and child is self._child and child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()

    async def stop(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            threads = str(max(1, len(os.sched_getaffinity(0)) - 1))
            self._child = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "visil.web.engine", self.index, self.state, str(self.nice)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=64 * MIB,
                start_new_session=True,  # Ctrl-C is for the server, which ends its children itself
                env={"OMP_NUM_THREADS": threads, **os.environ},
            )
        return self._child
