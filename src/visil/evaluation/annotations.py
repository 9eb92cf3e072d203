"""Annotation files, checked as they are read, so that a wrong file ends as one line that names the expected content."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from visil.errors import FileError, os_reason
from visil.matching.localize import Segment

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Layout:
    """The file being read, and the benchmark whose annotation it should be, for messages."""

    path: AnyPath
    of: str
    """Such as "FIVR"."""

    def wrong(self, what: str) -> NoReturn:
        """Raise an error about the file's content."""
        raise FileError(self.path, f"is no annotation of {self.of}: {what}")

    def mapping(self, value: object, name: str) -> dict[object, object]:
        """A dictionary."""
        if not isinstance(value, dict):
            self.wrong(f"{name} must be a dictionary, not {_kind(value)}")
        return value

    def entry(self, value: object, key: str) -> object:
        """The entry of a dictionary under a key."""
        content = self.mapping(value, "its content")
        if key not in content:
            self.wrong(f"it has no {key!r}")
        return content[key]

    def list_of(self, value: object, name: str) -> list[object]:
        """A list, tuple or set; sets in the order of their items, so that nothing depends on chance."""
        if isinstance(value, set | frozenset):
            return sorted(value, key=repr)
        if not isinstance(value, list | tuple):
            self.wrong(f"{name} must be a list, not {_kind(value)}")
        return list(value)

    def ids(self, value: object, name: str) -> list[str]:
        """A list of video ids."""
        found = []
        for item in self.list_of(value, name):
            if not isinstance(item, str) or not item:
                self.wrong(f"{name} must hold ids, not {_kind(item)}")
            found.append(item)
        return found


def _kind(value: object) -> str:
    return "nothing" if value is None or value == "" else type(value).__name__


def sha256_of(path: AnyPath) -> str:
    """The hash that pins a file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(path, f"cannot be read: {os_reason(error)}") from error


def read_text(path: AnyPath) -> str:
    """A text file, gzipped or not."""
    try:
        raw = Path(path).read_bytes()
        return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(path, "is not UTF-8 text") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(path, "is damaged: fetch it again") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(path, f"cannot be read: {reason.lower()}") from error


def read_json(path: AnyPath) -> object:
    """A JSON document."""
    try:
        return json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"is no JSON: {one_line(error)}") from error


def read_ids(path: AnyPath) -> list[str]:
    """Ids, one a line; blank lines and anything after the first blank or comma are passed over."""
    lines = (line.replace(",", " ").split() for line in read_text(path).splitlines())
    return [words[0] for words in lines if words]


def read_csv(path: AnyPath, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    """Rows of a CSV by the names of its header, with their line numbers; ``columns`` must be there."""
    rows = csv.DictReader(io.StringIO(read_text(path), newline=""), skipinitialspace=True)
    try:
        missing = [column for column in columns if column not in (rows.fieldnames or ())]
        if missing:
            raise FileError(
                path, f"line 1: has no column {missing[0]!r}; the header must name {','.join(columns)}"
            )
        found = []
        for row in rows:
            if any(not row[column] for column in columns):
                raise FileError(path, f"line {rows.line_num}: a field is empty or missing")
            found.append((rows.line_num, {column: row[column].strip() for column in columns}))
        return found
    except csv.Error as error:
        raise FileError(path, f"line {rows.line_num}: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """The message of an error, on one line and not at length."""
    return " ".join(str(error).split())[:200]


def finite(value: object) -> float | None:
    """A finite number as a float; None for anything else, truth values included."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if np.isfinite(number) else None


@dataclass(frozen=True)
class TrueSegments:
    """True segments by pair, and how many ended before they began and are left out."""

    pairs: dict[tuple[str, str], list[Segment]]
    unusable: int


def read_label_file(path: AnyPath, of: str) -> TrueSegments:
    """TransVCL's layout, which VCDB and VCSL share: ``{"a-b": [[start in a, start in b, end in a, end in b], ...]}``.

    Times are seconds. Segments that end before they begin are left out and counted: VCSL's labels have one.
    """
    layout = Layout(path, of)
    pairs: dict[tuple[str, str], list[Segment]] = {}
    unusable = 0
    for key, boxes in layout.mapping(read_json(path), "its content").items():
        names = str(key).split("-")
        if len(names) != 2 or not all(names):
            layout.wrong(f"{str(key)[:90]!r} must be two ids joined by one '-'")
        own = pairs.setdefault((names[0], names[1]), [])
        for box in layout.list_of(boxes, f"the segments of {key!r}"):
            if not isinstance(box, list) or len(box) != 4:
                layout.wrong(f"a segment of {key!r} must be four times, not {str(box)[:60]}")
            times = [time for time in map(finite, box) if time is not None]
            if len(times) != 4:
                layout.wrong(f"a segment of {key!r} must be four numbers, not {str(box)[:60]}")
            if times[0] > times[2] or times[1] > times[3]:
                unusable += 1
                continue
            own.append(Segment((times[0], times[2]), (times[1], times[3]), 1.0))
    if not pairs:
        layout.wrong("it names no pairs")
    return TrueSegments(pairs, unusable)
