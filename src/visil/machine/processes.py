"""Processes of our own that run Python, and worker processes that share memory.

No code is ever taken from the folder that a command runs in, which may hold downloads: every process that is started
here loads it with that folder off ``sys.path`` (``-P``), and in the root folder.

Workers are forked from one process that has loaded what they need, and nothing else. A fork of this process may hang,
since it may have threads, a GPU, and whatever else a user's program has loaded; and a fresh process for each worker
would load torch each time. So one fresh process is started, is told once what workers do, loads that, goes to the
folder that paths are relative to, and forks workers: in milliseconds, and with its memory shared between them until
they write to it. When this process ends, however that happens, all of them do.

To load torch takes seconds, in which sixteen cores wait. A process that is ours alone (:mod:`visil.machine.ours`) has
loaded it already: where none of its threads is at work, that one process is a fork of it.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn, Protocol

from visil.errors import VisilError
from visil.machine import ours

START_S = 60.0
"""Seconds that a worker may take to begin."""

ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "MALLOC_ARENA_MAX": "2",  # or every thread keeps what it once needed
}
"""A worker is one core's work; where it may use more, it is told so."""


NEUTRAL = os.path.abspath(os.sep)
"""Where our processes are started: nobody puts modules there."""

APART: dict[str, Any] = {"cwd": NEUTRAL, "start_new_session": True}
"""For ``Popen``: neither this process's working folder nor Ctrl-C is for the new one; who starts it ends it."""
if sys.platform == "win32":
    APART = {"cwd": NEUTRAL, "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}

PATHS = ("VISIL_CACHE", "VISIL_CONFIG", "XDG_CACHE_HOME", "TORCH_HOME", "HF_HOME")
"""Variables that name a file or folder, perhaps from where the command was run."""

NOT_HERE = "worker processes are forked, which is safe on Linux alone"


class Service(Protocol):
    """The work of workers: pickled once, called in each of them."""

    def prepare(self) -> None:
        """Load what all workers need, before there are any."""

    def __call__(self, connection: Connection) -> None:
        """Serve who is at the other end, until that is gone (EOFError) or says so."""


class WorkersError(VisilError):
    """Worker processes cannot be started on this machine."""


def available() -> bool:
    """Whether this machine can have such workers: Linux. A fork is not safe on macOS, and Windows has none."""
    return sys.platform == "linux" and bool(sys.executable)


def quick() -> bool:
    """Whether workers are there at once: this process may be forked, now.

    What another thread holds while it computes, a fork would wait for without end. Those of a progress bar and of
    pools, which wait for work while this one does something else, hold nothing. A process that uses a GPU is not
    forked: its driver's threads do not appear here.
    """
    idle = ("visil_", "visil-seal")
    others = (t for t in threading.enumerate() if t is not threading.current_thread())
    return (
        ours.is_ours()
        and available()
        and not _uses_gpu()
        and all(type(t).__module__.startswith("rich.") or t.name.startswith(idle) for t in others)
    )


def _uses_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


LOADED_AHEAD = ("visil.collection.index", "visil.collection.worker")
"""Modules, with all that they import, that workers on a collection need."""

_ahead: list[tuple[socket.socket, subprocess.Popen[bytes]]] = []


def start_ahead() -> None:
    """A fresh process, now: the next :class:`Workers` that need one find it ready.

    For a command that will use a GPU, and so cannot be forked when it knows what workers are to do.
    """
    if available() and not _ahead:
        control, theirs = socket.socketpair()
        with theirs:
            _ahead.append((control, _fresh(theirs, *LOADED_AHEAD)))
        atexit.register(_end_unused)


def _end_unused() -> None:
    while _ahead:
        control, process = _ahead.pop()
        control.close()
        process.kill()
        process.wait()


class Workers:
    """A process that forks workers, where that is :func:`available`; :meth:`close` ends it and all of them."""

    def __init__(self, service: Service) -> None:
        self._control: socket.socket
        self._fresh: subprocess.Popen[bytes] | None = None
        self.pid: int
        """The process that forks workers."""
        if _ahead and not quick():
            self._control, self._fresh = _ahead.pop()
            self.pid = self._fresh.pid
        else:
            self._control, theirs = socket.socketpair()
            with theirs:
                if quick():
                    self.pid = _forked(theirs, service)
                else:
                    self._fresh = _fresh(theirs)
                    self.pid = self._fresh.pid
        self._lock = threading.Lock()
        self.ready = threading.Event()
        """Set when workers can be forked."""
        self.failed: str | None = None
        """Why there will be no workers."""
        self._starting = threading.Thread(target=self._start, args=(service,), daemon=True)
        self._starting.start()

    def _start(self, service: Service) -> None:
        try:
            if self._fresh is not None:
                data = pickle.dumps(service)
                self._control.sendall(struct.pack("!Q", len(data)) + data)
            if self._control.recv(1) != b"R":
                self.failed = "the process that they come from has ended"
        except Exception as error:  # what cannot be sent may say so in any way
            self.failed = f"{type(error).__name__}: {error}"
        self.ready.set()

    def fork(self) -> Connection:
        """A new worker, or rather the connection to it; it ends when that is closed."""
        if sys.platform != "linux":
            raise NotImplementedError(NOT_HERE)
        ours, theirs = socket.socketpair()
        self.ready.wait()
        if self.failed:
            raise WorkersError(f"worker processes cannot be started ({self.failed})")
        with theirs, self._lock:
            try:
                socket.send_fds(self._control, [b"F"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise WorkersError("worker processes cannot be started any more: run it again") from error
        connection = Connection(ours.detach())
        try:
            if connection.poll(START_S):
                connection.recv()
                return connection
        except (EOFError, OSError):
            pass
        connection.close()
        raise WorkersError("a worker process could not be started: there may be too little memory")

    def close(self) -> None:
        """End the process and what it has forked, at once."""
        self._control.close()
        if sys.platform == "linux" and (self._fresh is None or self._fresh.poll() is None):
            for end in (os.killpg, os.kill):  # it may have no group of its own yet
                with suppress(ProcessLookupError):
                    end(self.pid, signal.SIGKILL)
        if self._fresh is not None:
            self._fresh.wait()
        else:
            os.waitpid(self.pid, 0)
        self._starting.join()


def _fresh(control: socket.socket, *modules: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        python("-m", "visil.machine.processes", str(control.fileno()), _here(), *modules),
        pass_fds=[control.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,  # where this process prints its results
        start_new_session=True,  # Ctrl-C is for this process, which ends its workers itself
        cwd=NEUTRAL,
        env=environment(ENVIRONMENT),
    )


def _forked(control: socket.socket, service: Service) -> int:
    """The same as a fork of this process."""
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    here = _here()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it has threads, and they wait
        process = os.fork()
    if process:
        return process
    try:
        _leave_all_behind(control.fileno())
        service.prepare()
        _serve(control, service, here)
    except BaseException:
        traceback.print_exc()
    os._exit(1)


def _leave_all_behind(control: int) -> None:
    """Let go of all that a fresh process would not have: terminal, output, open files, locks, ways to find modules."""
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    gc.freeze()  # nothing of this process's is ever finalised
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nothing, standard)
    for handle in map(int, os.listdir("/proc/self/fd")):
        if handle not in (0, 1, 2, control):
            with suppress(OSError):
                os.close(handle)
    os.chdir(NEUTRAL)
    sys.path[:] = [folder for folder in sys.path if os.path.isabs(folder)]
    os.environ.update(environment(ENVIRONMENT))


@contextmanager
def lasting() -> Iterator[None]:
    """Modules imported here stay, and are never searched for garbage.

    torch makes half a million objects: looking through them takes a tenth of its import, and more at every later time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def send_handle(connection: Connection, handle: int) -> None:
    """An open file for who is at the other end, who is waiting for it (:func:`receive_handle`)."""
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        socket.send_fds(link, [b"H"], [handle])


def receive_handle(connection: Connection) -> int:
    """The open file that comes next."""
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        _, handles, *_ = socket.recv_fds(link, 1, 1)
    if not handles:
        raise EOFError
    return handles[0]


def listening(connection: Connection) -> Callable[[float], bool]:
    """As ``connection.poll``, which makes all it needs anew each time, for who asks often."""
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return lambda seconds: bool(poll.poll(seconds * 1000))


def python(*arguments: str) -> list[str]:
    """A command that runs Python, and takes no code from the folder that it runs in."""
    return [sys.executable, "-P", *arguments]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of such a process: this one's, and ``more``; where it runs changes nothing of what they mean."""
    always = {"PYTHONSAFEPATH": "1", "PYTHONPATH": python_path()}
    paths = {name: os.path.abspath(os.environ[name]) for name in PATHS if os.environ.get(name)}
    return {**os.environ, **paths, **always, **(more or {})}


def _here() -> str:
    """The folder that paths are relative to, unless it is gone."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return NEUTRAL


def python_path() -> str:
    """``PYTHONPATH`` of a process that is started with ``-P``: for this package, and what this process was told."""
    ours = os.fspath(Path(__file__).resolve().parents[2])
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([ours, *(os.path.abspath(folder) for folder in told if folder)])


# ---------------------------------------------------------------------- the process that forks


def main() -> None:
    """Of ``HANDLE FOLDER MODULE...``: until the other end of that control socket is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    with lasting():
        for module in sys.argv[3:]:
            importlib.import_module(module)
        (length,) = struct.unpack("!Q", _exactly(control, 8))
        service: Service = pickle.loads(_exactly(control, length))
        service.prepare()
    _serve(control, service, sys.argv[2])


def _serve(control: socket.socket, service: Service, folder: str) -> NoReturn:
    if sys.platform != "linux":
        raise NotImplementedError(NOT_HERE)
    os.chdir(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # workers that end are not waited for
    control.sendall(b"R")
    while True:
        message, handles, *_ = socket.recv_fds(control, 1, 1)
        if not message:
            os.killpg(0, signal.SIGKILL)
        with suppress(OSError):  # no memory for one more: who asked sees that its connection is closed
            if os.fork() == 0:
                control.close()
                _work(service, handles[0])
        os.close(handles[0])


def _work(service: Service, handle: int) -> None:
    try:
        connection = Connection(handle)
        connection.send(os.getpid())
        service(connection)
    except (EOFError, OSError):
        os._exit(1)  # who asked is gone
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _exactly(control: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    view, done = memoryview(data), 0
    while done < count:
        read = control.recv_into(view[done:])
        if not read:
            os._exit(1)
        done += read
    return data


if __name__ == "__main__":
    main()
