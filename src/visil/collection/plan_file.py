"""A plan as a file that people read, change and hand back, one row a file, as CSV or JSON; or as a shell script."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.collection.plan import PlannedFile
from visil.errors import UsageError, printable
from visil.files import replacing

if TYPE_CHECKING:
    from visil.collection.duplicates import Group

COLUMNS = ("group", "action", "path", "reason", "footage_in", "bytes", "id")
ACTIONS = ("keep", "drop", "missing")

SCRIPT = """\
#
# A file stays where it is if the file that holds its footage is not there, or if something is in the way.
# It does not check that both still hold what they held; `visil apply COLLECTION plan.csv` does, and can undo.
set -eu
folder=${1:-visil-dropped}

move() { # the folder and the name of the file that goes, the file that holds its footage
  if [ ! -e "$3" ]; then echo "stays, as $3 is not there: $1/$2"
  elif [ ! -e "$1/$2" ]; then echo "gone already: $1/$2"
  elif [ -e "$folder$1/$2" ]; then echo "stays, as $folder$1/$2 is there already: $1/$2"
  else
    mkdir -p "$folder$1"
    mv "$1/$2" "$folder$1/$2"
    echo "moved: $1/$2"
  fi
}
"""
"""What a plan is as a shell script: it moves files that go into a folder, and deletes nothing."""


@dataclass(frozen=True)
class PlanRow:
    """A file of a plan, and the number of its group."""

    group: int
    file: PlannedFile

    def to_dict(self) -> dict[str, Any]:
        """As JSON says it."""
        return {"group": self.group, **self.file.to_dict()}


def rows_of(groups: Iterable[Group]) -> Iterator[PlanRow]:
    """What to do with every file of some groups."""
    for number, group in enumerate(groups, 1):
        for video in group.videos:
            yield from (PlanRow(number, file) for file in group.plan(video))


def write_plan(groups: Iterable[Group], path: str | os.PathLike[str]) -> None:
    """The plan of some groups, as :func:`write_rows` writes it."""
    write_rows(list(rows_of(groups)), path)


def write_rows(rows: Sequence[PlanRow], path: str | os.PathLike[str]) -> None:
    """One row a file; JSON or a shell script where the name ends so, else CSV, names in the bytes they have on disk."""
    ending = Path(path).suffix.lower()
    with replacing(path) as fresh:
        if ending == ".json":
            fresh.write_text(json.dumps({"files": [row.to_dict() for row in rows]}, indent=1), "utf-8")
        elif ending == ".sh":
            text = script(rows, os.path.basename(path))
            fresh.write_bytes(text.encode("utf-8", "surrogateescape"))
        else:
            with fresh.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
                table = csv.DictWriter(file, COLUMNS)
                table.writeheader()
                table.writerows(row.to_dict() for row in rows)


def read_plan(path: str | os.PathLike[str]) -> list[PlanRow]:
    """The rows of a plan, or of what ``visil duplicates --json`` printed; a UsageError where it is neither."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{printable(os.fspath(path))}: cannot be read: {error.strerror}") from error
    try:
        text = data.decode(*_coding(data))
        if text.lstrip()[:1] in ("{", "["):
            raw = list(_from_json(json.loads(text)))
        else:
            head = text.split("\n", 1)[0]
            delimiter = max(",;\t", key=head.count)  # a spreadsheet writes those of its country
            raw = list(csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter))
        return [_row(one) for one in raw]
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise UsageError(
            f"{printable(os.fspath(path))}: is not a plan: {_what_is_wrong(error)}; "
            "`visil duplicates INDEX --plan FILE` writes one"
        ) from error


def _coding(data: bytes) -> tuple[str, str]:
    """How a text is coded; names that are no text keep their bytes."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16", "strict"
    return "utf-8-sig", "surrogateescape"


def _from_json(document: Any) -> Iterator[dict[str, Any]]:
    if "files" in document:
        yield from document["files"]
        return
    for number, group in enumerate(document["groups"], 1):
        yield from ({"group": number, **file} for file in group["files"])


def _row(raw: dict[str, Any]) -> PlanRow:
    action = str(raw["action"] or "").strip().lower()
    if action not in ACTIONS:
        raise ValueError(f"an action is keep, drop or missing, not {action!r}")
    path, inside = str(raw["path"] or ""), raw.get("footage_in") or None
    if not path:
        raise ValueError("a row names no file")
    size = int(raw.get("bytes") or 0)
    file = PlannedFile(
        *(str(raw["id"] or ""), path, action, str(raw.get("reason") or "")),  # type: ignore[arg-type]
        *(None if inside is None else str(inside), size),
    )
    return PlanRow(int(raw.get("group") or 0), file)


def _what_is_wrong(error: Exception) -> str:
    return f"it has no column {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]


def script(rows: Iterable[PlanRow], name: str = "plan.sh") -> str:
    """The script of a plan; names keep the bytes that they have on disk (surrogateescape)."""
    going = [row for row in rows if row.file.action == "drop" and row.file.footage_in]
    files = "1 file" if len(going) == 1 else f"{len(going):,} files"
    size = sum(row.file.bytes for row in going) / 1e6
    head = (
        "#!/bin/sh\n"
        f"# Moves {files}, {size:.1f} MB, into a folder, each under its whole path. Nothing is deleted.\n#\n"
        f"#   sh {name}              into the folder visil-dropped, here\n"
        f"#   sh {name} FOLDER       into another folder\n"
    )
    return head + SCRIPT + "".join(_lines(going))


def _lines(rows: Iterable[PlanRow]) -> Iterator[str]:
    group = 0
    for row in rows:
        if row.group != group:
            group = row.group
            yield f"\n# Group {group}\n"
        folder, name = os.path.split(os.path.abspath(row.file.path))
        holder = os.path.abspath(row.file.footage_in or "")
        yield f"# {printable(row.file.reason)}\n"
        yield f"move {shlex.quote(folder)} {shlex.quote(name)} {shlex.quote(holder)}\n"
