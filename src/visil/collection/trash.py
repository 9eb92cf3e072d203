"""The system's trash: files go there, and are found there again where it is that of freedesktop.org."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from configparser import ConfigParser, Error
from pathlib import Path
from urllib.parse import unquote_to_bytes

from visil.errors import VisilError, os_reason


def to_trash(path: str) -> None:
    """Put a file into the trash; an error where there is none, or it may not be used."""
    from send2trash import send2trash

    try:
        send2trash(path)
    except OSError as error:
        raise VisilError(
            f"cannot be put into the trash ({os_reason(error)}); --how move --to FOLDER needs none"
        ) from error


def in_trash(path: str) -> list[Path]:
    """Files in the trash that lay at ``path``, the last one first; none where the trash cannot be looked into."""
    if sys.platform in ("win32", "darwin"):
        return []
    found = [
        (when, file)
        for trash, top in _trashes(path)
        for file, origin, when in _entries(trash, top)
        if origin == path
    ]
    return [file for _, file in sorted(found, reverse=True)]


def forget_in_trash(file: Path) -> None:
    """Delete what the trash says of a file that was taken out of it."""
    (file.parent.parent / "info" / f"{file.name}.trashinfo").unlink(missing_ok=True)


def _trashes(path: str) -> Iterator[tuple[Path, Path]]:
    """Folders of trash that may hold a file, each with the folder that its paths start from; none on Windows."""
    if sys.platform == "win32":
        return
    data = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    yield data / "Trash", data
    top = Path(os.path.dirname(os.path.abspath(path)))
    while not os.path.ismount(top) and top != top.parent:
        top = top.parent
    yield top / ".Trash" / str(os.getuid()), top
    yield top / f".Trash-{os.getuid()}", top


def _entries(trash: Path, top: Path) -> Iterator[tuple[Path, str, str]]:
    """(file, where it was, when it was put there) of everything in one trash."""
    try:
        infos = list((trash / "info").glob("*.trashinfo"))
    except OSError:
        return
    for info in infos:
        told = ConfigParser(interpolation=None)
        try:
            told.read_string(info.read_text("utf-8"))
            origin = os.fsdecode(unquote_to_bytes(told["Trash Info"]["Path"]))
            when = told["Trash Info"]["DeletionDate"]
        except (OSError, UnicodeError, KeyError, Error):
            continue
        file = trash / "files" / info.name.removesuffix(".trashinfo")
        if os.path.lexists(file):
            yield file, os.path.join(top, origin), f"{when} {info.stat().st_mtime_ns:020}"
