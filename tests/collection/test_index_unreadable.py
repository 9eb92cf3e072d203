"""Feature files that cannot be read: left out with one line of warning, and everything else is answered."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import visil
from visil.collection.candidates import CandidateIndex
from visil.collection.part import Part
from visil.collection.store import WARNINGS
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError

from .conftest import Command, Start
from .inside import candidates

HARM: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "damaged": lambda path: os.truncate(path, 100),
}


def harmed(folder: Path, model: ViSiL, film: Path, harm: str) -> Path:
    """The feature file of a video, no longer readable."""
    with visil.Index(folder, model=model) as index:
        file = index.store.path(index.video(str(film)).id)
    HARM[harm](file)
    return file


@pytest.mark.parametrize("cached", [True, False], ids=["known to the cache", "unknown to the cache"])
@pytest.mark.parametrize("harm", HARM)
def test_everything_else_is_answered(
    folder: Path,
    videos: Path,
    model: ViSiL,
    run: Command,
    caplog: pytest.LogCaptureFixture,
    harm: str,
    cached: bool,
) -> None:
    victim = videos / "copies" / "cat small.mkv"
    file = harmed(folder, model, victim, harm)
    if not cached:
        (folder / "frames.json").unlink()
    cut = videos / "copies" / "cut.mp4"
    for command in (["search", cut], ["search", cut, "--exhaustive"], ["duplicates"], ["duplicates"]):
        caplog.clear()
        done = run(command[0], folder, *command[1:], "--json")
        assert done.status == 0, done.err
        if command[0] == "search":
            found = {Path(hit["path"]).name for hit in done.json["hits"]}
            assert len(found) == 7
        else:
            found = {Path(video["path"]).name for group in done.json["groups"] for video in group["videos"]}
            assert found == {"cat.mp4", "cut.mp4", "long.mp4", "coffee.mp4"}
        assert victim.name not in found
        assert {"cat.mp4", "cut.mp4"} <= found
        (record,) = caplog.records
        assert record.levelno == logging.WARNING
        assert str(victim) in record.getMessage()
        assert str(file) in record.getMessage()
        assert harm in record.getMessage()
        assert "`visil verify --repair`" in record.getMessage()
        assert len(record.getMessage().splitlines()) == 1


def test_the_warning_is_on_standard_error(folder: Path, videos: Path, model: ViSiL, process: Start) -> None:
    file = harmed(folder, model, videos / "alone" / "retina.mp4", "missing")
    child = process("duplicates", folder, "--json")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0
    assert out.startswith('{"groups": [')
    assert len(out.splitlines()) == 1
    (line,) = err.splitlines()
    assert line.startswith("visil: ")
    assert file.name in line


def test_of_many_only_some_are_named(
    folder: Path, model: ViSiL, videos: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(folder / "features")
    with visil.Index(folder, model=model) as index:
        assert index.search(videos / "copies" / "cat.mp4") == []
        assert index.duplicates() == []
    assert len(caplog.records) == WARNINGS + 1
    assert "`visil verify` names all" in caplog.records[-1].getMessage()


def test_a_query_whose_features_are_unreadable_is_read_anew(
    folder: Path, videos: Path, model: ViSiL, tmp_path: Path
) -> None:
    film = videos / "copies" / "cut.mp4"
    harmed(folder, model, film, "damaged")
    with visil.Index(folder, model=model) as index:
        assert {Path(hit.path).name for hit in index.search(film, 2)} == {"cat.mp4", "cat small.mkv"}
        with pytest.raises(IndexFolderError, match="verify --repair"):
            index.search(index.video(str(film)).id)


@pytest.mark.parametrize("harm", HARM)
def test_what_is_left_out_is_tried_again_only_when_its_file_changes(
    folder: Path, videos: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    victim = videos / "alone" / "retina.mp4"
    backup = folder.parent / "backup"
    with visil.Index(folder, model=model) as index:
        shutil.copy(index.store.path(index.video(str(victim)).id), backup)
    file = harmed(folder, model, victim, harm)
    (folder / "frames.json").unlink()
    saved: list[int] = []
    real = CandidateIndex.save

    def save(self: CandidateIndex) -> None:
        saved.append(len(self.numbers))
        real(self)

    monkeypatch.setattr(CandidateIndex, "save", save)
    for _ in range(3):
        with visil.Index(folder, model=model) as index:
            for _ in range(2):
                assert candidates(index).numbers == set(index.catalogue.numbers()) - {
                    index.video(str(victim)).number
                }
    assert saved == [7]
    shutil.copy(backup, file)
    for _ in range(2):
        with visil.Index(folder, model=model) as index:
            assert candidates(index).numbers == set(index.catalogue.numbers())
    assert saved == [7, 8]


def test_two_that_are_left_out_one_after_the_other_are_both_remembered(
    folder: Path, videos: Path, model: ViSiL, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    harmed(folder, model, videos / "alone" / "retina.mp4", "missing")
    (folder / "frames.json").unlink()
    with visil.Index(folder, model=model) as index:
        assert len(candidates(index).numbers) == 7
        film = Path(shutil.copy(videos / "alone" / "retina.mp4", tmp_path / "film.mp4"))
        with film.open("ab") as file:
            file.write(b"another video to us")
        monkeypatch.setattr(Part, "catch_up", lambda _: None)
        assert index.add(film).added == 1
        monkeypatch.undo()
        index.store.path(index.video(str(film)).id).unlink()
        assert len(candidates(index).numbers) == 7
    monkeypatch.setattr(CandidateIndex, "save", lambda _: pytest.fail("nothing has changed"))
    with visil.Index(folder, model=model) as index:
        assert len(candidates(index).numbers) == 7
