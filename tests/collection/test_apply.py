"""Carrying out a plan: only what is certain, checked by content before each step, and undone from its log."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import visil
from visil.collection import trash
from visil.collection.apply import apply, below, check
from visil.collection.identity import content_id
from visil.collection.plan import PlannedFile
from visil.collection.plan_file import PlanRow, read_plan, write_plan, write_rows
from visil.collection.undo import read_log, undo
from visil.errors import IndexFolderError, UsageError

from .conftest import Command, Start

HOWS = ("trash", "move", "hardlink", "symlink")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own for each test, and so a trash of its own."""
    plat_other = pytest.importorskip("send2trash.plat_other")
    home = tmp_path / "home"
    data = home / ".local" / "share"
    data.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.setattr("send2trash.send2trash", plat_other.send2trash)
    monkeypatch.setattr(plat_other, "XDG_DATA_HOME", os.fsencode(data))
    monkeypatch.setattr(plat_other, "HOMETRASH_B", os.fsencode(data / "Trash"))
    return home


@pytest.fixture
def films(videos: Path, tmp_path: Path) -> Path:
    """Copies of some videos: a cat, the same bytes again, a recoded part of it, and one that stands alone."""
    folder = tmp_path / "films"
    folder.mkdir()
    shutil.copy(videos / "copies" / "cat.mp4", folder / "cat.mp4")
    shutil.copy(videos / "copies" / "cat.mp4", folder / "cat again.mp4")
    shutil.copy(videos / "copies" / "cut.mp4", folder / "cut.mp4")
    shutil.copy(videos / "alone" / "retina.mp4", folder / "retina.mp4")
    return folder


@pytest.fixture
def index(empty: visil.Index, films: Path) -> visil.Index:
    assert empty.add(films).added == 3
    return empty


@pytest.fixture
def plan(index: visil.Index, tmp_path: Path) -> Path:
    path = tmp_path / "plan.csv"
    write_plan(index.duplicates(), path)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def rewritten(plan: Path, change: Callable[[dict[str, str]], None]) -> Path:
    with plan.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        change(row)
    with plan.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)
    return plan


def test_the_plan_says_what_goes_and_where_its_footage_is(plan: Path, films: Path) -> None:
    rows = {Path(row.file.path).name: row.file for row in read_plan(plan)}
    assert {name: row.action for name, row in rows.items()} == {
        "cat.mp4": "drop",
        "cat again.mp4": "keep",
        "cut.mp4": "drop",
    }
    for name in ("cat.mp4", "cut.mp4"):
        assert rows[name].footage_in == str(films / "cat again.mp4")
        assert rows[name].bytes == (films / name).stat().st_size
        assert rows[name].video == content_id(films / name)
    assert rows["cat.mp4"].reason == f"the same bytes as {films / 'cat again.mp4'}"
    assert rows["cut.mp4"].reason.startswith("all of it is in cat again.mp4 (")


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("coding", ["utf-8", "utf-8-sig", "utf-16"])
def test_what_spreadsheets_make_of_a_plan_is_one(delimiter: str, coding: str, tmp_path: Path) -> None:
    """Whatever names hold: what ends a line to Python, or a column to them."""
    names = ["/a/b\u2028c.mp4", '/a/b\nc, "d".mp4', "/a/é;ü\t.mp4", "/a/b\x0b\x1c\x85c.mp4"]
    rows = [PlanRow(1, PlannedFile("id", name, "drop", "the same", "/a/b.mp4", 5)) for name in names]
    write_rows(rows, tmp_path / "plan.csv")
    with (tmp_path / "plan.csv").open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    with (tmp_path / "saved.csv").open("w", newline="", encoding=coding) as file:
        csv.writer(file, delimiter=delimiter).writerows(table)
    assert read_plan(tmp_path / "saved.csv") == read_plan(tmp_path / "plan.csv") == rows


def test_json_plans_and_what_duplicates_prints_are_plans_too(
    index: visil.Index, plan: Path, tmp_path: Path, run: Command
) -> None:
    write_plan(index.duplicates(), tmp_path / "plan.json")
    (tmp_path / "printed").write_text(run("duplicates", index.folder, "--json").out)
    assert read_plan(plan) == read_plan(tmp_path / "plan.json") == read_plan(tmp_path / "printed")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        "{",
        "[]",
        '{"groups": 5}',
        "action,path,id\nsink,/x,1\n",
        "action,path,id\ndrop,,1\n",
    ],
)
def test_what_is_no_plan(text: str, index: visil.Index, tmp_path: Path, run: Command) -> None:
    (tmp_path / "no plan").write_text(text)
    done = run("apply", index.folder, tmp_path / "no plan")
    assert done.status in (0, 1)
    assert (done.status == 0) == (text in ("", "[]")) or "is not a plan" in done.line


