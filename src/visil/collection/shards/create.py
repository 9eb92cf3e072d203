"""A new sharded collection: from nothing, from an ordinary one, or from several; and one shard more."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from visil.collection.entries import failures, put_failures
from visil.collection.part import Part
from visil.collection.remote.objects import is_url
from visil.collection.shards import manifest as manifests
from visil.collection.shards.manifest import MOST, Manifest, ShardEntry, home
from visil.collection.shards.members import check_alike
from visil.collection.state import EMBEDDED_IN, PartFacts
from visil.errors import IndexFolderError, UsageError, os_reason
from visil.model.code_kinds import Codes, checked

OnCopied = Callable[[int, int], None]
"""Called with videos copied, and videos in all."""

FACTS = ("model", "fingerprint", "model_source", "codes")
"""Facts that all shards agree in."""


def create(
    folder: str | os.PathLike[str],
    shards: int | Sequence[str],
    *,
    codes: Codes | None = None,
    source: str | os.PathLike[str] | None = None,
    progress: OnCopied | None = None,
) -> int:
    """A sharded collection in ``folder``: so many shards inside it, or one at each location. Returns its videos.

    ``source`` is an ordinary collection whose videos are copied with all that is known of them, not embedded again
    (on one file system the copies share its blocks); it stays as it is. Killed on the way, the same call goes on.
    """
    folder = Path(folder)
    count = shards if isinstance(shards, int) else len(shards)
    if not 1 <= count <= MOST:
        raise UsageError(f"a collection has 1 to {MOST} shards, not {count}")
    names = [_name(i) for i in range(count)]
    wanted = (
        [os.path.join(folder, f"{name}.visil") for name in names] if isinstance(shards, int) else list(shards)
    )
    _make_folder(folder, wanted)
    given = None if source is None else Part.shard(source)
    try:
        facts = {} if given is None else _facts(given)
        if codes is not None:
            checked(codes)
            if facts.setdefault("codes", codes) != codes:
                raise IndexFolderError(
                    os.fspath(source or ""),
                    f"keeps its features as {facts['codes']}, not {codes}; leave --codes out",
                )
        entries = [ShardEntry(n, _as_kept(folder, at)) for n, at in zip(names, wanted, strict=True)]
        manifest = Manifest(entries, facts)
        with manifests.held(folder, alone=True):
            opened = [_opened(location) for location in manifest.locations(folder)]
            try:
                if given is None:
                    manifest = _agreed(folder, manifest, opened)
                else:
                    check_alike(folder, manifest, [shard.facts() for shard in opened])
                for shard in opened:
                    shard.clear_leftovers()
                    shard.settle(manifest.facts)
                if given is not None:
                    _copy_all(given, opened, names, progress)
                _check_doubles(opened)
                for shard in opened:
                    shard.keep()
                    shard.prepare()
                manifests.write(folder, manifest)
                return sum(len(shard) for shard in opened)
            finally:
                for shard in opened:
                    shard.close()
    finally:
        if given is not None:
            given.close()


def add_shard(folder: Path, location: str) -> str:
    """One shard more, empty or an ordinary collection that is there already; returns its name.

    Nothing moves before :func:`visil.collection.shards.rebalance.rebalance`.
    """
    manifests.read(folder)
    with manifests.held(folder, alone=True):
        manifest = manifests.read(folder)
        taken = set(manifest.names)
        name = next(name for name in map(_name, range(MOST + 1)) if name not in taken)
        if len(taken) >= MOST:
            raise UsageError(f"a collection has at most {MOST} shards")
        entry = ShardEntry(name, _as_kept(folder, location))
        grown = replace(manifest, shards=[*manifest.shards, entry])
        *old, new = grown.locations(folder)
        if os.path.realpath(new) in map(os.path.realpath, old):
            raise IndexFolderError(new, "is a shard of this collection already")
        others = [Part.shard(one) for one in old]
        try:
            shard = _opened(new)
            try:
                grown = _agreed(folder, grown, [*others, shard])
                _check_doubles([*others, shard])
                shard.settle(grown.facts)
                manifests.write(folder, grown)
            finally:
                shard.close()
        finally:
            for one in others:
                one.close()
    return name


def _name(number: int) -> str:
    return f"shard-{number:03}"


def _as_kept(folder: Path, location: str) -> str:
    """Relative where it lies in the collection's folder, so that the whole can be moved; else absolute, or a URL."""
    if is_url(location):
        return location
    base, whole = os.path.abspath(folder), os.path.abspath(location)
    return os.path.relpath(whole, base) if whole.startswith(base + os.sep) else whole


