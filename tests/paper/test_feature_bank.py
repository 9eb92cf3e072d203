"""Features of a benchmark on disk: files such as collections have, made once, several videos at a time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from synthetic import moving_scene, write_video
from toy_bench import SMALL, small_model, write_clips
from visil.collection.store import FeatureStore
from visil.errors import FileError, UsageError
from visil.evaluation import Task
from visil.paper.feature_bank import FeatureBank, Networks
from visil.paper.feature_kinds import FeatureMaker
from visil.paper.videos import BuiltInVideos, DatasetVideos

KINDS = ["imac", "layers", "model", "imac+pca"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> BuiltInVideos:
    folder = write_clips(tmp_path_factory.mktemp("clips"), 6)
    return BuiltInVideos(folder, tmp_path_factory.mktemp("cache"), SMALL)


def files_below(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.safetensors"))


def test_files_are_those_of_a_collection(clips: BuiltInVideos, tmp_path: Path) -> None:
    bank = FeatureBank(clips, tmp_path, Networks(model=small_model()))
    bank.prepare(KINDS)
    store = FeatureStore(tmp_path)
    assert len(list(store.ids())) == 3 * len(bank.ids)  # the PCA is fitted, not stored
    assert all(store.sound(key) is None for key in store.ids())
    name = bank.ids[0]
    frames, times = clips.frames(name)
    expected = small_model().embed_frames(frames, times.tolist())
    found = bank.features(name, "model")
    torch.testing.assert_close(found.vectors, expected.vectors.half().float(), rtol=1e-3, atol=1e-4)
    assert found.timestamps.tolist() == times.tolist()
    assert bank.features(name, "imac+pca").vectors.norm(dim=-1).numpy() == pytest.approx(1, abs=1e-3)


def test_several_videos_at_once_give_what_one_at_a_time_gives(clips: BuiltInVideos, tmp_path: Path) -> None:
    found = []
    usual = torch.get_num_threads()
    for threads in (1, 3):
        torch.set_num_threads(threads)
        try:
            bank = FeatureBank(clips, tmp_path / str(threads), Networks())
            bank.prepare(["imac"])
        finally:
            torch.set_num_threads(usual)
        found.append([bank.features(name, "imac").vectors for name in bank.ids])
    for one, several in zip(*found, strict=True):
        torch.testing.assert_close(one, several, rtol=1e-3, atol=1e-4)


def test_a_run_that_was_stopped_goes_on(
    clips: BuiltInVideos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int, str]] = []
    bank = FeatureBank(clips, tmp_path, Networks(), lambda *state: told.append(state))
    batches, asked = clips.batches, []

    def stopping(name: str) -> object:
        asked.append(name)
        if len(asked) == 4:
            deadline = time.monotonic() + 60
            while not files_below(tmp_path) and time.monotonic() < deadline:
                time.sleep(0.01)
            raise KeyboardInterrupt
        return batches(name)

    monkeypatch.setattr(clips, "batches", stopping)
    with pytest.raises(KeyboardInterrupt):
        bank.prepare(["imac"])
    kept = len(files_below(tmp_path))
    assert 0 < kept < len(bank.ids)
    assert not list(tmp_path.rglob(".*.part"))
    monkeypatch.setattr(clips, "batches", batches)
    told.clear()
    bank.prepare(["imac", "imac+pca"])
    assert told[-1][:2] == (len(bank.ids) - kept, len(bank.ids) - kept)
    assert len(files_below(tmp_path)) == len(bank.ids)
    monkeypatch.setattr(FeatureMaker, "embed", lambda *_: pytest.fail("made again"))
    bank.prepare(["imac"])
    files_below(tmp_path)[0].write_bytes(b"junk")
    with pytest.raises(FileError, match="missing or damaged: delete it and run again"):
        [bank.features(name, "imac") for name in bank.ids]


def test_a_data_set_that_is_partly_there(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("q", "a"):
        write_video(folder / f"{name}.mp4", moving_scene(1, 5, fps=2, size=(64, 64), shot=5), fps=2)
    (folder / "b.mp4").write_text("no video")
    (tmp_path / "annotation.json").write_text(json.dumps({"q": {"ND": ["a", "b", "gone"]}}))
    (tmp_path / "ids.json").write_text(json.dumps({"query": ["q"], "database": ["a", "b", "gone"]}))
    task = Task("fivr-5k", tmp_path / "annotation.json", tmp_path / "ids.json")
    videos = DatasetVideos(task, folder, SMALL)
    seconds = np.concatenate([batch.timestamps for batch in videos.batches("a")])
    assert seconds.tolist() == pytest.approx([0, 1, 2, 3, 4])
    bank = FeatureBank(videos, tmp_path / "features", Networks())
    bank.prepare(["mac"])
    assert bank.readable(bank.ids) == ["q", "a"]
    ((path, reason),) = videos.failed
    assert path.endswith("b.mp4")
    assert reason
    with pytest.raises(UsageError, match="give --training"):
        bank.features("a", "mac+pca")
