"""Processes to kill, stop and wait for: forked from this one, which has loaded everything already."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


class Child:
    """A process that was started by :func:`fork`, with what :class:`subprocess.Popen` says of one."""

    def __init__(self, pid: int, said: Path) -> None:
        self.pid, self._said = pid, said
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, a signal's number negated; None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Its exit status, once it has ended."""
        deadline = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} has not ended in {timeout} s")
            time.sleep(0.01)
        return status

    def communicate(self, timeout: float = 10) -> tuple[str, str]:
        """All that it wrote to standard output and to standard error, once it has ended."""
        self.wait(timeout)
        return (self._said / "out").read_text(), (self._said / "err").read_text()

    def said(self) -> str:
        """What it has written to standard output so far."""
        file = self._said / "out"
        return file.read_text() if file.exists() else ""

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def fork(command: Callable[[], None], said: Path) -> Child:
    """Run a command in a child of this process, which ends as an interpreter does; what it says goes to ``said``."""

    def begin() -> None:
        for number, name in enumerate((Path(os.devnull), said / "out", said / "err")):
            file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(file, number)
            os.close(file)
        stand_alone()
        command()

    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        end_as_a_process(begin)
    return Child(pid, said)


def end_as_a_process(command: Callable[[], None]) -> NoReturn:
    """Run a command in what was forked, which then ends as an interpreter does."""
    status = 1
    try:
        command()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def stand_alone() -> None:
    """Streams, logging and Ctrl-C as in a process that a shell started; one thread in faiss, whose others are gone."""
    # Whatever started the tests may have had Ctrl-C ignored, as shells do for what they run in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
    logging.getLogger().handlers.clear()  # pytest's
    if faiss := sys.modules.get("faiss"):
        faiss.omp_set_num_threads(1)
