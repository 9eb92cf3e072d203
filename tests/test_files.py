"""Files that are there whole or not at all, alone and together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from visil.errors import UsageError
from visil.files import fresh_beside, natural_order, replacing, replacing_tensors, replacing_together


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_file_is_replaced_when_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with replacing(path) as fresh:
        fresh.write_text("new")
        assert path.read_text() == "old"
    assert files(tmp_path) == {"a.txt": "new"}


def test_a_full_disk_as_safetensors_knows_it_is_told_in_one_line(tmp_path: Path) -> None:
    from safetensors import SafetensorError

    full = pytest.raises(UsageError, match=r"a\.safetensors: cannot be written: no space left")
    with full, replacing_tensors(tmp_path / "a.safetensors"):
        raise SafetensorError("No space left on device")
    assert files(tmp_path) == {}


@pytest.mark.parametrize("way", [replacing, fresh_beside])
def test_a_block_that_fails_leaves_the_file_as_it_was(way: type, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), way(path) as fresh:
        fresh.write_text(f"new {1 / 0}")
    assert files(tmp_path) == {"a.txt": "old"}


def test_errors_of_the_system_pass_or_are_said_in_words(tmp_path: Path) -> None:
    nowhere = tmp_path / "none" / "a.txt"
    with pytest.raises(FileNotFoundError), fresh_beside(nowhere):
        pass
    with pytest.raises(UsageError, match="cannot be written: its folder does not exist"), replacing(nowhere):
        pass
    with pytest.raises(UsageError, match="cannot be written: it is a folder"), replacing(tmp_path):
        pass
    with pytest.raises(UsageError, match="no file name can"), replacing(tmp_path / "a\0b"):
        pass
    with pytest.raises(UsageError, match="cannot be written: disk full"), replacing(tmp_path / "a"):
        raise OSError(28, "Disk full")
    assert files(tmp_path) == {}


def test_files_take_their_places_together(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    with replacing_together(folder, ("a", "b")) as fresh:
        for name in ("a", "b", "not named"):
            (fresh / name).write_text(f"new {name}")
    assert files(folder) == {"a": "new a", "b": "new b"}


def test_where_a_move_fails_all_old_files_are_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"old {name}")
    before, replace = files(tmp_path), os.replace

    def full(source: Path, target: Path) -> None:
        if target == tmp_path / "b":
            raise OSError(28, "No space left on device")
        replace(source, target)

    def write() -> None:
        with replacing_together(tmp_path, ("a", "b", "c")) as fresh:
            for name in ("a", "b", "c"):
                (fresh / name).write_text("new")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write()
    assert files(tmp_path) == before


def test_a_folder_made_for_files_that_never_came_is_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyError), replacing_together(tmp_path / "new", ("a",)):
        raise KeyError
    with pytest.raises(FileNotFoundError), replacing_together(tmp_path / "new", ("a",)):
        pass
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- natural order


def test_names_sort_as_people_count() -> None:
    counted = ["7.mp4", "٣.mp4", "clip 1.mp4", "Clip 2.mp4", "clip 02b.mp4", "clip 10.mp4", "clip.mp4"]
    assert sorted(sorted(counted), key=natural_order) == counted


def test_a_number_comes_before_text() -> None:
    assert sorted(["frame-b", "frame", "frame10", "frame9"], key=natural_order) == [
        *("frame", "frame9", "frame10", "frame-b")
    ]
