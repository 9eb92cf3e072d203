"""From what a user names to the files to read: folders, lists, patterns of nothing hidden."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from visil.collection.selection import EVERYTHING, Selection
from visil.errors import UsageError, VideoError, printable
from visil.video.container import is_image_path, is_video_path, still_or_moving
from visil.video.images import list_images

logger = logging.getLogger("visil")

LEAVES = "a link that leaves the folder"

NO_FILES = ("/proc", "/sys")
"""Folders that the system makes up: they lead back to all others."""

COLLECTION = frozenset(("catalogue.sqlite", "shards.json"))
"""Marks of a collection's folder: it has no videos of its own, only uploads that will go again."""

OnPassedOver = Callable[[Path, str], object]
"""Called with a file or folder that is not taken, and why."""


def discover(
    paths: Iterable[str | os.PathLike[str]],
    selection: Selection = EVERYTHING,
    *,
    within: Sequence[Path] | None = None,
    passed_over: OnPassedOver | None = None,
) -> Iterator[Path]:
    """Every video file named, or below a folder named, once, as an absolute path; in the order given, then by name.

    Files named outright are taken whatever they are called; below a folder, hidden files and files not named like a
    video are passed over. A folder named outright that holds images and nothing else is itself a video. Links below a
    folder are followed as far as the selection allows: anywhere, or to what lies ``within`` some folders, by default
    the one that was named. No folder is entered twice, so a loop of links ends, and none that is a collection or that
    the system makes up (``/proc``).

    ``passed_over`` is told of files that are not wanted; the log also of those that are no videos.
    """
    seen: set[bytes] = set()
    walk = _Walk(selection, passed_over or (lambda *_: None))
    for path in paths:
        start = Path(os.path.abspath(path))
        for file in walk.below(start, within) if start.is_dir() else walk.named(start):
            name = os.fsencode(file)
            if name not in seen:
                seen.add(name)
                yield file


def discover_at(folder: Path, path: Path, selection: Selection) -> Iterator[Path]:
    """The finds of :func:`discover` at one place in a folder: a file, or all below a folder there."""
    walk = _Walk(selection, lambda *_: None)
    return walk.at(Path(os.path.abspath(folder)), Path(os.path.abspath(path)))


def videos_named(path: str) -> list[str]:
    """The videos that a query stands for: itself, or every video in a folder of videos."""
    if not os.path.isdir(path):
        return [path]
    found = [os.fspath(video) for video in discover([path], Selection())]
    return [path] if found in ([], [os.path.abspath(path)]) else found


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


class _Walk:
    """One search, over several folders."""

    def __init__(self, selection: Selection, passed_over: OnPassedOver) -> None:
        self.selection = selection
        self.passed_over = passed_over
        self._entered = {key for folder in NO_FILES if (key := _key(folder)) is not None}
        self._videos = 0
        """Seen, taken or not."""

    def named(self, file: Path) -> Iterator[Path]:
        """A file that was named outright; whether it is there is found out by who reads it."""
        try:
            size = file.stat().st_size
        except (OSError, ValueError):
            yield file
            return
        if not self._refused(file, self.selection.refuses_file(file.name, size)):
            yield file

    def below(self, folder: Path, within: Sequence[Path] | None) -> Iterator[Path]:
        """All videos in a folder; the folder itself where it holds images and nothing else."""
        roots = [os.path.realpath(root) for root in ([folder] if within is None else within)]
        before = self._videos
        yield from self._walk(folder, "", roots)
        if self._videos == before and _only_images(folder):
            yield folder

    def at(self, folder: Path, path: Path) -> Iterator[Path]:
        """Videos at one place in a folder."""
        return self._walk(folder, "", [os.path.realpath(folder)], path.relative_to(folder).parts)

    def _walk(self, folder: Path, place: str, roots: list[str], only: tuple[str, ...] = ()) -> Iterator[Path]:
        """Videos in a folder, and in those in it; ``only`` on the way along these names, and below the last."""
        try:
            status = folder.stat()
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:
            return  # a folder that may not be read holds nothing for us
        key = (status.st_dev, status.st_ino)
        if key in self._entered:
            return
        self._entered.add(key)
        if place and not COLLECTION.isdisjoint(entry.name for entry in entries):
            logger.info("passed over: %s: a collection", printable(os.fspath(folder)))
            return
        entries = [entry for entry in entries if not only or entry.name == only[0]]
        for entry in sorted(entries, key=lambda one: os.fsencode(one.name)):
            path, below = Path(entry.path), f"{place}{entry.name}"
            try:
                if _no_video(entry) or self._refused(path, self._leaves(entry, roots)):
                    continue
                if entry.is_dir():
                    if not self._refused(path, self.selection.refuses_folder(below)):
                        yield from self._walk(path, f"{below}/", roots, only[1:])
                    continue
                self._videos += 1
                if not self._refused(path, self.selection.refuses_file(below, entry.stat().st_size)):
                    yield path
            except OSError:
                logger.info("passed over: %s: a link to nowhere", printable(entry.path))

    def _leaves(self, entry: os.DirEntry[str], roots: list[str]) -> str | None:
        if self.selection.follow_links or not _is_link(entry):
            return None
        real = Path(os.path.realpath(entry.path, strict=True))
        return None if any(real.is_relative_to(root) for root in roots) else LEAVES

    def _refused(self, path: Path, reason: str | None) -> bool:
        if reason is not None:
            self.passed_over(path, reason)
        return reason is not None


def _key(folder: str) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _no_video(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith("."):
        reason = "hidden"
    elif entry.is_dir() or (entry.is_file() and (is_video_path(entry.name) or _moves(entry))):
        return False
    else:
        reason = "not named like a video"
    logger.info("passed over: %s: %s", printable(entry.path), reason)
    return True


def _moves(entry: os.DirEntry[str]) -> bool:
    """Whether an image is animated."""
    return is_image_path(entry.name) and still_or_moving(entry.path) != "image"


def _is_link(entry: os.DirEntry[str]) -> bool:
    """Links, and junctions on Windows, which Python 3.11 does not tell."""
    return entry.is_symlink() or (sys.version_info >= (3, 12) and entry.is_junction())


def _only_images(folder: Path) -> bool:
    try:
        return bool(list_images(folder))
    except VideoError:
        return False
