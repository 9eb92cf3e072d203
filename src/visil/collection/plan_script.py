"""A plan as a shell script that anyone can read: it moves files that go into a folder, and deletes nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from visil.errors import printable

if TYPE_CHECKING:
    from visil.collection.plan_file import PlanRow

BODY = """\
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
    return head + BODY + "".join(_lines(going))


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
