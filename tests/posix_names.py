"""What Python has on Linux and macOS only, and where a file uses it without asking first which system it is on."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

POSIX = """
    crypt curses fcntl grp nis posix pty pwd readline resource spwd syslog termios tty
    os: O_ASYNC O_CLOEXEC O_DIRECT O_DIRECTORY O_DSYNC O_EXLOCK O_NOATIME O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH
        O_RSYNC O_SHLOCK O_SYNC O_TMPFILE WNOHANG chflags chown chroot confstr copy_file_range ctermid eventfd
        fchdir fchown fork forkpty fstatvfs fwalk getegid geteuid getgid getgroups getloadavg getpgid getpgrp
        getpriority getrandom getresuid getsid getuid initgroups killpg lchown lockf major memfd_create minor
        mkfifo mknod nice openpty pathconf pidfd_open pipe2 posix_fadvise posix_fallocate posix_spawn pread
        preadv pwrite pwritev readv register_at_fork sched_getaffinity sched_setaffinity sched_yield sendfile
        setegid seteuid setgid setgroups setns setpgid setpriority setsid setuid splice statvfs sync sysconf
        tcgetpgrp tcsetpgrp ttyname uname unshare wait wait3 wait4 waitid writev
    signal: ITIMER_REAL SIGALRM SIGBUS SIGCHLD SIGCONT SIGHUP SIGIO SIGKILL SIGPIPE SIGPROF SIGQUIT SIGRTMIN SIGSTOP
        SIGTSTP SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH SIGXCPU SIGXFSZ alarm getitimer pause pthread_kill pthread_sigmask
        setitimer siginterrupt sigpending sigtimedwait sigwait
    select: EPOLLIN POLLIN POLLOUT epoll kqueue poll
    socket: AF_UNIX SCM_RIGHTS SO_REUSEPORT
"""
"""Modules, and names of modules that exist everywhere."""


def _read(table: str) -> tuple[set[str], dict[str, set[str]]]:
    names: dict[str, set[str]] = {"": set()}
    chosen = ""
    for word in table.split():
        if word.endswith(":"):
            chosen = word[:-1]
            names[chosen] = set()
        else:
            names[chosen].add(word)
    return names.pop(""), names


MODULES, NAMES = _read(POSIX)
ASKS = ("sys.platform", "os.name", "hasattr(", "platform.system(")
"""What the test of an ``if`` looks like that asks which system this is."""


def unguarded(path: Path) -> list[str]:
    """``line: name`` of every use that Windows would answer with an ImportError or AttributeError."""
    found = _in_block(ast.parse(path.read_text("utf-8")).body)
    return [f"{line}: {name}" for line, name in sorted(found)]


def _in_block(statements: Iterable[ast.stmt]) -> Iterator[tuple[int, str]]:
    for statement in statements:
        if isinstance(statement, ast.If) and _asks(statement):
            if isinstance(statement.body[-1], ast.Return | ast.Raise | ast.Continue):
                return  # what follows is for the other systems
            continue
        if isinstance(statement, ast.Try) and _expects_absence(statement):
            continue
        inner = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
        handlers = [handler.body for handler in getattr(statement, "handlers", [])]
        cases = [case.body for case in getattr(statement, "cases", [])]
        blocks = [block for block in (*inner, *handlers, *cases) if isinstance(block, list)]
        for block in blocks:
            yield from _in_block(block)
        below = {id(node) for block in blocks for part in block for node in ast.walk(part)}
        for node in ast.walk(statement):
            if id(node) not in below:
                yield from _named(node)


def _named(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names):
            for alias in names:
                if alias.name.split(".")[0] in MODULES:
                    yield node.lineno, alias.name
        case ast.ImportFrom(module=str(module), names=names):
            for alias in names:
                if module in MODULES or alias.name in NAMES.get(module, set()):
                    yield node.lineno, f"{module}.{alias.name}"
        case ast.Attribute(value=ast.Name(id=module), attr=name) if name in NAMES.get(module, set()):
            yield node.lineno, f"{module}.{name}"
        case ast.Constant(value=str(text)) if text.startswith(("/proc/", "/sys/", "/dev/")):
            yield node.lineno, text


def _asks(statement: ast.If) -> bool:
    return any(words in ast.unparse(statement.test) for words in ASKS)


def _expects_absence(statement: ast.Try) -> bool:
    """Whether what is missing is caught: a module, a name, or a file such as those of /proc."""
    caught = " ".join(ast.unparse(handler.type) for handler in statement.handlers if handler.type)
    return any(name in caught for name in ("ImportError", "AttributeError", "OSError"))