def test_without_yes_nothing_is_done(index: visil.Index, plan: Path, films: Path, run: Command) -> None:
    before = contents(films)
    done = run("apply", index.folder, plan)
    assert (done.status, done.err) == (0, "")
    assert f"trash {films / 'cut.mp4'}  (its footage is in {films / 'cat again.mp4'})" in done.out
    assert "2 files, " in done.out
    assert "nothing was done: add --yes" in done.out
    told = run("apply", index.folder, plan, "--json").json
    assert told["done"] is False
    assert {Path(file["path"]).name for file in told["files"]} == {"cat.mp4", "cut.mp4"}
    assert contents(films) == before
    assert not list(plan.parent.glob("*.undo*"))


@pytest.mark.parametrize("how", HOWS)
def test_done_and_undone(
    how: str, index: visil.Index, plan: Path, films: Path, tmp_path: Path, run: Command
) -> None:
    before = contents(films)
    more = ["--to", tmp_path / "away"] if how == "move" else []
    done = run("apply", index.folder, plan, "--how", how, *more, "--yes", "--json")
    assert (done.status, done.err) == (0, "")
    assert done.json["done"] is True
    log = Path(done.json["undo_log"])
    assert log == plan.with_name("plan.csv.undo")
    keeper = films / "cat again.mp4"
    if how in ("trash", "move"):
        assert sorted(contents(films)) == ["cat again.mp4", "retina.mp4"]
        assert len(index) == 2, "the collection knows"
        assert index.duplicates() == []
    else:
        for name in ("cat.mp4", "cut.mp4"):
            assert (films / name).samefile(keeper)
            assert (films / name).is_symlink() == (how == "symlink")
        assert all(row.action != "drop" for group in index.duplicates() for row in group.files)
    if how == "move":
        assert below(tmp_path / "away", str(films / "cut.mp4")).read_bytes() == before["cut.mp4"]
    assert keeper.read_bytes() == before["cat again.mp4"]

    looked = run("apply", "--undo", log)
    assert looked.status == 0
    assert looked.out.count("would come back: ") == 2
    undone = run("apply", "--undo", log, "--yes", "--json").json
    assert sorted(Path(path).name for path in undone["back"]) == ["cat.mp4", "cut.mp4"]
    assert undone["failed"] == []
    assert contents(films) == before
    assert not any(path.is_symlink() for path in films.iterdir())
    assert os.stat(films / "cat.mp4").st_nlink == 1
    assert [Path(path).name for path in undone["add_again"]] == ["cut.mp4"], "no file held it any more"
    again = run("apply", "--undo", log, "--yes", "--json").json
    assert (len(again["there"]), again["back"]) == (2, [])
    assert index.add(films).failed == []
    assert {row.action for group in index.duplicates() for row in group.files} == {"keep", "drop"}


def test_a_second_run_has_nothing_to_do_and_a_log_of_its_own(
    index: visil.Index, plan: Path, run: Command
) -> None:
    assert run("apply", index.folder, plan, "--yes").out.startswith("2 of 2 files")
    done = run("apply", index.folder, plan, "--yes", "--json").json
    assert (done["files"], len(done["gone"])) == ([], 2)
    assert Path(done["undo_log"]).name == "plan.csv.undo-2"


# ---------------------------------------------------------------------- what is uncertain


def _changed(films: Path, _: Path) -> None:
    with (films / "cut.mp4").open("ab") as file:
        file.write(b"more")


def _changed_unseen(films: Path, _: Path) -> None:
    """Other bytes under the same name, as many and as old."""
    path = films / "cat again.mp4"
    status = path.stat()
    path.write_bytes(path.read_bytes()[:-4] + b"else")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _keeper_gone(films: Path, _: Path) -> None:
    (films / "cat again.mp4").unlink()


def _keeper_changed(films: Path, _: Path) -> None:
    shutil.copy(films / "retina.mp4", films / "cat again.mp4")


def _keeper_is_the_file(films: Path, _: Path) -> None:
    (films / "cat again.mp4").unlink()
    os.symlink(films / "cat.mp4", films / "cat again.mp4")


