"""What a task of the cluster says of videos: here in this process, without Ray."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from synthetic import moving_scene, write_video
from visil.cluster import ray_work
from visil.cluster.ray_work import Errand, Lost, Sampled, Unreadable, WholeVideo, decode
from visil.video import Sampling, read_frames

SAMPLING = Sampling(fps=4, resize=64, crop=64)


@pytest.fixture
def errands(tmp_path: Path) -> list[Errand]:
    """Two videos of 20 samples, and a text between them."""
    for seed, name in enumerate(("a.mp4", "b.mp4")):
        write_video(tmp_path / name, moving_scene(seed, 5, 8, (64, 96)), 8)
    (tmp_path / "text.mp4").write_text("no video")
    return [Errand(number, tmp_path / name) for number, name in enumerate(("a.mp4", "text.mp4", "b.mp4"))]


def test_batches_are_filled_across_videos(errands: list[Errand], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_work, "_too_often", lambda *_: False)
    rows = list(decode({"errands": pickle.dumps(errands), "key": "1"}, SAMPLING, 32, None))
    batches = [np.frombuffer(row["images"], np.uint8).reshape(-1, 64, 64, 3) for row in rows]
    assert [len(batch) for batch in batches] == [32, 8]
    whole = np.concatenate([read_frames(errands[place].path, SAMPLING).images for place in (0, 2)])
    np.testing.assert_array_equal(np.concatenate(batches), whole)
    notes = [note for row in rows for note in pickle.loads(row["notes"])]
    told = [(type(note), note.number) for note in notes]
    assert told == [
        (Sampled, 0),
        (WholeVideo, 0),
        (Unreadable, 1),
        (Sampled, 2),
        (Sampled, 2),
        (WholeVideo, 2),
    ]
    pieces = [(note.start, len(note.timestamps)) for note in notes if isinstance(note, Sampled)]
    assert pieces == [(0, 20), (0, 12), (12, 8)]
    assert [note.samples for note in notes if isinstance(note, WholeVideo)] == [20, 20]


def test_a_task_that_was_begun_too_often_gives_up_all_its_videos(
    errands: list[Errand], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_work, "_too_often", lambda *_: True)
    (row,) = decode({"errands": pickle.dumps(errands), "key": "1"}, SAMPLING, 32, None)
    assert pickle.loads(row["notes"]) == [Lost(0), Lost(1), Lost(2)]
    assert row["images"] == b""


def test_attempts_are_counted_by_task() -> None:
    counter = ray_work.Attempts()
    assert [counter.begin(key) for key in ("a", "b", "a", "a")] == [1, 1, 2, 3]
