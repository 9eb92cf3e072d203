"""Everything that a collection's catalogue says, read at once: one catalogue, or one of each shard."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from visil.cluster import manifest as manifests
from visil.collection.catalogue import Catalogue
from visil.collection.identity import Stamp
from visil.collection.remote_objects import is_url
from visil.errors import UsageError, printable
from visil.web.rows import Row


class Look(Catalogue):
    """One catalogue, only ever read."""

    def seen(self) -> tuple[object, ...]:
        """Changes whenever another process or connection has changed it."""
        (version,) = self.rows("PRAGMA data_version")[0]
        return id(self._db), version

    def everything(self) -> list[Row]:
        """Videos, and files that could not be added."""
        files: dict[int, list[tuple[str, Stamp]]] = defaultdict(list)
        for path, video, size, modified in self.rows(
            "SELECT path, video, bytes, modified_ns FROM files ORDER BY path"
        ):
            files[video].append((os.fsdecode(path), Stamp(size, modified)))
        rows = []
        for number, video, duration, width, height, size, frames, added in self.rows(
            "SELECT number, id, duration, width, height, bytes, frames, added FROM videos"
        ):
            own = tuple(files.get(number, ()))
            path = own[0][0] if own else ""
            facts = (duration, width, height, size, frames, added)
            rows.append(Row(path, "ready", video, None, *facts, own))
        for path, reason, size, at in self.rows("SELECT path, reason, bytes, at FROM failures"):
            known = None if size < 0 else size
            rows.append(Row(os.fsdecode(path), "failed", reason=reason, bytes=known, added=at))
        return rows


class Looks:
    """All catalogues of a collection; it notices when shards come or go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sharded = manifests.is_sharded(folder)
        self._kept: list[Look] = []
        self._of: object = None
        self._open()

    def _open(self) -> None:
        stamp = self._manifest()
        if self._kept and stamp == self._of:
            return
        self.close()
        places = [os.fspath(self.folder)]
        if self._sharded:
            places = manifests.read(self.folder).locations(self.folder)
        elsewhere = [place for place in places if is_url(place)]
        if elsewhere:
            raise UsageError(
                f"{printable(elsewhere[0])}: `visil serve` needs shards that are folders of this machine"
            )
        self._kept = [Look(Path(place) / "catalogue.sqlite") for place in places]
        self._of = stamp

    def _manifest(self) -> object:
        if not self._sharded:
            return None
        status = (self.folder / manifests.FILE).stat()
        return status.st_ino, status.st_mtime_ns

    def version(self) -> tuple[object, ...]:
        """Changes whenever anything has changed."""
        self._open()
        return (self._of, *(look.seen() for look in self._kept))

    def rows(self) -> list[Row]:
        """Of all catalogues; a video that is on its way from one shard to another counts once."""
        self._open()
        seen: set[str] = set()
        rows = []
        for look in self._kept:
            for row in look.everything():
                if row.id is None or row.id not in seen:
                    rows.append(row)
                    seen |= {row.id} if row.id is not None else set()
        return rows

    def close(self) -> None:
        """Let go of the files."""
        for look in self._kept:
            look.close()
        self._kept = []
