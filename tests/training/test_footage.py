"""Footage from real files against what the decoder itself gives."""

from __future__ import annotations

import io
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from synthetic import moving_scene, write_video
from visil.collection.identity import stamp_of
from visil.errors import FileError, UsageError, VideoError
from visil.machine.processes import available
from visil.training import stored_frames
from visil.training.cached_footage import CachedFootage
from visil.training.stored_frames import Decoders
from visil.video import Sampling, read_frames

SAMPLING = Sampling(fps=2, resize=72, crop=64)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("originals")
    (folder / "deep").mkdir()
    for seed, name in enumerate(("b.mp4", "deep/a.mkv", "c.mp4")):
        write_video(folder / name, moving_scene(seed, 3 + seed, fps=8, size=(96, 128)), 8)
    return folder


@pytest.fixture
def videos(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals, tmp_path / "videos"))


def test_frames_are_those_of_the_decoder_up_to_jpeg(videos: Path, tmp_path: Path) -> None:
    footage = CachedFootage(videos, tmp_path / "cache", SAMPLING, workers=2)
    assert footage.names == [str(videos / name) for name in ("b.mp4", "c.mp4", "deep/a.mkv")]
    assert len(footage) == footage.decoded == 3
    for number, name in enumerate(footage.names):
        truth = read_frames(name, SAMPLING)
        assert footage.times(number).tolist() == truth.timestamps.tolist()
        assert footage.times(number).dtype == torch.float64
        order = [len(truth) - 1, 0, 2, 2]
        images = footage.images(number, order)
        assert images.shape == (4, 64, 64, 3)
        assert images.dtype == torch.uint8
        error = np.abs(images.numpy().astype(int) - truth.images[order].astype(int))
        assert error.mean() < 6
        # Another frame of the same video is further away than the JPEG of this one.
        other = np.abs(images.numpy().astype(int) - truth.images[[1, 4, 5, 5]].astype(int))
        assert other.mean() > 2 * error.mean()


def test_the_jpegs_are_of_the_stated_quality(videos: Path, tmp_path: Path) -> None:
    footage = CachedFootage(videos / "b.mp4", tmp_path / "cache", SAMPLING)
    truth = read_frames(videos / "b.mp4", SAMPLING).images[3]
    packed = io.BytesIO()
    Image.fromarray(truth).save(packed, "JPEG", quality=90)
    assert np.array_equal(footage.images(0, [3])[0].numpy(), np.asarray(Image.open(packed)))


def test_a_second_run_decodes_nothing_even_when_files_were_moved(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = CachedFootage(videos, tmp_path / "cache", SAMPLING)
    before = [first.images(number, [0, 1]) for number in range(3)]
    videos.rename(tmp_path / "elsewhere")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a video was decoded")

    monkeypatch.setattr(stored_frames, "stream_frames", never)
    second = CachedFootage(tmp_path / "elsewhere", tmp_path / "cache", SAMPLING)
    assert second.decoded == 0
    assert second.failed == []
    assert all(torch.equal(second.images(number, [0, 1]), images) for number, images in enumerate(before))


def test_other_sampling_is_another_file(videos: Path, tmp_path: Path) -> None:
    CachedFootage(videos / "b.mp4", tmp_path / "cache", SAMPLING)
    faster = CachedFootage(videos / "b.mp4", tmp_path / "cache", Sampling(fps=4, resize=72, crop=64))
    assert faster.decoded == 1
    assert len(faster.times(0)) == 12
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_unreadable_videos_are_left_out_and_named(videos: Path, tmp_path: Path) -> None:
    (videos / "a broken.mp4").write_bytes(b"no video at all" * 100)
    (videos / "empty.mp4").touch()
    missing = tmp_path / "not there.mp4"
    told: list[tuple[int, int, str]] = []
    footage = CachedFootage(
        [videos, missing], tmp_path / "cache", SAMPLING, progress=lambda *done: told.append(done)
    )
    assert len(footage) == 3
    assert [Path(path).name for path, _ in footage.failed] == ["a broken.mp4", "empty.mp4", "not there.mp4"]
    assert all(reason for _, reason in footage.failed)
    assert [(done, total) for done, total, _ in told] == [(i, 6) for i in range(1, 7)]
    assert {path for *_, path in told} == {*footage.names, *(path for path, _ in footage.failed)}


@pytest.mark.skipif(not available(), reason="worker processes need Linux")
@pytest.mark.usefixtures("fresh_processes")
def test_processes_store_what_this_one_would_and_one_that_ends_costs_one_video(
    videos: Path, tmp_path: Path
) -> None:
    video, broken, made = videos / "b.mp4", tmp_path / "broken.mp4", tmp_path / "by a process"
    broken.write_bytes(b"no video at all" * 100)
    times = stored_frames.write_frames(video, tmp_path / "here", SAMPLING, stamp_of(video))
    with Decoders(SAMPLING, 3, 3) as decoders:
        workers = decoders._workers
        assert workers is not None
        assert workers.ready.wait(60)
        assert decoders.decode(video, made, stamp_of(video)).tolist() == times.tolist()
        assert made.read_bytes() == (tmp_path / "here").read_bytes()
        with pytest.raises(VideoError, match=r"broken\.mp4"):
            decoders.decode(broken, tmp_path / "none", stamp_of(broken))
        forker = workers.pid
        (child,) = Path(f"/proc/{forker}/task/{forker}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        with pytest.raises(VideoError, match="ended the process"):
            decoders.decode(video, made, stamp_of(video))
        assert decoders.decode(video, made, stamp_of(video)).tolist() == times.tolist()


def test_the_same_bytes_are_one_video(videos: Path, tmp_path: Path) -> None:
    shutil.copy(videos / "b.mp4", videos / "z copy.mp4")
    footage = CachedFootage(videos, tmp_path / "cache", SAMPLING)
    assert len(footage) == 3
    assert footage.copies == [(str(videos / "z copy.mp4"), str(videos / "b.mp4"))]


def test_a_damaged_cache_file_is_made_again(videos: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    whole = CachedFootage(videos / "b.mp4", cache, SAMPLING).images(0, [2])
    (stored,) = cache.iterdir()
    stored.write_bytes(stored.read_bytes()[:-100])
    again = CachedFootage(videos / "b.mp4", cache, SAMPLING)
    assert again.decoded == 1
    assert torch.equal(again.images(0, [2]), whole)


def test_a_cache_file_gone_meanwhile_is_said_in_one_line(videos: Path, tmp_path: Path) -> None:
    footage = CachedFootage(videos / "b.mp4", tmp_path / "cache", SAMPLING)
    (stored,) = (tmp_path / "cache").iterdir()
    stored.unlink()
    with pytest.raises(FileError, match="start again"):
        footage.images(0, [0])


def test_positions_outside_the_video_are_refused(videos: Path, tmp_path: Path) -> None:
    footage = CachedFootage(videos / "b.mp4", tmp_path / "cache", SAMPLING)
    with pytest.raises(UsageError, match="frames 0 to 5 only"):
        footage.images(0, [6])


def test_a_cache_that_cannot_be_written_is_not_the_videos_fault(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cache"):
        CachedFootage(videos, tmp_path / "file", SAMPLING)
