"""Damaged files, full disks, folders that cannot be written: named in one line, and the rest stays sound."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch

import visil
from visil.collection import schema
from visil.collection.catalogue import Catalogue
from visil.collection.database import FileDatabase
from visil.collection.lock import exclusive
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, ModelError

from .conftest import Command
from .inside import part

# ---------------------------------------------------------------------- feature files


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x40
    path.write_bytes(data)


HARM: dict[str, Callable[[Path], object]] = {
    "a byte of a vector": lambda path: flip(path, 5000),
    "the last byte": lambda path: flip(path, -1),
    "a byte of the header": lambda path: flip(path, 12),
    "the length of the header": lambda path: flip(path, 6),
    "no checksum": lambda path: path.write_bytes(path.read_bytes().replace(b'"checksum"', b'"checksun"')),
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 9),
    "cut in the header": lambda path: os.truncate(path, 100),
    "emptied": lambda path: os.truncate(path, 0),
    "deleted": lambda path: path.unlink(),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(3000)),
}


def harmed(folder: Path, victim: Path, model: ViSiL, harm: str) -> Path:
    """The feature file of a video, after what was done to it."""
    with visil.Index(folder, model=model) as index:
        file = index.store.path(index.video(str(victim)).id)
    HARM[harm](file)
    return file


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_feature_file_is_named(
    folder: Path, videos: Path, model: ViSiL, run: Command, harm: str
) -> None:
    victim = videos / "alone" / "retina.mp4"
    file = harmed(folder, victim, model, harm)
    done = run("verify", folder)
    assert done.status == 1
    first, last = done.out.splitlines()
    assert first.startswith(f"{victim}: its features ({file.name}) are ")
    assert ("missing" if harm == "deleted" else "damaged") in first
    assert last == "1 problem"
    assert [problem["what"] for problem in run("verify", folder, "--json").json["problems"]] == [str(victim)]


@pytest.mark.parametrize("harm", ["a byte of a vector", "emptied", "deleted"])
def test_a_damaged_feature_file_is_mended(
    folder: Path, videos: Path, model: ViSiL, run: Command, harm: str
) -> None:
    victim = videos / "alone" / "retina.mp4"
    harmed(folder, victim, model, harm)
    # Nothing else breaks: what cannot be read is left out (test_index_unreadable.py).
    for how in ([], ["--exhaustive"]):
        found = run("search", folder, videos / "copies" / "cat.mp4", "--json", *how)
        assert len(found.json["hits"]) in (7, 8)

    assert run("verify", folder, "--repair").status == 0
    assert run("verify", folder).out == "sound\n"
    assert run("info", folder, "--json").json["videos"] == 7
    assert run("add", folder, videos, "--json").json == {"added": 1, "unchanged": 7, "failed": []}
    assert run("verify", folder).out == "sound\n"
    assert run("search", folder, victim, "-k", "1", "--json").json["hits"][0]["path"] == str(victim)


def test_features_that_belong_to_nothing_are_named_and_taken_out(index: visil.Index) -> None:
    (known, *_) = index.store.ids()
    orphan = "00" * 16
    index.store.path(orphan).parent.mkdir(exist_ok=True)
    shutil.copy(index.store.path(known), index.store.path(orphan))
    (problem,) = index.verify()
    assert orphan in problem.what
    index.verify(repair=True)
    assert index.verify() == []
    assert sorted(index.store.ids()) == sorted(video.id for video in index.catalogue.videos())


def test_any_safetensors_reader_can_read_a_feature_file(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    store = FeatureStore(tmp_path)
    for frames in range(1, 6):  # every padding of the time stamps
        video = f"{frames:032x}"
        vectors, times = torch.randn(frames, 3, 5), np.arange(frames, dtype=np.float64)
        writer = store.writer(video)
        blank = torch.zeros(frames, dtype=torch.bool)
        for start in range(0, frames, 2):
            part = slice(start, start + 2)
            writer.append(vectors[part], times[part], blank[part])
        assert not store.path(video).exists()
        assert writer.finish(frames + 0.5) == frames
        tensors = load_file(store.path(video))
        assert torch.equal(tensors["vectors"], vectors.half())
        assert tensors["timestamps"].tolist() == times.tolist()
        read = store.read(video, path="x.mp4")
        assert torch.equal(read.vectors, vectors.half())
        assert (read.duration, read.path) == (frames + 0.5, "x.mp4")
        assert store.sound(video) is None
    discarded = store.writer("ff" * 16)
    discarded.discard()
    assert len(list(tmp_path.rglob("*.*"))) == 5


# ---------------------------------------------------------------------- candidates

SPOIL: dict[str, Callable[[Path, Path], object]] = {
    "no faiss file": lambda faiss, _: faiss.unlink(),
    "faiss noise": lambda faiss, _: faiss.write_bytes(b"\xff" * 999),
    "faiss cut": lambda faiss, _: os.truncate(faiss, 700),
    "faiss empty": lambda faiss, _: os.truncate(faiss, 0),
    "no json": lambda _, known: known.unlink(),
    "json noise": lambda _, known: known.write_bytes(b"\xff{"),
    "json of another kind": lambda _, known: known.write_text("[1]"),
    "json without numbers": lambda _, known: known.write_text('{"numbers": null}'),
}


@pytest.mark.parametrize("spoiled", SPOIL)
def test_candidates_are_made_anew(folder: Path, videos: Path, model: ViSiL, spoiled: str) -> None:
    (faiss,) = folder.glob("frames-*.faiss")
    SPOIL[spoiled](faiss, folder / "frames.json")
    with visil.Index(folder, model=model) as index:
        assert "frames" in index.verify()[0].what
        hits = index.search(videos / "copies" / "cut.mp4")
        assert len(hits) == 8
        assert {hit.verdict for hit in hits[:3]} <= {"copy", "related"}
        assert index.verify() == []
        assert len(list(folder.glob("frames-*.faiss"))) == 1


def test_verify_repairs_candidates(folder: Path, run: Command) -> None:
    (folder / "frames.json").unlink()
    assert run("verify", folder).status == 1
    assert run("verify", folder, "--repair").status == 0
    assert run("verify", folder).out == "sound\n"


# ---------------------------------------------------------------------- the catalogue


def spoil_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = b"\x5a" * (len(data) - 100)
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_bytes(b"not a database" * 500),
        lambda path: os.truncate(path, 1500),
        spoil_pages,
        lambda path: path.write_bytes(b""),
    ],
    ids=["noise", "cut", "pages", "nothing left"],
)
@pytest.mark.parametrize("command", ["info", "verify", "duplicates", "search", "add"])
def test_a_damaged_catalogue_is_one_clear_line(
    folder: Path, videos: Path, run: Command, harm: Callable[[Path], object], command: str
) -> None:
    for extra in folder.glob("catalogue.sqlite-*"):
        extra.unlink()
    harm(folder / "catalogue.sqlite")
    arguments = [videos / "alone"] if command in ("search", "add") else []
    line = run(command, folder, *arguments).line
    assert "catalogue.sqlite: the catalogue is damaged" in line


def test_a_catalogue_that_was_only_just_begun_is_made(videos: Path, tmp_path: Path, run: Command) -> None:
    """Killed while it made the file, a process leaves one without a byte, and no features."""
    (tmp_path / "new.visil" / "features").mkdir(parents=True)
    (tmp_path / "new.visil" / "catalogue.sqlite").touch()
    assert "the catalogue is damaged" in run("info", tmp_path / "new.visil").line
    assert run("add", tmp_path / "new.visil", videos / "alone", "--json").json["added"] == 3


def test_another_database_is_no_catalogue(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        db.execute("CREATE TABLE meta (key TEXT, value TEXT)")
    db.close()
    with pytest.raises(IndexFolderError, match="not the catalogue"):
        visil.Index(tmp_path)


def test_a_newer_format_is_refused(folder: Path, run: Command) -> None:
    with sqlite3.connect(folder / "catalogue.sqlite") as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'format'")
    db.close()
    line = run("info", folder).line
    assert "newer visil (format 99)" in line
    assert "upgrade" in line


def test_an_older_format_is_brought_up_to_date_in_one_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = schema.FORMAT
    monkeypatch.setattr(schema, "FORMAT", old + 2)
    steps = {
        old: "ALTER TABLE videos ADD COLUMN title TEXT;\nUPDATE videos SET title = 'x' || number;\n",
        old + 1: "CREATE TABLE broken (;\n",
    }
    monkeypatch.setattr(schema, "MIGRATIONS", steps)
    with pytest.raises(IndexFolderError):
        Catalogue(FileDatabase(folder / "catalogue.sqlite"))
    with sqlite3.connect(folder / "catalogue.sqlite") as db:
        assert db.execute("SELECT value FROM meta WHERE key = 'format'").fetchone() == (str(old),)
        assert "title" not in {row[1] for row in db.execute("PRAGMA table_info(videos)")}
    db.close()

    steps[old + 1] = "CREATE TABLE whole (a);\nINSERT INTO whole VALUES (1);\n"
    opened = Catalogue(FileDatabase(folder / "catalogue.sqlite"))
    assert opened.fact("format") == str(old + 2)
    assert opened.count()[0] == 8
    opened.close()
    with sqlite3.connect(folder / "catalogue.sqlite") as db:
        assert db.execute("SELECT title FROM videos ORDER BY number LIMIT 1").fetchone() == ("x1",)
        assert db.execute("SELECT a FROM whole").fetchall() == [(1,)]
    db.close()


# ---------------------------------------------------------------------- features in the wrong place


def test_features_in_the_place_of_others_are_found_out(folder: Path, videos: Path, run: Command) -> None:
    with visil.Index(folder) as opened:
        first, second = (
            opened.video(str(videos / "alone" / name)) for name in ("astronaut.mp4", "retina.mp4")
        )
        places = [opened.store.path(video.id) for video in (first, second)]
    shutil.copy(places[0], places[1])
    line = f"{second.path}: its features ({places[1].name}) are another video's"
    found = run("verify", folder)
    assert (found.status, found.out) == (1, f"{line}\n1 problem\n")
    told = run("search", folder, second.id)
    assert f"{places[1]}: is damaged; `visil verify --repair`" in told.err
    run("verify", folder, "--repair")
    assert run("add", folder, videos, "--json").json["added"] == 1
    assert run("verify", folder).out == "sound\n"


# ---------------------------------------------------------------------- another model


def test_an_unknown_model_leaves_nothing_behind(videos: Path, tmp_path: Path, run: Command) -> None:
    line = run("add", tmp_path / "new.visil", videos / "alone", "--model", "nosuch").line
    assert "nosuch" in line
    assert list(tmp_path.iterdir()) == []


def test_another_model_is_refused_and_nothing_changes(
    folder: Path, videos: Path, tmp_path: Path, run: Command
) -> None:
    other = visil.load()
    with torch.no_grad():
        for name, tensor in other.state_dict().items():
            if "whiten" in name:
                tensor.mul_(-1)
    other.save_pretrained(tmp_path / "other")
    before = {path.name: path.read_bytes() for path in folder.rglob("*.safetensors")}
    # A copy so that the file is unknown; a link would do as well.
    film = Path(shutil.copy(videos / "alone" / "retina.mp4", tmp_path / "film.mp4"))
    with visil.Index(folder, model=str(tmp_path / "other")) as index:
        for refused in (lambda: index.add(film), lambda: index.search(film), index.duplicates):
            with pytest.raises(ModelError, match=r"all\.visil: was made with the model .* make a new"):
                refused()
        assert index.info().videos == 8
    line = run("add", folder, film, "--model", tmp_path / "other").line
    assert "was made with the model" in line
    assert {path.name: path.read_bytes() for path in folder.rglob("*.safetensors")} == before
    assert run("verify", folder).out == "sound\n"
    assert run("add", folder, film, "--json").json["unchanged"] == 1

    # Its own collection remembers it.
    assert run("add", tmp_path / "i", film, "--model", tmp_path / "other", "--json").json["added"] == 1
    assert run("search", tmp_path / "i", film, "--json").json["hits"][0]["verdict"] == "copy"
    assert "was made with the model" in run("add", tmp_path / "i", film, "--model", "default").line


# ---------------------------------------------------------------------- the disk


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "visil-test", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small disk is not permitted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Take all of the disk but some bytes."""
    status = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(b"\0" * max(0, status.f_bavail * status.f_frsize - leave))
    return ballast


