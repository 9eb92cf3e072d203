"""Errors for people: one line, which file, what to do."""

from __future__ import annotations

import importlib.util
from os import PathLike, fspath


class VisilError(Exception):
    """Base of every error that visil raises on purpose; ``str()`` is one line fit to show a user."""


class FileError(VisilError):
    """Something is wrong with one file or folder: which, and what."""

    def __init__(self, path: str | PathLike[str], reason: str) -> None:
        self.path = fspath(path)
        self.reason = reason
        super().__init__(self.path, reason)

    def __str__(self) -> str:
        return f"{printable(self.path)}: {self.reason}"


class VideoError(FileError):
    """A video could not be read."""


class IndexFolderError(FileError):
    """A collection on disk cannot be opened, read or written."""


class ModelError(VisilError):
    """A model, its weights or its configuration cannot be used."""


class UsageError(VisilError, ValueError):
    """Arguments that cannot be meant: wrong shape, wrong range, unknown name."""


def require_extra(what: str, extra: str, *packages: str) -> None:
    """A UsageError that says how to install ``packages``, where one of them is not; ``what`` needs them."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs {' and '.join(missing)}, not installed here: pip install 'visil[{extra}]'"
        )


def printable(path: str) -> str:
    """A path on one line, whatever is in it: control characters and lone surrogates are escaped."""
    if path.isprintable():
        return path
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in path
    )


def os_reason(error: OSError) -> str:
    """The operating system's objection, as part of a sentence: "permission denied"."""
    return (error.strerror or str(error)).lower()
