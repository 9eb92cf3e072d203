"""Output files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from visil.errors import UsageError, printable


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """A fresh, empty file beside ``path`` to write into; it takes ``path``'s place when the block ends well.

    Where the block fails the fresh file is removed and ``path`` stays as it was. A place that cannot be
    written to is found out before the block begins. What the operating system objects to is a UsageError.
    """
    final = Path(path)
    fresh = final.parent / f".visil-{secrets.token_hex(8)}{final.suffix[:16]}"
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(final).st_mode):
                raise IsADirectoryError(None, "it is a folder")
        fresh.touch(exist_ok=False)
    except (OSError, ValueError) as error:
        raise _cannot_write(final, error) from error
    try:
        yield fresh
        os.replace(fresh, final)
    except OSError as error:
        raise _cannot_write(final, error) from error
    finally:
        with suppress(OSError):
            fresh.unlink()


def _cannot_write(path: Path, error: OSError | ValueError) -> UsageError:
    match error:
        case FileNotFoundError():
            reason = "its folder does not exist"
        case NotADirectoryError():
            reason = "its folder is a file"
        case PermissionError():
            reason = "permission denied"
        case OSError(strerror=str(said)) if said:
            reason = said[0].lower() + said[1:]
        case _:
            reason = "its name holds characters that no file name can"
    return UsageError(f"{printable(os.fspath(path))}: cannot be written: {reason}")