def _make_folder(folder: Path, wanted: Sequence[str]) -> None:
    if manifests.is_sharded(folder):
        raise IndexFolderError(folder, "is a sharded collection already; `visil shards add` makes it larger")
    if (folder / "catalogue.sqlite").exists():
        raise IndexFolderError(
            folder, "is an ordinary collection; name a new folder, and this one with --from"
        )
    if folder.exists() and not folder.is_dir():
        raise IndexFolderError(folder, "is a file; a collection is a folder")
    own = {*map(os.path.basename, wanted), manifests.LOCK}
    if folder.is_dir() and {path.name for path in folder.iterdir()} - own:
        raise IndexFolderError(folder, "is a folder with other things in it; name a new one")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IndexFolderError(folder, f"cannot be made ({os_reason(error)})") from error


def _opened(location: str) -> Part:
    """The shard at a location, made where nothing is."""
    if not manifests.is_sharded(location):
        Part.open(location).close()
    return Part.shard(location)


def _facts(shard: Part) -> dict[str, str]:
    facts = {key: shard.catalogue.fact(key) for key in (*FACTS, *EMBEDDED_IN.values())}
    known = shard.facts()
    if known.codes is not None:
        facts["codes"] = known.codes
    return {key: value for key, value in facts.items() if value is not None}


def _agreed(folder: Path, manifest: Manifest, shards: Sequence[Part]) -> Manifest:
    """With what the first shard that has settled says, where the collection has not; all others must agree."""
    facts = dict(manifest.facts)
    states: list[PartFacts] = []
    for shard in shards:
        known = _facts(shard)
        if "fingerprint" not in facts and "fingerprint" in known:
            facts |= {key: value for key, value in known.items() if key != "codes"}
        if "codes" in known:
            facts.setdefault("codes", known["codes"])
        facts |= {key: value for key, value in known.items() if key in EMBEDDED_IN.values()}
        states.append(shard.facts())
    manifest = replace(manifest, facts=facts)
    check_alike(folder, manifest, states)
    return manifest


def _check_doubles(shards: Sequence[Part]) -> None:
    seen: dict[str, str] = {}
    for shard in shards:
        for video in shard.order().ids:
            if video in seen:
                raise IndexFolderError(
                    shard.location,
                    f"holds video {video}, and so does {seen[video]}; remove it from one of the two",
                )
            seen[video] = shard.location


def _copy_all(source: Part, shards: Sequence[Part], names: Sequence[str], progress: OnCopied | None) -> None:
    """Every video into its shard, in the order of the source: a time that ties or falls becomes the next larger one."""
    videos = source.catalogue.database.rows("SELECT id, added FROM videos ORDER BY number")
    last = -np.inf
    for done, (video, added) in enumerate(videos, 1):
        last = float(added) if float(added) > last else float(np.nextafter(last, np.inf))
        shard = shards[home(video, names)]
        entry = source.transfers.entry(video)
        if entry is not None and not shard.catalogue.has(video):
            if source.store.stamp(video) is not None:
                shard.transfers.take(video, source.transfers.file(video))
            shard.transfers.put(replace(entry, video=(*entry.video[:-1], last)))
        if progress is not None:
            progress(done, len(videos))
    for row in source.transfers.verdicts():
        shards[home(row[0], names)].transfers.add_verdicts([row])
    for row in failures(source.catalogue):
        put_failures(shards[home(row[0], names)].catalogue, [row])
