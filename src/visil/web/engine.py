"""The processes that search, compare and add: the server's end, :class:`EngineLink`, and the process itself.

``python -m visil.web.engine INDEX STATE NICE THREADS LIMITS`` holds the network, so that the server has little memory
and its lists answer while this computes. Requests and answers are lines of JSON that carry the request's key; every
request has a thread, so that a file is embedded while another search is at its exact stage. A request that is cancelled
ends as Ctrl-C ends ``visil add``: everything finished so far is kept. The process ends with the server, however that
ends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.errors import VisilError
from visil.machine.processes import APART, environment, lasting, python
from visil.web.decoder import own_output
from visil.web.settings import MIB, Limits

if TYPE_CHECKING:
    from visil.web.tasks import Tasks

Message = dict[str, Any]
Send = Callable[[Message], None]
Child = asyncio.subprocess.Process

TELL_EVERY_S = 0.2
"""Seconds between two messages about how far a request is."""
GRACE_S = 30.0
"""Seconds that a request has to end when it is interrupted; a collection survives its process being killed then."""

# ---------------------------------------------------------------------- the server's end


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
        self._asked: dict[str, asyncio.Queue[Message | None]] = {}
        self._interrupted: set[str] = set()
        self._readers: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Start it, so that it is ready when work comes."""
        await self._started()

    async def ask(self, request: Message, heard: Send, key: str | None = None) -> Message:
        """Have a request carried out; ``heard`` gets what the engine says meanwhile."""
        key = key or secrets.token_hex(8)
        child = await self._started()
        inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._asked[key] = inbox
        try:
            await self._say(child, {**request, "key": key})
            while (message := await inbox.get()) is not None:
                if "result" in message:
                    result: Message = message["result"]
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

    async def _say(self, child: Child, message: Message) -> None:
        assert child.stdin is not None
        with suppress(OSError):  # a broken pipe: its reader sees the end of it, too
            child.stdin.write(json.dumps(message).encode() + b"\n")
            await child.stdin.drain()

    async def _started(self) -> Child:
        async with self._starting:
            if self._child is None or self._child.returncode is not None:
                self._child = await asyncio.create_subprocess_exec(
                    *python("-m", "visil.web.engine", os.fspath(self.index), os.fspath(self.state)),
                    *(str(self.nice), str(self.threads), json.dumps(asdict(self.limits))),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=64 * MIB,
                    **APART,
                    # Threads that spin while they wait for each other take the cores from whom they wait for.
                    env={
                        "OMP_NUM_THREADS": str(self.threads),
                        "OMP_WAIT_POLICY": "PASSIVE",
                        "MALLOC_ARENA_MAX": "2",  # or every thread keeps what it once needed
                        **environment(),
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
        if child is self._child:  # else it was killed, and another signal races with waiting for its end
            with suppress(ProcessLookupError):
                child.kill()
        await child.wait()
        if child is self._child or self._child is None:
            for inbox in self._asked.values():
                inbox.put_nowait(None)


# ---------------------------------------------------------------------- the process


class Teller:
    """Sends a request's progress, a few times a second at most; raises KeyboardInterrupt once it is cancelled."""

    def __init__(self, send: Send) -> None:
        self.cancelled = False
        self._send = send
        self._last = 0.0
        self._news: Message | None = None
        self._finished: list[str] = []
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []

    def __call__(self, done: int, total: int | None, unit: str, *, finished: str | None = None) -> None:
        """Report progress; ``finished`` is a file that is done with."""
        if self.cancelled:
            raise KeyboardInterrupt
        with self._lock:
            waits = self._news is not None
            self._news = {"done": done, "total": total, "unit": unit}
            if finished is not None:
                self._finished.append(finished)
        if time.monotonic() - self._last >= TELL_EVERY_S or done == total:
            self._tell()
        elif not waits:  # what comes next may take long
            later = threading.Timer(TELL_EVERY_S, self._tell)
            later.daemon = True
            later.start()

    def _tell(self) -> None:
        with self._lock:
            news, finished = self._news, self._finished
            self._news, self._finished, self._last = None, [], time.monotonic()
        if news is not None:
            self._send({**news, "finished": finished})

    def silent(self) -> Teller:
        """For a part of the work, which tells nothing, and is cancelled with the whole."""
        return _Part(self)

    def pending(self, files: list[str]) -> None:
        """Files that are about to be worked on."""
        for start in range(0, len(files), 1000):
            self._send({"pending": files[start : start + 1000]})

    def cancel(self) -> None:
        """End the work at its next step, and whatever it waits for now."""
        self.cancelled = True
        for stop in list(self._stops):
            stop()

    def ending(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        """While this is waited for, ``stop`` is called when the work is cancelled."""
        return self._ending(stop)

    @contextmanager
    def _ending(self, stop: Callable[[], None]) -> Iterator[None]:
        self._stops.append(stop)
        if self.cancelled:  # before there was anything to stop
            stop()
        try:
            yield
        finally:
            self._stops.remove(stop)


class _Part(Teller):
    def __init__(self, whole: Teller) -> None:
        super().__init__(lambda _: None)
        self._whole = whole

    def __call__(self, done: int, total: int | None, unit: str, *, finished: str | None = None) -> None:  # noqa: ARG002
        if self._whole.cancelled:
            raise KeyboardInterrupt

    def ending(self, stop: Callable[[], None]) -> AbstractContextManager[None]:
        return self._whole.ending(stop)


class Engine:
    """Requests under way, and the open collection that they share."""

    def __init__(self, make: Callable[[], Tasks], send: Send) -> None:
        self._make = make
        self._send = send
        self._tasks: Tasks | None = None
        self._opening = threading.Lock()
        self._running: dict[str, Teller] = {}

    def hear(self, message: Message) -> None:
        """Start a request, or cancel one that runs."""
        key = message["key"]
        if message["do"] == "cancel":
            if key in self._running:
                self._running[key].cancel()
            return
        tell = self._running[key] = Teller(lambda said: self._send({"key": key, **said}))
        threading.Thread(target=self._carry_out, args=(key, message, tell), daemon=True).start()

    def _carry_out(self, key: str, request: Message, tell: Teller) -> None:
        answer = self._answer(request, tell)
        self._running.pop(key, None)
        self._send({"key": key, **answer})

    def _answer(self, request: Message, tell: Teller) -> Message:
        try:
            with self._opening:
                tasks = self._tasks = self._tasks or self._make()
            return {"result": tasks.do(request, tell)}
        except KeyboardInterrupt:
            return {"cancelled": True}
        except VisilError as error:  # a decoder that was ended under it may be the reason
            return {"cancelled": True} if tell.cancelled else {"error": str(error)}
        except MemoryError:
            return {"error": "there is not enough memory for that"}
        except Exception as error:  # this process lives on; the traceback is for who runs the server
            traceback.print_exc()
            what = f"something went wrong in visil itself ({type(error).__name__})"
            return {"error": f"{what}; the server's log says more"}


def main() -> None:
    """Until standard input ends."""
    logging.basicConfig(format="visil: %(message)s", level=logging.WARNING)
    folder, state, nice, threads, limits = sys.argv[1:6]
    if sys.platform != "win32":
        os.nice(int(nice))
    answers = own_output()
    writing = threading.Lock()

    def send(message: Message) -> None:
        with writing:
            answers.write(json.dumps(message).encode() + b"\n")
            answers.flush()

    with lasting():
        from visil.web.tasks import Tasks  # torch and all

    engine = Engine(lambda: Tasks(Path(folder), Path(state), json.loads(limits), int(threads)), send)
    for line in sys.stdin.buffer:
        engine.hear(json.loads(line))
    os._exit(0)  # the server is gone; a collection survives that at any moment


if __name__ == "__main__":
    main()
