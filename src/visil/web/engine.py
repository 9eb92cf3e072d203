"""A process that searches, compares and adds: ``python -m visil.web.engine INDEX STATE NICE``.

It holds the network, so that the server has little memory and its lists answer while this computes. Requests and
answers are lines of JSON. One request at a time; an interrupt (SIGINT) ends the one that runs, as Ctrl-C ends
``visil add``: everything finished so far is kept. It ends with the server, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

from visil.errors import VisilError
from visil.web.decoder import own_output

Send = Callable[[dict[str, Any]], None]

TELL_EVERY_S = 0.2


class Teller:
    """Sends progress, but not too often."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._last = 0.0
        self._finished: list[str] = []

    def __call__(self, done: int, total: int | None, unit: str, *, finished: str | None = None) -> None:
        """Where the work stands; ``finished`` is a file that is done with."""
        if finished is not None:
            self._finished.append(finished)
        now = time.monotonic()
        if now - self._last >= TELL_EVERY_S or done == total:
            self._last = now
            self._send({"done": done, "total": total, "unit": unit, "finished": self._finished})
            self._finished = []

    def pending(self, files: list[str]) -> None:
        """Files that are about to be worked on."""
        for start in range(0, len(files), 1000):
            self._send({"pending": files[start : start + 1000]})


class Interruptible:
    """SIGINT raises KeyboardInterrupt while work runs, and does nothing between."""

    def __init__(self) -> None:
        self.busy = False
        signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self.busy:
            self.busy = False  # a second one must not disturb the cleaning up
            raise KeyboardInterrupt


def main() -> None:
    """Until standard input ends."""
    logging.basicConfig(format="visil: %(message)s", level=logging.WARNING)
    folder, state, nice = sys.argv[1:4]
    os.nice(int(nice))
    answers = own_output()
    guard = Interruptible()
    inbox: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, inbox), daemon=True).start()

    def send(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message).encode() + b"\n")
        answers.flush()

    from visil.web.work import Work  # torch and all

    work: Work | None = None
    while True:
        request = inbox.get()
        try:
            guard.busy = True
            work = work or Work(Path(folder), Path(state), request["limits"])
            result = work.do(request, Teller(send))
            guard.busy = False
            send({"result": result})
        except KeyboardInterrupt:
            send({"cancelled": True})
        except VisilError as error:
            guard.busy = False
            send({"error": str(error)})
        except MemoryError:
            guard.busy = False
            send({"error": "there is not enough memory for that"})
        except Exception as error:  # this process lives on; the traceback is for who runs the server
            guard.busy = False
            traceback.print_exc()
            what = f"something went wrong in visil itself ({type(error).__name__})"
            send({"error": f"{what}; the server's log says more"})


def _read(requests: BinaryIO, inbox: queue.Queue[dict[str, Any]]) -> None:
    for line in requests:
        inbox.put(json.loads(line))
    os._exit(0)  # the server is gone; a collection survives that at any moment


if __name__ == "__main__":
    main()