def _keeper_goes_too(films: Path, plan: Path) -> None:
    def change(row: dict[str, str]) -> None:
        row["action"], row["footage_in"] = "drop", row["footage_in"] or str(films / "cat.mp4")

    rewritten(plan, change)


def _kept_as_well(films: Path, plan: Path) -> None:
    """Two rows for one file: the one drops it, the other keeps it."""
    with plan.open(newline="") as file:
        rows = list(csv.DictReader(file))
    (row,) = (row for row in rows if "cut" in row["path"])
    with plan.open("a", newline="") as file:
        csv.DictWriter(file, row.keys()).writerow(row | {"action": "keep", "footage_in": ""})


def _no_keeper(_: Path, plan: Path) -> None:
    rewritten(plan, lambda row: row.update(footage_in=""))


def _unknown_keeper(_: Path, plan: Path) -> None:
    other = plan.with_name("other.mp4")
    other.write_bytes(b"something")
    rewritten(plan, lambda row: row.update(footage_in=row["footage_in"] and str(other)))


def _another_file(films: Path, plan: Path) -> None:
    rewritten(plan, lambda row: row.update(id="0" * 32))


def _not_known(films: Path, plan: Path) -> None:
    (plan.with_name("letter.txt")).write_text("dear")
    rewritten(
        plan, lambda row: row.update(path=str(plan.with_name("letter.txt"))) if "cut" in row["path"] else None
    )


UNCERTAIN: dict[str, tuple[Callable[[Path, Path], None], str]] = {
    "the file has changed": (_changed, "has changed since it was added"),
    "the keeper is gone": (_keeper_gone, "is not there"),
    "the keeper has changed": (_keeper_changed, "has changed since it was added"),
    "the keeper is a link to the file": (_keeper_is_the_file, "another name of"),
    "the keeper goes too": (_keeper_goes_too, "the plan drops"),
    "it is kept as well": (_kept_as_well, "the plan has it twice, to drop and to keep"),
    "no keeper is named": (_no_keeper, "does not say which file holds its footage"),
    "a keeper that nobody knows": (_unknown_keeper, "is not in the collection"),
    "a plan for other files": (_another_file, "something else than when the plan was made"),
    "a file that nobody knows": (_not_known, "is not in the collection"),
}


