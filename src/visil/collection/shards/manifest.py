"""``shards.json``: the shards of a collection, which shard a video belongs to, and who may change that.

A video belongs to a shard by its content, and evenly (rendezvous hashing): each shard draws a number for each video
from their two names, and the highest has it. A shard that is added wins what it draws highest for, one part in n from
each of the others, and nothing else moves.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from visil.collection.lock import shared_or_alone
from visil.collection.remote.objects import is_url
from visil.errors import IndexFolderError, UsageError, os_reason
from visil.files import replacing

FILE = "shards.json"
LOCK = "shards.lock"
FORMAT = 1

MOST = 4096
"""Shards of one collection."""


@dataclass(frozen=True)
class ShardEntry:
    """One shard: a name that never changes, which decides what belongs to it, and where it is."""

    name: str
    location: str
    """A folder, relative to the collection's or absolute, or a URL."""


@dataclass(frozen=True)
class Manifest:
    """The content of ``shards.json``."""

    shards: list[ShardEntry]
    facts: dict[str, str] = field(default_factory=dict)
    """The whole collection's model, its fingerprint and the kind of codes, once they are settled."""
    moving: bool = False
    """Whether a rebalance is under way, or was cut short: a video may be in two shards, and counts once."""

    @property
    def names(self) -> list[str]:
        """Of the shards, by place."""
        return [shard.name for shard in self.shards]

    def locations(self, folder: Path) -> list[str]:
        """Where the shards are, by place: absolute, or URLs."""
        base = os.path.abspath(folder)
        return [
            shard.location if is_url(shard.location) else os.path.normpath(os.path.join(base, shard.location))
            for shard in self.shards
        ]

    def with_facts(self, **facts: str) -> Manifest:
        """The same with more settled."""
        return replace(self, facts={**self.facts, **facts})


def home(key: str | bytes, shards: Sequence[str]) -> int:
    """The place of the shard that a video (its id) belongs to; ``shards`` are their names, which never change."""
    data = key if isinstance(key, bytes) else key.encode()
    draws = [hashlib.blake2b(data, digest_size=8, key=name.encode()).digest() for name in shards]
    return max(range(len(shards)), key=draws.__getitem__)


def is_sharded(location: str | os.PathLike[str]) -> bool:
    """Whether a location is a folder with a ``shards.json``."""
    name = os.fspath(location)
    return not is_url(location) and os.path.lexists(os.path.join(name, FILE))


def read(folder: Path) -> Manifest:
    """Read the folder's ``shards.json``; one that is missing or makes no sense is refused."""
    path = folder / FILE
    try:
        known: Any = json.loads(path.read_text("utf-8"))
        if known["format"] > FORMAT:
            raise IndexFolderError(
                path, f"was made by a newer visil (format {known['format']}); upgrade to open it"
            )
        shards = [ShardEntry(_text(shard["name"]), _text(shard["location"])) for shard in known["shards"]]
        facts = {_text(key): _text(value) for key, value in known["facts"].items()}
        manifest = Manifest(shards, facts, bool(known["moving"]))
    except FileNotFoundError as error:
        raise IndexFolderError(
            folder, "no sharded collection here; `visil shards create` makes one"
        ) from error
    except OSError as error:
        raise IndexFolderError(path, f"cannot be read ({os_reason(error)})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IndexFolderError(
            path, "is damaged; put back a copy of it, or `visil shards create` with its shards"
        ) from error
    if not 1 <= len(shards) <= MOST:
        raise IndexFolderError(path, f"names {len(shards)} shards; a collection has 1 to {MOST}")
    if len(set(manifest.names)) < len(shards):
        raise IndexFolderError(path, "names a shard twice; take one of the two out")
    if len(set(map(os.path.realpath, manifest.locations(folder)))) < len(shards):
        raise IndexFolderError(path, "names one location twice; take one of the two out")
    return manifest


def write(folder: Path, manifest: Manifest) -> None:
    """Put it into the folder, whole or not at all."""
    known = {
        "format": FORMAT,
        "shards": [{"name": shard.name, "location": shard.location} for shard in manifest.shards],
        "facts": manifest.facts,
        "moving": manifest.moving,
    }
    try:
        with replacing(folder / FILE) as fresh, fresh.open("w", encoding="utf-8") as file:
            file.write(json.dumps(known, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except UsageError as error:
        raise IndexFolderError(folder, "the folder cannot be written to") from error


@contextmanager
def held(folder: Path, *, alone: bool) -> Iterator[None]:
    """The collection's lock: shared by those who change videos, ``alone`` by those who change or move shards.

    Nobody waits for it: who comes second is told what the other does.
    """
    with ExitStack() as lock:
        try:
            lock.enter_context(shared_or_alone(folder / LOCK, alone=alone))
        except BlockingIOError as error:
            other = "is being changed by another process" if alone else "is being rebalanced"
            raise IndexFolderError(folder, f"{other}; try again when that is done") from error
        except OSError as error:
            raise IndexFolderError(folder, "the folder cannot be written to") from error
        yield


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or not value.isprintable():
        raise ValueError(value)
    return value
