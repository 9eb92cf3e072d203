"""A process that searches, compares and adds: ``python -m visil.web.engine INDEX STATE NICE THREADS LIMITS``.

It holds the network, so that the server has little memory and its lists answer while this computes. Requests and
answers are lines of JSON that carry the request's key; every request has a thread, so that a file is embedded while
another search is at its exact stage. A request that is cancelled ends as Ctrl-C ends ``visil add``: everything finished
so far is kept. The process ends with the server, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.errors import VisilError
from visil.web.decoder import own_output

if TYPE_CHECKING:
    from visil.web.work import Work

Send = Callable[[dict[str, Any]], None]

TELL_EVERY_S = 0.2


class Teller:
    """Sends progress, but not too often; where the work is cancelled it ends it instead."""

    def __init__(self, send: Send) -> None:
        self.cancelled = False
        self._send = send
        self._last = 0.0
        self._news: dict[str, Any] | None = None
        self._finished: list[str] = []
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []

    def __call__(self, done: int, total: int | None, unit: str, *, finished: str | None = None) -> None:
        """Where the work stands; ``finished`` is a file that is done with."""
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

    def pending(self, files: list[str]) -> None:
        """Files that are about to be worked on."""
        for start in range(0, len(files), 1000):
            self._send({"pending": files[start : start + 1000]})

    def cancel(self) -> None:
        """End the work at its next step, and whatever it waits for now."""
        self.cancelled = True
        for stop in list(self._stops):
            stop()

    @contextmanager
    def ending(self, stop: Callable[[], None]) -> Iterator[None]:
        """While this is waited for, ``stop`` is called when the work is cancelled."""
        self._stops.append(stop)
        if self.cancelled:  # before there was anything to stop
            stop()
        try:
            yield
        finally:
            self._stops.remove(stop)


class Engine:
    """Requests under way, and the work that they share."""

    def __init__(self, make: Callable[[], Work], send: Send) -> None:
        self._make = make
        self._send = send
        self._work: Work | None = None
        self._opening = threading.Lock()
        self._running: dict[str, Teller] = {}

    def hear(self, message: dict[str, Any]) -> None:
        """A request is started, a word about one that runs is passed on."""
        key = message["key"]
        if message["do"] == "cancel":
            if key in self._running:
                self._running[key].cancel()
            return
        tell = self._running[key] = Teller(lambda said: self._send({"key": key, **said}))
        threading.Thread(target=self._carry_out, args=(key, message, tell), daemon=True).start()

    def _carry_out(self, key: str, request: dict[str, Any], tell: Teller) -> None:
        answer = self._answer(request, tell)
        self._running.pop(key, None)
        self._send({"key": key, **answer})

    def _answer(self, request: dict[str, Any], tell: Teller) -> dict[str, Any]:
        try:
            with self._opening:
                work = self._work = self._work or self._make()
            return {"result": work.do(request, tell)}
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
    os.nice(int(nice))
    answers = own_output()
    writing = threading.Lock()

    def send(message: dict[str, Any]) -> None:
        with writing:
            answers.write(json.dumps(message).encode() + b"\n")
            answers.flush()

    from visil.web.work import Work  # torch and all

    engine = Engine(lambda: Work(Path(folder), Path(state), json.loads(limits), int(threads)), send)
    for line in sys.stdin.buffer:
        engine.hear(json.loads(line))
    os._exit(0)  # the server is gone; a collection survives that at any moment


if __name__ == "__main__":
    main()
