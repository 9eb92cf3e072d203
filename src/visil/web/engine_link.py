"""The server's end of an engine process: start it, ask it, interrupt it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from visil.web.settings import MIB, Limits

GRACE_S = 30.0
"""Seconds that a request has to end when it is interrupted; a collection survives its process being killed then."""

Heard = Callable[[dict[str, Any]], None]
Child = asyncio.subprocess.Process


class EngineFailed(Exception):
    """The work could not be done; the message is a sentence for people."""


class EngineCancelled(Exception):
    """The work was interrupted."""


class EngineLink:
    """One engine, started when first needed; several requests at once, each under a key of its own."""

    def __init__(self, index: Path, state: Path, limits: Limits, *, nice: int, threads: int) -> None:
        self.index = index
        self.state = state
        self.limits = limits
        self.nice = nice
        self.threads = threads
        self._child: Child | None = None
        self._starting = asyncio.Lock()
        self._asked: dict[str, asyncio.Queue[dict[str, Any] | None]] = {}
        self._interrupted: set[str] = set()
        self._readers: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Start it, so that it is ready when work comes."""
        await self._started()

    async def ask(self, request: dict[str, Any], heard: Heard, key: str | None = None) -> dict[str, Any]:
        """Have a request carried out; ``heard`` gets what the engine says meanwhile."""
        key = key or secrets.token_hex(8)
        child = await self._started()
        inbox: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._asked[key] = inbox
        try:
            await self._say(child, {**request, "key": key})
            while (message := await inbox.get()) is not None:
                if "result" in message:
                    result: dict[str, Any] = message["result"]
                    return result
                if "error" in message:
                    raise EngineFailed(message["error"])
                if "cancelled" in message:
                    raise EngineCancelled
                heard(message)
            if key in self._interrupted:
                raise EngineCancelled
            raise EngineFailed(
                "the process that does the work ended unexpectedly; a file may have been too much for it"
            )
        except asyncio.CancelledError:
            self.interrupt(key)
            raise
        finally:
            self._asked.pop(key, None)
            self._interrupted.discard(key)

    def interrupt(self, key: str) -> None:
        """End a request that runs, cleanly; kill the process where that takes too long."""
        child = self._child
        if child is None or child.stdin is None or key not in self._asked:
            return
        self._interrupted.add(key)
        with suppress(OSError, RuntimeError):
            child.stdin.write(json.dumps({"do": "cancel", "key": key}).encode() + b"\n")
        asyncio.get_running_loop().call_later(GRACE_S, self._kill_if_interrupted, child, key)

    def _kill_if_interrupted(self, child: Child, key: str) -> None:
        if key in self._interrupted and child is self._child and child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()

    async def stop(self, *, only_idle: bool = False) -> None:
        """End the process; ``only_idle``: unless it has work."""
        if only_idle and self._asked:
            return
        child, self._child = self._child, None
        if child is not None and child.returncode is None:
            with suppress(ProcessLookupError):
                child.kill()
            await child.wait()

    async def _say(self, child: Child, message: dict[str, Any]) -> None:
        assert child.stdin is not None
        with suppress(OSError):  # a broken pipe: its reader sees the end of it, too
            child.stdin.write(json.dumps(message).encode() + b"\n")
            await child.stdin.drain()

    async def _started(self) -> Child:
        async with self._starting:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "visil.web.engine", self.index, self.state),
                    *(str(self.nice), str(self.threads), json.dumps(asdict(self.limits))),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=64 * MIB,
                    start_new_session=True,  # Ctrl-C is for the server, which ends its children itself
                    # Threads that spin while they wait for each other take the cores from whom they wait for.
                    env={
                        "OMP_NUM_THREADS": str(self.threads),
                        "OMP_WAIT_POLICY": "PASSIVE",
                        "MALLOC_ARENA_MAX": "2",  # or every thread keeps what it once needed
                        **os.environ,
                    },
                )
                reader = asyncio.create_task(self._read(self._child))
                self._readers.add(reader)
                reader.add_done_callback(self._readers.discard)
            return self._child

    async def _read(self, child: Child) -> None:
        """Pass on what an engine says, until it ends."""
        assert child.stdout is not None
        with suppress(OSError, ValueError):  # half a line
            while line := await child.stdout.readline():
                message = json.loads(line)
                if message["key"] in self._asked:
                    self._asked[message["key"]].put_nowait(message)
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        if child is self._child or self._child is None:
            for inbox in self._asked.values():
                inbox.put_nowait(None)
