"""Checkpoints: whole or not at all, the one before kept, damage told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from visil.errors import FileError, UsageError
from visil.training.checkpoint import LAST, PREVIOUS, load_checkpoint, save_checkpoint

IDENTITY = {"loss.margin": 0.5, "data.videos": ["a", "b"]}


def state(value: float) -> dict[str, object]:
    return {"model": {"weight": torch.full((100,), float(value))}, "standing": {"step": 3, "best": None}}


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path, IDENTITY) is None
    save_checkpoint(tmp_path, IDENTITY, state(1.5))
    found = load_checkpoint(tmp_path, IDENTITY)
    assert found is not None
    assert torch.equal(found["model"]["weight"], torch.full((100,), 1.5))
    assert found["standing"] == {"step": 3, "best": None}
    assert [path.name for path in tmp_path.iterdir()] == [LAST]


def test_a_tuple_is_the_same_as_a_list(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"levels": (1, 2)}, state(0))
    assert load_checkpoint(tmp_path, {"levels": [1, 2]}) is not None


@pytest.mark.parametrize("size", [0, 1, 100, 700, -1])
def test_a_truncated_one_is_told_with_the_way_out(size: int, tmp_path: Path) -> None:
    save_checkpoint(tmp_path, IDENTITY, state(1))
    save_checkpoint(tmp_path, IDENTITY, state(2))
    last = tmp_path / LAST
    last.write_bytes(last.read_bytes()[:size])
    with pytest.raises(FileError) as caught:
        load_checkpoint(tmp_path, IDENTITY)
    assert (
        str(caught.value) == f"{last}: is damaged: delete it to go on from previous.pt, the checkpoint before"
    )
    last.unlink()
    found = load_checkpoint(tmp_path, IDENTITY)
    assert found is not None
    assert found["model"]["weight"][0] == 1


def test_a_flipped_bit_among_the_numbers_is_noticed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, IDENTITY, state(1))
    last = tmp_path / LAST
    content = bytearray(last.read_bytes())
    content[content.index(torch.full((100,), 1.0).numpy().tobytes()) + 50] ^= 4
    last.write_bytes(content)
    with pytest.raises(FileError, match=r"last\.pt: is damaged: delete it to start again"):
        load_checkpoint(tmp_path, IDENTITY)


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    torch.save({"format": 1, "identity": "{}", "surprise": Path("x")}, tmp_path / LAST)
    with pytest.raises(FileError, match="is damaged"):
        load_checkpoint(tmp_path, {})


def test_a_newer_format_is_left_alone(tmp_path: Path) -> None:
    torch.save({"format": 99, "identity": "{}"}, tmp_path / LAST)
    with pytest.raises(FileError, match="newer visil: upgrade"):
        load_checkpoint(tmp_path, {})


def test_another_identity_is_named(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, IDENTITY, state(1))
    with pytest.raises(
        FileError, match=r"data\.videos \[\"a\", \"b\"\], not \[\"a\"\]: choose another output"
    ):
        load_checkpoint(tmp_path, {**IDENTITY, "data.videos": ["a"]})
    with pytest.raises(FileError, match="with seed null, not 1"):
        load_checkpoint(tmp_path, {**IDENTITY, "seed": 1})


def test_a_failed_write_leaves_the_old_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, IDENTITY, state(1))
    with pytest.raises(Exception, match="pickle"):
        save_checkpoint(tmp_path, IDENTITY, {"model": lambda: None})
    assert not (tmp_path / PREVIOUS).exists()
    found = load_checkpoint(tmp_path, IDENTITY)
    assert found is not None
    assert found["model"]["weight"][0] == 1
    with pytest.raises(UsageError, match="cannot be written: its folder does not exist"):
        save_checkpoint(tmp_path / "none", IDENTITY, state(1))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, IDENTITY, state(1))
    save, full = torch.save, Path("/dev/full")
    monkeypatch.setattr(torch, "save", lambda content, _: save(content, full))
    with pytest.raises(UsageError, match=r"last\.pt: cannot be written: perhaps the disk is full"):
        save_checkpoint(tmp_path, IDENTITY, state(2))
    assert [path.name for path in tmp_path.iterdir()] == [LAST]
    found = load_checkpoint(tmp_path, IDENTITY)
    assert found is not None
    assert found["model"]["weight"][0] == 1
