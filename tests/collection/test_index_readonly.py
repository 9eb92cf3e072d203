"""A collection that may be read and not written: another's, on a read-only disk, or without the rights."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import visil
from visil.collection.catalogue import Catalogue
from visil.collection.database import FileDatabase
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError

from .conftest import Command

NOBODY = 65534
READERS = ("search", "duplicates", "info", "verify")
WRITERS = ("add", "remove", "judge", "verify --repair")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own cannot be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def foreign(built: Path, place: Path, run: Command) -> Iterator[Path]:
    """A collection that this process may not write to; root becomes someone else for the while."""
    folder = Path(shutil.copytree(built, place / "i"))
    for command in READERS:  # that someone may not be able to import what they need
        run(*arguments(command, folder))
    inside = [folder, *folder.rglob("*")]
    for path in inside:
        os.chmod(path, 0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        if root and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
            pytest.skip(f"another user cannot reach {folder}")
        assert not os.access(folder, os.W_OK, effective_ids=True)
        yield folder
    finally:
        if root:
            os.seteuid(0)
        for path in inside:
            os.chmod(path, 0o755)


@pytest.fixture
def frozen(built: Path, tmp_path: Path) -> Iterator[Path]:
    """A collection on a disk that is mounted read-only."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "visil-test", disk], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not permitted here: {mounted.stderr.decode().strip()}")
    try:
        shutil.copytree(built, disk / "i")
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        yield disk / "i"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture(params=["foreign", "frozen"])
def readable(request: pytest.FixtureRequest) -> Path:
    folder = request.getfixturevalue(request.param)
    assert isinstance(folder, Path)
    return folder


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in (folder, *folder.rglob("*"))
    }


def an_id(folder: Path) -> str:
    return min(path.stem for path in (folder / "features").glob("*/*.safetensors"))


def arguments(command: str, folder: Path, other: str = "") -> list[str]:
    name, *options = command.split()
    more = {"search": [an_id(folder)], "add": [other], "remove": [an_id(folder)]}
    more["judge"] = [an_id(folder), an_id(folder), "same"]
    return [name, str(folder), *more.get(name, []), *options]


@pytest.mark.parametrize("command", READERS)
def test_readers_work(readable: Path, run: Command, command: str) -> None:
    before = state(readable)
    done = run(*arguments(command, readable), "--json")
    assert (done.status, done.err) == (0, "")
    match command:
        case "search":
            assert done.json["hits"][0]["id"] == an_id(readable)
            assert len(done.json["hits"]) == 8
        case "duplicates":
            assert len(done.json["groups"]) == 2
        case "info":
            assert done.json["videos"] == 8
        case "verify":
            assert done.json == {"problems": []}
    assert state(readable) == before, "nothing was written, not even for a moment"


@pytest.mark.parametrize("command", WRITERS)
def test_writers_are_refused_in_one_line(readable: Path, videos: Path, run: Command, command: str) -> None:
    before = state(readable)
    line = run(*arguments(command, readable, str(videos / "alone" / "retina.mp4"))).line
    assert line == f"visil: {readable}: the folder cannot be written to"
    assert state(readable) == before


def test_a_cache_that_is_out_of_date_is_made_for_the_while(
    readable: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.collection.candidates.CandidateIndex.load", lambda *_, **__: False)
    with visil.Index(readable, model=model) as index:
        assert len(index.search(an_id(readable))) == 8
        assert not index.writable


def test_a_collection_that_was_never_used_can_be_read(
    place: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    visil.Index(place / "i", model=model).close()
    monkeypatch.setattr("visil.collection.database.can_write", lambda _: False)
    with visil.Index(place / "i", model=model) as index:
        assert index.model is model
        assert index.catalogue.fact("model") is None


# ---------------------------------------------------------------------- the database


def refuse_wal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where SQLite may not make the files that it needs beside a database: it refuses to open it."""
    real = sqlite3.connect

    def connect(name: str, **options: Any) -> sqlite3.Connection:
        if "immutable" not in str(name):
            raise sqlite3.OperationalError("unable to open database file")
        return real(name, **options)

    monkeypatch.setattr("visil.collection.database.sqlite3.connect", connect)


@pytest.fixture(params=[False, True], ids=["rights known", "rights seem to be there"])
def no_wal(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr("visil.collection.database.can_write", lambda _: request.param)
    refuse_wal(monkeypatch)


@pytest.mark.usefixtures("no_wal")
def test_a_catalogue_where_nothing_can_be_made_beside_it(folder: Path) -> None:
    catalogue = Catalogue(FileDatabase(folder / "catalogue.sqlite"))
    assert catalogue.count()[0] == 8
    with pytest.raises(IndexFolderError, match="cannot be written to"):
        catalogue.set_fact("a", "b")
    catalogue.close()


@pytest.mark.usefixtures("no_wal")
def test_a_catalogue_that_its_writer_left_open_is_not_read_without_its_end(folder: Path) -> None:
    """Its latest entries stand in the other file."""
    (folder / "catalogue.sqlite-wal").write_bytes(b"x" * 100)
    with pytest.raises(IndexFolderError, match="open it once where it can be written to"):
        Catalogue(FileDatabase(folder / "catalogue.sqlite"))


def test_a_reader_without_rights_sees_what_the_owner_does_meanwhile(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        refuse_wal(patch)
        reader = Catalogue(FileDatabase(folder / "catalogue.sqlite"))
        assert reader.count()[0] == 8
    owner = Catalogue(FileDatabase(folder / "catalogue.sqlite"))
    owner.set_fact("said", "since")
    assert reader.fact("said") == "since"
    owner.close()
    reader.close()


def test_an_older_catalogue_is_not_migrated_where_it_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.collection.schema.FORMAT", 2)
    monkeypatch.setattr("visil.collection.database.can_write", lambda _: False)
    with pytest.raises(IndexFolderError, match="older visil; open it once where it can be written to"):
        Catalogue(FileDatabase(folder / "catalogue.sqlite"))
