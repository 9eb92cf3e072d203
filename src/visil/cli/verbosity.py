"""How much a command says: ``-q``, ``-v`` and ``--log-file``, which every command has."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from visil.cli.config_file import SECRETS
from visil.cli.options import check_name
from visil.errors import UsageError, VisilError, os_reason, printable

Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Answers and errors only: no bars, no summaries, no warnings.")
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Say what is done with each file; -vv says more.",
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option(
        "--log-file", metavar="FILE", help="Append what is done with each file, with times, to FILE."
    ),
]

logger = logging.getLogger("visil")


class _StandardError(logging.Handler):
    """Lines on whatever standard error is now: while a bar is drawn, they go above it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


_console = _StandardError(logging.WARNING)
_console.setFormatter(logging.Formatter("visil: %(message)s"))


@contextmanager
def logged_to_console() -> Iterator[None]:
    """Warnings of this package and of others are lines on standard error; how much more, a command chooses."""
    _console.setLevel(logging.WARNING)
    logging.getLogger().addHandler(_console)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(_console)


@contextmanager
def chosen(quiet: Quiet = False, verbose: Verbose = 0, log_file: LogFile = None) -> Iterator[None]:
    """A command runs, and says as much as that."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose do not go together: leave one out")
    shown = logging.ERROR if quiet else max(logging.DEBUG, logging.WARNING - 10 * verbose)
    before = _console.level, logger.level
    with ExitStack() as ends:
        ends.callback(_console.setLevel, before[0])
        ends.callback(logger.setLevel, before[1])
        _console.setLevel(shown)
        logger.setLevel(min(shown, logging.WARNING if log_file is None else logging.INFO))
        if log_file is not None:
            ends.enter_context(_logged_to(log_file))
        yield


def is_quiet() -> bool:
    """Whether only answers and errors are wanted."""
    return _console.level > logging.WARNING


class _LogFile(logging.FileHandler):
    """A file that cannot be written to any more is one line, once, and no reason to end."""

    failed = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        if not self.failed:
            self.failed = True
            print(
                f"visil: {printable(self.baseFilename)}: the log cannot be written any more", file=sys.stderr
            )


@contextmanager
def _logged_to(path: Path) -> Iterator[None]:
    check_name(path)
    try:
        handler = _LogFile(path, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"{printable(os.fspath(path))}: cannot be written: {os_reason(error)}") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger().addHandler(handler)
    started = time.monotonic()
    try:
        logger.info("visil %s", " ".join(_without_secrets(sys.argv[1:])))
        yield
    except BaseException as error:
        _log_end(error, time.monotonic() - started)
        raise
    else:
        logger.info("done after %.1f s", time.monotonic() - started)
    finally:
        logging.getLogger().removeHandler(handler)
        with suppress(OSError):
            handler.close()


def _log_end(error: BaseException, seconds: float) -> None:
    match error:
        case VisilError():
            _to_files("%s", error)
        case KeyboardInterrupt():
            _to_files("stopped after %.1f s", seconds)
        case typer.Exit(exit_code=code):
            logger.info("ended with status %d after %.1f s", code, seconds)
        case _:
            _to_files("%s: %s", type(error).__name__, error)


def _to_files(message: str, *values: object) -> None:
    """An error that the console is told of by whoever ends the command."""
    before = _console.level
    _console.setLevel(logging.CRITICAL)
    logger.error(message, *values)
    _console.setLevel(before)


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        secret = name.removeprefix("--") in SECRETS
        yield "…" if hide else f"{name}=…" if equals and secret else printable(word)
        hide = secret and not equals