@pytest.mark.parametrize("leave", [0, 60_000, 400_000])
def test_a_full_disk_is_one_line_and_leaves_the_collection_sound(
    small_disk: Path, videos: Path, model: ViSiL, run: Command, leave: int
) -> None:
    folder = small_disk / "i"
    assert run("add", folder, videos / "alone", "--json").json["added"] == 3
    ballast = fill(small_disk, leave)
    line = run("add", folder, videos).line
    assert "disk is full" in line
    assert str(folder) in line
    ballast.unlink()
    with visil.Index(folder, model=model) as index:
        assert index.info().failed == []
        assert [p for p in index.verify() if "features" in p.reason or "belongs" in p.reason] == []
        kept = len(index)
        assert len(index.search(videos / "alone" / "retina.mp4", exhaustive=True)) == kept
    assert list((folder / "features").rglob(".*")) == []
    assert run("add", folder, videos, "--json").json == {"added": 8 - kept, "unchanged": kept, "failed": []}
    assert run("verify", folder).out == "sound\n"


def test_a_disk_that_is_full_from_the_start(small_disk: Path, videos: Path, run: Command) -> None:
    ballast = fill(small_disk, 0)
    assert "full" in run("add", small_disk / "i", videos / "alone").line
    ballast.unlink()
    assert run("add", small_disk / "i", videos / "alone", "--json").json["added"] == 3