@pytest.mark.parametrize("kind", UNCERTAIN)
def test_while_anything_is_uncertain_nothing_is_done(
    kind: str, index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    change, said = UNCERTAIN[kind]
    change(films, plan)
    before = contents(films)
    for more in ([], ["--yes"], ["--yes", "--how", "hardlink"]):
        done = run("apply", index.folder, plan, *more)
        assert done.status == 1
        assert said in done.err
        assert "nothing was done" in done.err
        assert contents(films) == before
    assert run("apply", index.folder, plan, "--yes", "--json").json["uncertain"]
    with pytest.raises(UsageError, match="nothing was done"):
        apply(index, check(index, read_plan(plan)), plan.with_suffix(".log"))
    assert not list(plan.parent.glob("*.undo*"))


def test_a_link_to_a_file_that_goes_keeps_nothing(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    """A link was added as a file of its own; its name differs from the one that the plan drops."""
    os.symlink(films / "cat.mp4", films / "link.mp4")
    index.add(films / "link.mp4")

    def change(row: dict[str, str]) -> None:
        if "cut" in row["path"]:
            row["footage_in"] = str(films / "link.mp4")

    done = run("apply", index.folder, rewritten(plan, change), "--yes")
    assert f"the plan drops {films / 'link.mp4'} as well, which holds its footage" in done.err
    assert (films / "cut.mp4").is_file()


def test_a_person_who_changed_their_mind_is_heard(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    run("judge", index.folder, films / "cat.mp4", films / "cut.mp4", "different")
    assert "judged it different" in run("apply", index.folder, plan, "--yes").err
    assert (films / "cut.mp4").is_file()


def test_a_reference_does_not_go_whatever_the_plan_says(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    index.add(films / "cut.mp4", reference=True)
    assert "added as a reference" in run("apply", index.folder, plan, "--yes").err
    assert len(contents(films)) == 4


def test_content_is_read_before_each_step_not_only_looked_at(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    _changed_unseen(films, plan)
    before = contents(films)
    done = run("apply", index.folder, plan, "--yes")
    assert done.status == 1
    assert "does not hold what it held when it was added" in done.err
    assert contents(films) == before


def test_a_keeper_that_changes_between_two_steps_ends_it(index: visil.Index, plan: Path, films: Path) -> None:
    def meddle(step: Any, number: int, _: int) -> None:
        if number == 1:
            Path(step.keeper).write_bytes(b"other")

    checked = check(index, read_plan(plan))
    done = apply(index, checked, plan.with_suffix(".log"), progress=meddle)
    assert len(done.steps) == 1
    ((path, reason),) = done.failed
    assert path == checked.steps[1].path
    assert Path(path).is_file()
    assert "does not hold what it held" in reason


def test_a_collection_that_cannot_be_written_to_is_named_after_the_files(
    index: visil.Index, plan: Path, films: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: visil.Index, _: object) -> None:
        raise IndexFolderError(self.folder, "the folder cannot be written to")

    before = contents(films)
    monkeypatch.setattr(visil.Index, "forget_files", refused)
    done = run("apply", index.folder, plan, "--yes")
    assert done.status == 1
    assert done.err == (
        f"visil: {index.folder}: the folder cannot be written to, so that it still lists what is gone; "
        "the plan ended there\n"
    )
    assert done.out.splitlines()[-1] == f"to undo it: visil apply --undo {plan}.undo"
    monkeypatch.setattr(visil.Index, "forget_files", lambda *_: None)
    assert undo(read_log(f"{plan}.undo"), index).failed == []
    assert contents(films) == before


def test_one_file_at_two_places_is_noticed_when_both_are_gone(
    index: visil.Index, films: Path, tmp_path: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a folder that is mounted twice, where nothing tells that they are one."""
    again = tmp_path / "again"
    again.symlink_to(films)
    index.add(again / "cat.mp4")
    video = content_id(films / "cat.mp4")
    row = PlannedFile(video, str(films / "cat.mp4"), "drop", "", str(again / "cat.mp4"), 0)
    write_rows([PlanRow(1, row)], tmp_path / "plan.csv")
    before = contents(films)
    monkeypatch.setattr(os.path, "samefile", lambda *_: False)
    done = run("apply", index.folder, tmp_path / "plan.csv", "--yes")
    assert done.status == 1
    assert f"{again / 'cat.mp4'} went with it; undo this, and keep both" in done.err
    assert run("apply", "--undo", tmp_path / "plan.csv.undo", "--yes").status == 0
    assert contents(films) == before


def test_a_keeper_that_is_replaced_by_as_many_bytes_of_the_same_age_ends_it(
    index: visil.Index, plan: Path, films: Path
) -> None:
    def meddle(step: Any, number: int, _: int) -> None:
        keeper = Path(step.keeper)
        if number == 1:
            times = keeper.stat()
            fresh = keeper.with_name("fresh")
            fresh.write_bytes(bytes(times.st_size))
            os.utime(fresh, ns=(times.st_atime_ns, times.st_mtime_ns))
            fresh.replace(keeper)

    checked = check(index, read_plan(plan))
    assert len({step.keeper for step in checked.steps}) == 1
    done = apply(index, checked, plan.with_suffix(".log"), progress=meddle)
    assert len(done.steps) == 1
    assert "does not hold what it held" in done.failed[0][1]
    assert Path(checked.steps[1].path).is_file()


def test_a_log_for_which_there_is_no_room_is_named_and_not_left_behind(
    index: visil.Index, plan: Path, films: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = contents(films)
    with monkeypatch.context() as patch:
        patch.setattr("visil.collection.apply.os.fsync", full)
        done = run("apply", index.folder, plan, "--yes")
    assert (done.status, done.err) == (
        1,
        f"visil: {plan}.undo: cannot be written: no space left on device\n",
    )
    assert not Path(f"{plan}.undo").exists()
    assert contents(films) == before


def test_nothing_is_overwritten_where_files_are_moved(
    index: visil.Index, plan: Path, films: Path, tmp_path: Path, run: Command
) -> None:
    taken = below(tmp_path / "away", str(films / "cat.mp4"))
    taken.parent.mkdir(parents=True)
    taken.write_text("mine")
    done = run("apply", index.folder, plan, "--how", "move", "--to", tmp_path / "away", "--yes")
    assert done.status == 1
    assert "there is something at" in done.err
    assert taken.read_text() == "mine"
    assert (films / "cat.mp4").is_file()


def test_to_another_disk_files_are_copied_compared_and_then_deleted(
    index: visil.Index, plan: Path, films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = os.rename, contents(films)

    def rename(source: Any, target: Any) -> None:
        if str(source).startswith(str(films)):
            raise OSError(18, "Invalid cross-device link")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    checked = check(index, read_plan(plan))
    done = apply(index, checked, plan.with_suffix(".log"), how="move", to=tmp_path / "away")
    assert len(done.steps) == 2
    assert below(tmp_path / "away", str(films / "cut.mp4")).read_bytes() == before["cut.mp4"]
    monkeypatch.setattr(shutil, "copy2", lambda _, target: Path(target).write_bytes(b"short"))
    broken = undo(read_log(plan.with_suffix(".log")), index)
    assert len(broken.back) == 2, "that way it is a rename"


def test_a_copy_that_went_wrong_is_no_move(
    index: visil.Index, plan: Path, films: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(films)

    def rename(*_: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(shutil, "copy2", lambda _, target: Path(target).write_bytes(b"short"))
    done = apply(
        index, check(index, read_plan(plan)), plan.with_suffix(".log"), how="move", to=tmp_path / "away"
    )
    assert "its copy is not what was read" in done.failed[0][1]
    assert contents(films) == before
    assert not [path for path in (tmp_path / "away").rglob("*") if path.is_file()]


# ---------------------------------------------------------------------- undoing


def test_undo_leaves_alone_what_is_there_now(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    run("apply", index.folder, plan, "--yes")
    (films / "cut.mp4").write_text("a new one")
    done = run("apply", "--undo", f"{plan}.undo", "--yes")
    assert done.status == 3
    assert "something else is there now" in done.err
    assert (films / "cut.mp4").read_text() == "a new one"
    assert (films / "cat.mp4").is_file()


def test_without_a_trash_another_way_is_named(
    index: visil.Index, plan: Path, films: Path, home: Path, run: Command
) -> None:
    shutil.rmtree(home)
    done = run("apply", index.folder, plan, "--yes")
    assert done.status == 1
    assert "cannot be put into the trash (no such file or directory); --how move --to FOLDER" in done.err
    assert (films / "cut.mp4").is_file()


def test_what_is_no_longer_in_the_trash_is_said(
    index: visil.Index, plan: Path, films: Path, home: Path, run: Command
) -> None:
    run("apply", index.folder, plan, "--yes")
    shutil.rmtree(home / ".local" / "share" / "Trash")
    done = run("apply", "--undo", f"{plan}.undo", "--yes")
    assert done.status == 1
    assert "not in a trash that can be looked into" in done.err


def test_a_file_of_the_same_name_in_the_trash_is_not_mistaken_for_it(
    index: visil.Index, plan: Path, films: Path, run: Command
) -> None:
    before = contents(films)
    run("apply", index.folder, plan, "--yes")
    (films / "cut.mp4").write_text("another of that name")
    trash.to_trash(str(films / "cut.mp4"))
    assert len(trash.in_trash(str(films / "cut.mp4"))) == 2
    run("apply", "--undo", f"{plan}.undo", "--yes")
    assert contents(films) == before


@pytest.mark.parametrize("text", ["", "{}", "nonsense\n", '{"index": "x", "how": "trash"}\n{"begin": 5}\n'])
def test_what_is_no_log(text: str, tmp_path: Path, run: Command) -> None:
    (tmp_path / "log").write_text(text)
    assert "is not the log" in run("apply", "--undo", tmp_path / "log").line
    assert "cannot be read" in run("apply", "--undo", tmp_path / "nowhere").line


@pytest.mark.parametrize("how", ["trash", "symlink"])
def test_killed_in_the_middle_it_can_be_undone(
    how: str, index: visil.Index, plan: Path, films: Path, process: Start, run: Command
) -> None:
    """A file is in the trash, and the log knows only that it was about to go there."""
    before = contents(films)
    kill = "import os, visil.collection.apply as a\nreal = a.to_trash\na.to_trash = lambda p: (real(p), os._exit(9))"
    if how == "trash":
        kill += "\n"
    child = process("apply", index.folder, plan, "--how", how, "--yes", before=kill)
    assert child.wait(60) == 9
    assert contents(films) != before
    log = Path(f"{plan}.undo")
    log.write_text(log.read_text() + '{"don')  # cut off in the middle of a line
    assert run("apply", "--undo", log, "--yes").status == 0
    assert contents(films) == before


@pytest.mark.parametrize("how", ["hardlink", "symlink"])
def test_links_that_a_killed_run_made_are_done(
    how: str, index: visil.Index, plan: Path, films: Path, process: Start, run: Command
) -> None:
    before = contents(films)
    kill = (
        "import os, visil.collection.apply as a\nreal = os.replace\n"
        "a.os.replace = lambda *p: (real(*p), os._exit(9)) if '.visil-' in str(p[0]) else real(*p)"
    )
    assert process("apply", index.folder, plan, "--how", how, "--yes", before=kill).wait(60) == 9
    done = run("apply", index.folder, plan, "--how", how, "--yes", "--json")
    assert (done.status, len(done.json["files"]), len(done.json["gone"])) == (0, 1, 1)
    assert all(os.path.samefile(films / "cat again.mp4", films / name) for name in ("cat.mp4", "cut.mp4"))
    for log in sorted(plan.parent.glob("plan.csv.undo*"), reverse=True):
        assert run("apply", "--undo", log, "--yes").status == 0
    assert contents(films) == before


@pytest.mark.parametrize("how", ["hardlink", "symlink"])
def test_a_link_that_a_killed_run_had_not_put_in_place_is_put_there(
    how: str, index: visil.Index, plan: Path, films: Path, process: Start, run: Command
) -> None:
    before = contents(films)
    kill = "import os, visil.collection.apply as a\nreal = a.to_trash\na.to_trash = lambda p: (real(p), os._exit(9))"
    assert process("apply", index.folder, plan, "--how", how, "--yes", before=kill).wait(60) == 9
    assert not (films / "cut.mp4").exists()
    done = run("apply", index.folder, plan, "--how", how, "--yes", "--json")
    assert (done.status, len(done.json["files"]) + len(done.json["gone"])) == (0, 2)
    assert all(os.path.samefile(films / "cat again.mp4", films / name) for name in ("cat.mp4", "cut.mp4"))
    assert sorted(contents(films)) == sorted(before), "nothing is left over"
    for log in sorted(plan.parent.glob("plan.csv.undo*"), reverse=True):
        assert run("apply", "--undo", log, "--yes").status == 0
    assert contents(films) == before


def test_no_hard_link_leads_to_another_disk(
    index: visil.Index, plan: Path, films: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.stat

    def elsewhere(path: Any, **more: Any) -> os.stat_result:
        found = real(path, **more)
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:])) if path == str(films) else found

    monkeypatch.setattr("visil.collection.apply.os.stat", elsewhere)
    done = run("apply", index.folder, plan, "--how", "hardlink", "--yes")
    assert done.status == 1
    assert "on another disk; --how symlink does" in done.err
    assert "nothing was done" in done.err


def test_wrong_usage(index: visil.Index, plan: Path, tmp_path: Path, run: Command) -> None:
    assert "name the collection and the plan" in run("apply").line
    assert "needs --to" in run("apply", index.folder, plan, "--how", "move").line
    assert "needs --to" in run("apply", index.folder, plan, "--to", tmp_path).line
    assert "takes the log alone" in run("apply", index.folder, "--undo", "x").line
    assert run("apply", index.folder, plan, "--how", "burn").status == 2
    assert (
        "cannot be written"
        in run("apply", index.folder, plan, "--yes", "--undo-log", tmp_path / "no" / "l").line
    )


def test_a_file_beside_a_collection_may_not_say_yes(
    index: visil.Index, plan: Path, films: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISIL_CONFIG", raising=False)
    (index.folder.parent / "visil.toml").write_text("[apply]\nyes = true\n")
    assert "only your own file" in run("apply", index.folder, plan).line
    assert len(contents(films)) == 4


def test_names_that_are_no_text(index: visil.Index, films: Path, tmp_path: Path, run: Command) -> None:
    strange = films / os.fsdecode(b'caf\xe9 \xff,\n"x".mp4')
    (films / "cut.mp4").rename(strange)
    index.add(films)
    index.prune(dry_run=False)
    for name in ("plan.csv", "plan.json"):
        write_plan(index.duplicates(), tmp_path / name)
        rows: list[PlanRow] = read_plan(tmp_path / name)
        assert str(strange) in {row.file.path for row in rows if row.file.action == "drop"}
    assert run("apply", index.folder, tmp_path / "plan.json", "--yes").status == 0
    assert not strange.exists()
    assert json.loads((tmp_path / "plan.json.undo").read_text().splitlines()[1])
    assert run("apply", "--undo", tmp_path / "plan.json.undo", "--yes").status == 0
    assert strange.exists()
