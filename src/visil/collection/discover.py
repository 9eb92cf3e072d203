"""From what a user names to the files to read: folders, lists, patterns of nothing hidden."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from visil.errors import UsageError, VideoError, printable
from visil.video.container import is_video_path
from visil.video.images import list_images


def discover(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Path]:
    """Every video file named, or below a folder named, once, as an absolute path; in the order given, then by name.

    Files named outright are taken whatever they are called; below a folder, hidden files and files not named like a
    video are passed over. A folder named outright that holds images and nothing else is itself a video. Links are
    followed, and no folder is entered twice, so a loop of links ends.
    """
    seen: set[bytes] = set()
    entered: set[tuple[int, int]] = set()
    for path in paths:
        start = Path(os.path.abspath(path))
        found = _below(start, entered) if start.is_dir() else iter([start])
        for file in found:
            name = os.fsencode(file)
            if name not in seen:
                seen.add(name)
                yield file


def read_list(text: bytes) -> list[str]:
    """Paths from a list: one a line, blank lines and # skipped; or separated by NUL, and then taken as they are."""
    if b"\0" in text:
        return [os.fsdecode(name) for name in text.split(b"\0") if name]
    lines = (line.removesuffix(b"\r") for line in text.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    return [os.fsdecode(line) for line in lines if line.strip() and not line.startswith(b"#")]


def read_list_file(path: str | os.PathLike[str]) -> list[str]:
    """Paths from a text file; relative ones are taken from where the command runs."""
    try:
        return read_list(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"{printable(os.fspath(path))}: cannot be read: {error.strerror}") from error


def _below(folder: Path, entered: set[tuple[int, int]]) -> Iterator[Path]:
    videos = list(_walk(folder, entered))
    if not videos and _only_images(folder):
        return iter([folder])
    return iter(videos)


def _walk(folder: Path, entered: set[tuple[int, int]]) -> Iterator[Path]:
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda e: os.fsencode(e.name))
    except OSError:
        return  # a folder that may not be read holds nothing for us
    key = (status.st_dev, status.st_ino)
    if key in entered:
        return
    entered.add(key)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        path = Path(entry.path)
        try:
            if entry.is_dir():
                yield from _walk(path, entered)
            elif entry.is_file() and is_video_path(path):
                yield path
        except OSError:
            continue  # a link to nowhere


def _only_images(folder: Path) -> bool:
    try:
        return bool(list_images(folder))
    except VideoError:
        return False
