"""Checks of what an annotation file holds, so that a wrong file is one line that says what was expected."""

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

from visil.errors import FileError

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True)
class Layout:
    """The file being read, and what it should be: for messages."""

    path: AnyPath
    of: str
    """Such as "FIVR"."""

    def wrong(self, what: str) -> NoReturn:
        """It is not what it should be."""
        raise FileError(self.path, f"is no annotation of {self.of}: {what}")

    def mapping(self, value: object, name: str) -> dict[object, object]:
        """A dictionary."""
        if not isinstance(value, dict):
            self.wrong(f"{name} must be a dictionary, not {_kind(value)}")
        return value

    def entry(self, value: object, key: str) -> object:
        """What a dictionary has under a key."""
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
        raise FileError(path, f"cannot be read: {(error.strerror or str(error)).lower()}") from error


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
    """What an error says, on one line and not at length."""
    return " ".join(str(error).split())[:200]
