"""Output files that are there whole or not at all, folders, caches, and names of files in natural order."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from visil.errors import UsageError, printable


@contextmanager
def fresh_beside(path: Path) -> Generator[Path, None, None]:
    """A fresh, empty file beside ``path`` to write into; it takes ``path``'s place when the block ends well.

    Where the block fails the fresh file is removed and ``path`` stays as it was. An OSError passes through.
    """
    fresh = path.parent / f".visil-{secrets.token_hex(8)}{path.suffix[:16]}"
    fresh.touch(exist_ok=False)
    try:
        yield fresh
        os.replace(fresh, path)
    finally:
        with suppress(OSError):
            fresh.unlink()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """:func:`fresh_beside` for a file that the user named: what the operating system objects to is a UsageError.

    A place that cannot be written to is found out before the block begins.
    """
    final = Path(path)
    with ExitStack() as opened:
        try:
            with suppress(FileNotFoundError):
                if stat.S_ISDIR(os.stat(final).st_mode):
                    raise IsADirectoryError(None, "it is a folder")
            fresh = opened.enter_context(fresh_beside(final))
        except (OSError, ValueError) as error:
            raise _cannot_write(final, error) from error
        try:
            yield fresh
            opened.close()
        except OSError as error:
            raise _cannot_write(final, error) from error


@contextmanager
def replacing_tensors(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """:func:`replacing` for a file that safetensors or torch writes, which know a full disk by errors of their own."""
    from safetensors import SafetensorError

    with replacing(path) as fresh:
        try:
            yield fresh
        except SafetensorError as error:
            raise OSError(None, str(error)) from error
        except RuntimeError as error:
            said = (str(error).splitlines() or [""])[0]
            raise OSError(None, f"perhaps the disk is full ({said})") from error


@contextmanager
def replacing_together(folder: Path, names: Sequence[str]) -> Generator[Path, None, None]:
    """A fresh folder to write the files ``names`` into; all take their places in ``folder`` when the block ends well.

    They are moved in the order of ``names``. Where the block or a move fails, ``folder`` is as it was: the files that
    were there are put back, and a folder that was made for them is removed. An OSError passes through.
    """
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=".visil-", dir=folder))
    try:
        yield fresh
        _move_together(fresh, folder, names)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if not existed:
            with suppress(OSError):  # it holds the files
                folder.rmdir()


def _move_together(fresh: Path, folder: Path, names: Sequence[str]) -> None:
    old = fresh / "old"
    old.mkdir()
    moved = []
    try:
        for name in names:
            if (folder / name).exists():
                os.replace(folder / name, old / name)
            os.replace(fresh / name, folder / name)
            moved.append(name)
    except BaseException:
        for name in moved:
            (folder / name).unlink(missing_ok=True)
        for before in old.iterdir():
            os.rename(before, folder / before.name)
        raise


def place_open_file(file: BinaryIO, fresh: Path, path: Path) -> None:
    """Give ``file``, written as ``fresh`` and locked, the name ``path``, and close it: it is locked until it has it.

    Not so on Windows, which renames no file that is open.
    """
    if sys.platform == "win32":
        file.close()
    os.replace(fresh, path)
    file.close()


def delete_unless_in_use(path: Path) -> None:
    """Delete a file, if it is there; Windows deletes none that somebody has open or mapped, and then it stays."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        if sys.platform != "win32":
            raise


def cache_folder() -> Path:
    """Where this machine keeps what can be had again: ``VISIL_CACHE``, or the user's own cache folder."""
    own = os.environ.get("VISIL_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visil"


def make_folder(folder: str | os.PathLike[str], what: str = "a folder") -> Path:
    """Make a folder where there is none, and those above it; ``what`` it is to be, for the error."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{printable(os.fspath(folder))}: cannot be made {what}: {reason}") from error
    return Path(folder)


def keep_within(files: Iterable[Path], most: float, but: Path | None = None) -> int:
    """Delete files, the longest unused first, until the rest hold ``most`` bytes; returns their bytes.

    ``but`` stays in any case.
    """
    found = []
    for file in files:
        with suppress(OSError):
            status = file.stat()
            found.append((status.st_mtime_ns, status.st_size, file))
    held = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if held <= most:
            break
        if file != but:
            file.unlink(missing_ok=True)
            held -= size
    return held


_DIGITS = re.compile(r"\d+")


def natural_order(name: str) -> str:
    """The key that a name is sorted by; names that differ in case or leading zeros alone are equal."""
    return _DIGITS.sub(_counted, name.casefold())


def _counted(found: re.Match[str]) -> str:
    """A number that sorts by its digits' count first, and before any text."""
    number = found[0].lstrip("0")
    return f"\0{len(number):03}{number}"


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
