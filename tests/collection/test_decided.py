"""A person's decisions about the files of a group, and the plan as a shell script."""

from __future__ import annotations

import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

from visil.collection.decided import Decision, decided, must_stay
from visil.collection.duplicates import Group
from visil.collection.plan import Action, PlannedFile
from visil.collection.plan_file import PlanRow, read_plan, rows_of, script, write_plan
from visil.collection.presence import HeldFile

from .test_plan import advice, held, nothing_is_lost, pair, same_footage, video

A, B, C = video("a"), video("b", duration=50.0), video("c", duration=40.0)
COPY = "/copy/a.mp4"


def group() -> Group:
    """``a`` in two files; all of ``b`` is in it, of ``c`` nobody knows."""
    pairs = [same_footage(A, B), pair(A, C, seconds=10.0)]
    files = {"a": [held(A), replace(held(A, inode=(1, 2)), path=COPY)], "b": [held(B)], "c": [held(C)]}
    found = advice([A, B, C], pairs, files=files)
    return Group([A, B, C], pairs, found.keep, found.reason, found.also, found.notes, {}, found.files)


def actions(found: Group) -> dict[str, tuple[str, str | None]]:
    return {row.path: (row.action, row.footage_in) for row in found.files}


def said(**by_path: Decision) -> dict[tuple[str, str], Decision]:
    rows = {"a": ("a", A.path), "copy": ("a", COPY), "b": ("b", B.path), "c": ("c", C.path)}
    return {rows[name]: decision for name, decision in by_path.items()}


def test_without_decisions_the_plan_is_as_suggested() -> None:
    kept = next(row.path for row in group().files if row.video == "a" and row.action == "keep")
    assert actions(group())[B.path] == ("drop", kept)
    assert decided(group(), {}) == group()
    assert decided(group(), said(a="keep", copy="keep")).files != group().files


def test_whatever_is_decided_nothing_goes_for_a_file_that_goes() -> None:
    files = {"a": [held(A), replace(held(A), path=COPY)], "b": [held(B)], "c": [held(C)]}
    choices: tuple[Decision | None, ...] = (None, "keep", "drop")
    for a, copy, b, c in itertools.product(choices, repeat=4):
        wanted = {"a": a, "copy": copy, "b": b, "c": c}
        found = decided(group(), said(**{name: one for name, one in wanted.items() if one}))
        plan = advice([A], [])
        nothing_is_lost(
            replace(plan, files=found.files, keep=found.keep, also=found.also),
            files,
        )
        for name, path in (("a", A.path), ("copy", COPY), ("b", B.path), ("c", C.path)):
            all_go = all(one == "drop" for one in wanted.values())
            if wanted[name] is not None and not all_go:
                assert actions(found)[path][0] == wanted[name], (wanted, path)
        assert {v.id for v in found.videos if found.kept(v)} == {
            row.video for row in found.files if row.action == "keep"
        }


def test_a_suggestion_falls_with_the_file_that_it_rests_on() -> None:
    swapped = decided(group(), said(a="drop", copy="drop", c="keep"))
    assert actions(swapped)[B.path] == ("keep", None)
    (row,) = [row for row in swapped.files if row.path == B.path]
    assert "is dropped" in row.reason
    unproved = [row for row in swapped.files if row.path == A.path]
    assert unproved[0].footage_in in (B.path, C.path)
    assert "not shown to hold all of it" in unproved[0].reason


def test_references_folders_and_second_names_must_stay() -> None:
    files = [
        HeldFile("/a", False, inode=(1, 1)),
        HeldFile("/b", True, inode=(1, 2)),
        HeldFile("/c", False, folder=True, inode=(1, 3)),
        HeldFile("/d", False, inode=(1, 1)),
        HeldFile("/e", False, "missing"),
        HeldFile("/f", False, "changed", inode=(1, 6)),
    ]
    assert set(must_stay(files)) == {"/b", "/c", "/d", "/e", "/f"}
    bound = {A.path: "it is a reference"}
    assert actions(decided(group(), said(a="drop"), bound))[A.path] == actions(group())[A.path]


def test_a_plan_is_a_script_that_moves_and_never_deletes(tmp_path: Path) -> None:
    folder = tmp_path / "it's $HOME; rm -rf `x`"
    folder.mkdir()
    names = ["keep.mp4", "-n \n two.mp4", "three.mp4", "four.mp4", "\udcff.mp4"]
    for name in names:
        (folder / name).write_text(name.encode("utf-8", "surrogateescape").hex())
    paths = [str(folder / name) for name in names]

    def row(path: str, inside: str | None) -> PlanRow:
        action: Action = "keep" if inside is None else "drop"
        return PlanRow(1, PlannedFile("x", path, action, "as\nsuch", inside, 10))

    rows = [
        row(paths[0], None),
        *(row(path, paths[0]) for path in (paths[1], paths[4])),
        row(paths[2], str(folder / "not there.mp4")),
    ]
    file = tmp_path / "plan.sh"
    file.write_bytes(script(rows).encode("utf-8", "surrogateescape"))
    assert "rm " not in script(rows[:1]).replace("-rf", "")
    for times in range(2):  # the second time there is nothing left to do
        done = subprocess.run(
            ["sh", file, "out"], cwd=tmp_path, capture_output=True, text=True, errors="replace", check=True
        )
        assert done.stdout.count("moved: ") == (0 if times else 2)
    assert sorted(path.name for path in folder.iterdir()) == ["four.mp4", "keep.mp4", "three.mp4"]
    moved = Path(f"{tmp_path}/out{folder}")
    assert (moved / names[1]).read_text() == names[1].encode().hex()
    assert (moved / names[4]).is_file()


def test_the_script_and_the_tables_hold_the_same_rows(tmp_path: Path) -> None:
    for ending in ("csv", "json", "sh"):
        write_plan([group()], tmp_path / f"plan.{ending}")
    rows = list(rows_of([group()]))
    assert read_plan(tmp_path / "plan.csv") == read_plan(tmp_path / "plan.json") == rows
    text = (tmp_path / "plan.sh").read_text()
    assert text.count("\nmove ") == sum(one.file.action == "drop" for one in rows)
    assert "sh plan.sh" in text
