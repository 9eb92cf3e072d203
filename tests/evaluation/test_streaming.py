"""The log of a pass that keeps no features: what a run that goes on finds in it, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from visil.errors import FileError, UsageError
from visil.evaluation.streaming import ScoreLog


def filled(folder: Path) -> None:
    with ScoreLog(folder, {"model": "m"}, ["q", "r"]) as log:
        log.add({"a": {"m": [0.25, 0.5]}}, {"b": "no video", "r": "no video"})


def test_a_video_that_could_not_be_read_is_left_to_do_and_a_query_is_not(tmp_path: Path) -> None:
    filled(tmp_path)
    with ScoreLog(tmp_path, {"model": "m"}, ["q", "r"]) as log:
        assert [target in log for target in ("a", "b", "q", "r")] == [True, False, False, True]
        before = (tmp_path / "scores.jsonl").read_text()
        log.add({}, {"b": "no video"})
        assert (tmp_path / "scores.jsonl").read_text() == before, "it is told of once"
        log.add({"b": {"m": [1.0, 0.0]}}, {})
    with ScoreLog(tmp_path, {"model": "m"}, ["q", "r"]) as log:
        assert log.failed == {"r": "no video"}
        scores = log.predictions("m").scores
        assert list(scores) == ["q"]
        assert dict(zip(scores["q"].targets, scores["q"].values.tolist(), strict=True)) == {
            "a": 0.25,
            "b": 1.0,
        }


@pytest.mark.parametrize("line", ["\0\0\n", "{}\n", '{"target": "x", "scores": {"m": [1]}}\n', "7\n"])
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    filled(tmp_path)
    with open(tmp_path / "scores.jsonl", "a") as file:
        file.write(line)
    with pytest.raises(FileError, match=r"scores.jsonl: line 4 is damaged: delete that line"):
        ScoreLog(tmp_path, {"model": "m"}, ["q", "r"]).__enter__()
    filled(tmp_path / "another")  # the folder of the damaged one is let go of, too
    (tmp_path / "scores.jsonl").write_text("")
    filled(tmp_path)


def test_two_evaluations_do_not_share_a_folder(tmp_path: Path) -> None:
    at_work = pytest.raises(UsageError, match="another evaluation is at work on it")
    with ScoreLog(tmp_path, {"model": "m"}, ["q"]), at_work:
        ScoreLog(tmp_path, {"model": "m"}, ["q"]).__enter__()
    with ScoreLog(tmp_path, {"model": "m"}, ["q"]):
        pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_told_with_the_file(tmp_path: Path) -> None:
    with ScoreLog(tmp_path, {"model": "m"}, ["q"]) as log:
        (tmp_path / "scores.jsonl").symlink_to("/dev/full")
        with pytest.raises(
            FileError, match=r"scores\.jsonl: cannot be written: no space left on device; what was"
        ):
            log.add({"a": {"m": [0.25]}}, {})
