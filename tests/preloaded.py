"""Our Python processes, forked from one that has loaded everything: in tests, which start dozens of them.

Each would load torch, for two seconds. :func:`begin` forks one from the tests' own process, before any test has run.
What visil starts then is this file as a command, which loads nothing: it hands its streams, variables and folder to
that one, has a process forked that runs the code, passes signals on, and ends as that process ends, which ends with
it. Tests of how processes are started have real ones: they use the fixture ``fresh_processes``.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST = 1 << 17
"""Bytes of a request: words, folder, variables."""
HIGH = 500
"""Numbers of files from there on are free."""
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AVAILABLE = sys.platform == "linux" and hasattr(os, "pidfd_open")
PYTHONS = ("visil.machine.processes.python", "visil.web.engine.python", "visil.bench.end_to_end.python")
"""Where visil says how Python is started."""


def begin() -> None:
    """Have processes forked from now on. For a moment when this process has no threads that compute."""
    import visil.web.tasks  # noqa: F401  # what an engine loads

    address = f"visil-tests-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{address}")  # a name that needs no file
    listener.listen(64)
    ours, theirs = os.pipe()  # of which nothing is read but its end, that of this process
    if os.fork() == 0:
        try:
            _fork_for_others(listener, ours)
        finally:
            os._exit(1)
    os.close(ours)
    os.set_inheritable(theirs, False)
    listener.close()

    def python(*arguments: str) -> list[str]:
        return [sys.executable, "-I", "-S", __file__, address, *arguments]

    import pytest

    for place in PYTHONS:
        pytest.MonkeyPatch().setattr(place, python)


# ---------------------------------------------------------------------- what visil starts


def main() -> None:
    """A process for the words that follow, until it ends or this does."""
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(f"\0{sys.argv[1]}")
    handles = [handle for handle in _open_files() if handle != link.fileno()]
    wanted = {"words": sys.argv[2:], "folder": os.getcwd(), "variables": dict(os.environ), "handles": handles}
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: link.send(bytes([number])))
    socket.send_fds(link, [json.dumps(wanted).encode()], handles)
    for handle in handles:  # or who waits for the end of a stream would wait for this process
        os.close(handle)
    status = os.waitstatus_to_exitcode(int(link.recv(100) or b"256"))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _open_files() -> list[int]:
    found = []
    for handle in map(int, os.listdir("/proc/self/fd")):
        try:
            os.fstat(handle)
        except OSError:  # the folder that was listed
            continue
        found.append(handle)
    return found


# ---------------------------------------------------------------------- the process that forks


def _fork_for_others(listener: socket.socket, gone: int) -> None:
    """Until the tests' process has ended."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in _open_files():  # the tests' own
        if handle not in (listener.fileno(), gone, nothing):
            os.dup2(nothing, handle)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those below
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    waiting.register(gone, select.POLLHUP)
    while all(handle != gone for handle, _ in waiting.poll()):
        link, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _stand_by(link)
            os._exit(0)
        link.close()
    os._exit(0)


def _stand_by(link: socket.socket) -> None:
    """Fork what was asked for, and say how it ended; end it where nobody is there any more to be told."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, handles, *_ = socket.recv_fds(link, MOST, 200)
    wanted = json.loads(request)
    pid = os.fork()
    if pid == 0:
        link.close()
        from forked import end_as_a_process

        end_as_a_process(lambda: _become(wanted, handles))
    for handle in handles:
        os.close(handle)
    child = os.pidfd_open(pid)
    waiting = select.poll()
    waiting.register(link, select.POLLIN)
    waiting.register(child, select.POLLIN)
    while all(handle != child for handle, _ in waiting.poll()):
        if told := link.recv(1):
            os.kill(pid, told[0])
            continue
        waiting.unregister(link)
        with suppress(ProcessLookupError):  # it has no group of its own yet
            os.killpg(pid, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        link.send(str(status).encode())


def _become(wanted: dict[str, Any], handles: list[int]) -> None:
    """What ``python -P -m MODULE …`` or ``-c CODE …`` is there, with everything loaded already."""
    from importlib.util import find_spec
    from types import ModuleType

    from forked import stand_alone

    os.setsid()
    high = [os.dup2(handle, HIGH + place) for place, handle in enumerate(handles)]
    for handle in handles:
        os.close(handle)
    for handle, number in zip(high, wanted["handles"], strict=True):
        os.dup2(handle, number)
        os.close(handle)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["variables"])
    stand_alone()
    option, what, *arguments = wanted["words"]
    module = sys.modules["__main__"] = ModuleType("__main__")
    if option == "-c":
        sys.argv = [option, *arguments]
        exec(what, vars(module))
        return
    spec = module.__spec__ = find_spec(what)
    assert spec is not None
    sys.argv = [str(spec.origin), *arguments]
    exec(spec.loader.get_code(what), vars(module))  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
