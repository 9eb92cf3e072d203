"""Which paths a server may read when a caller names them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from visil.errors import UsageError, printable


class Roots:
    """Folders that callers may name files and folders in; links that lead out of them do not count as inside."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders = tuple(folder.resolve() for folder in folders)

    def resolve(self, path: str) -> Path:
        """The real path behind a name; a :class:`UsageError` where it is outside, or is not there.

        Both are answered alike, so that a caller cannot find out what there is elsewhere.
        """
        refusal = UsageError(
            f"{printable(path[:300])}: there is no such file or folder that this server may read; "
            f"it may read in {', '.join(printable(os.fspath(folder)) for folder in self.folders)}"
        )
        if "\0" in path or len(path) > 4096 or not os.path.isabs(path):
            raise refusal
        try:
            real = Path(path).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise refusal from None
        if not self.holds(real) or not (real.is_file() or real.is_dir()):
            raise refusal
        return real

    def holds(self, real: Path) -> bool:
        """Whether a resolved path lies in one of the folders."""
        return any(real == folder or folder in real.parents for folder in self.folders)

    def inside(self, files: Sequence[Path]) -> list[Path]:
        """Those of some files that are inside when every link is followed."""
        kept = []
        for file in files:
            try:
                real = file.resolve(strict=True)
            except (OSError, RuntimeError):
                continue
            if self.holds(real):
                kept.append(file)
        return kept