def test_a_new_collection_where_nothing_can_be_written(small_disk: Path, videos: Path, run: Command) -> None:
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    line = run("add", small_disk / "i", videos / "alone").line
    assert f"{small_disk / 'i'}: cannot be made (read-only file system)" in line


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "the disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "permission denied")],
)
def test_features_that_cannot_be_put_in_place(
    empty: visil.Index, videos: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    def refuse(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("visil.collection.feature_writer.os.fsync", refuse)
        with pytest.raises(IndexFolderError, match=said):
            empty.add(videos / "alone" / "retina.mp4")
    assert len(empty) == 0
    assert list(empty.store.ids()) == []
    assert list((empty.folder / "features").rglob(".*")) == []
    assert empty.add(videos / "alone" / "retina.mp4").added == 1


def test_a_lock_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="cannot be written to"), exclusive(tmp_path / "no" / "lock"):
        pytest.fail("there is no such folder")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("database or disk is full", "the disk is full"),
        ("attempt to write a readonly database", "cannot be written to"),
        ("database is locked", "another process"),
        ("database disk image is malformed", "damaged"),
    ],
)
def test_what_sqlite_says_in_plain_words(
    index: visil.Index, monkeypatch: pytest.MonkeyPatch, raised: str, said: str
) -> None:
    class Refusing:
        in_transaction = False

        def execute(self, *_: object) -> NoReturn:
            raise sqlite3.OperationalError(raised)

        def close(self) -> None:
            pass

    real = part(index).catalogue.database._db
    monkeypatch.setattr(part(index).catalogue.database, "_db", Refusing())
    with pytest.raises(IndexFolderError, match=said):
        index.catalogue.set_fact("a", "b")
    with pytest.raises(IndexFolderError, match=said):
        index.catalogue.count()
    real.close()
