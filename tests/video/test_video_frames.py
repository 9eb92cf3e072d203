"""Reading real files: which frames come out, at which times, and how lazily."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from synthetic import Image, moving_scene, read_stamps, write_video
from synthetic import stamped_frames as stamped_frames_of
from visil.errors import UsageError
from visil.video import Frames, FrameStream, Sampling, read_frames, stream_frames


def stamped_frames(count: int, first: int = 0) -> Iterator[Image]:
    """Small ones, which are soon encoded: the numbers are read off the samples, which have one size."""
    return stamped_frames_of(count, (48, 64), first)


def shown(path: Path, sampling: Sampling | None = None) -> list[int]:
    return read_stamps(read_frames(path, sampling or Sampling()).images)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("recorded") / "ten.mp4", stamped_frames(250))


@pytest.fixture
def ten_seconds(tmp_path: Path, recorded: Path) -> Path:
    """A copy, which a test may cut short or delete."""
    return Path(shutil.copy(recorded, tmp_path))


def test_one_frame_a_second(ten_seconds: Path) -> None:
    frames = read_frames(ten_seconds)
    assert frames.images.shape == (10, 224, 224, 3)
    assert frames.images.dtype == np.uint8
    assert frames.timestamps.tolist() == [float(k) for k in range(10)]
    assert len(frames) == 10
    assert read_stamps(frames.images) == list(range(0, 250, 25))


@pytest.mark.parametrize("fps", [0.5, 2.0, 3.0, 25.0, 30.0])
def test_other_rates(ten_seconds: Path, fps: float) -> None:
    expected = [int(k / fps * 25 + 1e-6) for k in range(round(10 * fps))]
    assert shown(ten_seconds, Sampling(fps=fps)) == expected


def test_duration_and_batches(ten_seconds: Path) -> None:
    with stream_frames(ten_seconds, batch_size=4) as stream:
        lengths = [len(batch) for batch in stream]
        assert lengths == [4, 4, 2]
        assert stream.duration == pytest.approx(10.0)
        assert stream.damaged == 0
        assert stream.info.fps == 25.0
        with pytest.raises(StopIteration):
            next(stream)


def test_a_short_video_is_one_sample(tmp_path: Path) -> None:
    path = write_video(tmp_path / "short.mp4", stamped_frames(10))
    with stream_frames(path) as stream:
        assert [batch.timestamps.tolist() for batch in stream] == [[0.0]]
        assert stream.duration == pytest.approx(0.4)


def test_a_single_frame_is_one_sample(tmp_path: Path) -> None:
    assert shown(write_video(tmp_path / "one.mkv", stamped_frames(1, first=7))) == [7]


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mkv", "libx264"),
        ("a.webm", "libvpx-vp9"),
        ("a.mov", "prores_ks"),
        ("a.avi", "mpeg4"),
        ("a.ts", "libx264"),
        ("a.flv", "libx264"),
        ("a.mp4", "libx265"),
        ("a.mxf", "mpeg2video"),
        ("a.nut", "ffv1"),
        ("a.gif", "gif"),
        ("a.mjpeg", "mjpeg"),
    ],
)
def test_containers_and_codecs(tmp_path: Path, name: str, codec: str) -> None:
    pix_fmt = {"prores_ks": "yuv422p10le", "gif": "rgb8", "mjpeg": "yuvj420p"}.get(codec, "yuv420p")
    path = write_video(tmp_path / name, stamped_frames(75), codec=codec, pix_fmt=pix_fmt)
    assert shown(path) == [0, 25, 50]


def test_mpeg_program_streams_stamp_only_some_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mpg", stamped_frames(75), codec="mpeg2video")
    # FFmpeg makes up the others, to within a frame.
    assert shown(path) == pytest.approx([0, 25, 50], abs=1)


def test_stamps_in_milliseconds_fall_right(tmp_path: Path) -> None:
    ntsc = Fraction(30000, 1001)
    path = write_video(tmp_path / "ntsc.mkv", stamped_frames(90), fps=ntsc)
    # Frame n is at n * 1001 / 30000 s, which Matroska rounds to milliseconds.
    assert shown(path, Sampling(fps=float(ntsc))) == list(range(90))


def test_a_variable_frame_rate_repeats_the_held_frame(tmp_path: Path) -> None:
    times = [0.0, 0.5, 4.2, 4.3, 5.0, 7.9]
    for name in ("vfr.mp4", "vfr.mkv"):
        path = write_video(tmp_path / name, stamped_frames(6), timestamps=times)
        assert shown(path)[:8] == [0, 1, 1, 1, 1, 4, 4, 4]


def test_a_frame_held_for_half_an_hour_is_believed(tmp_path: Path) -> None:
    path = write_video(tmp_path / "slide.mp4", stamped_frames(3), timestamps=[0.0, 1.0, 1800.0])
    frames = read_frames(path, Sampling(fps=0.1))
    assert read_stamps(frames.images[[0, 1, 179, 180]]) == [0, 1, 1, 2]


def test_an_absurd_stamp_does_not_repeat_frames_for_ever(tmp_path: Path) -> None:
    times = [n / 25 for n in range(50)] + [1e6 + n / 25 for n in range(50)]
    path = write_video(tmp_path / "absurd.mkv", stamped_frames(100), timestamps=times)
    with stream_frames(path) as stream:
        images = np.concatenate([batch.images for batch in stream])
        assert read_stamps(images) == [0, 25, 50, 75]
        assert stream.duration == pytest.approx(4.0, abs=0.1)


@pytest.mark.parametrize("start", [36000.0, 5.0])
def test_a_late_start_is_time_zero(tmp_path: Path, start: float) -> None:
    times = [start + n / 25 for n in range(50)]
    for name in ("late.mkv", "late.ts"):
        path = write_video(tmp_path / name, stamped_frames(50), timestamps=times)
        assert shown(path) == [0, 25]


def test_negative_stamps(tmp_path: Path) -> None:
    times = [-2 + n / 25 for n in range(75)]
    path = write_video(
        tmp_path / "negative.nut", stamped_frames(75), timestamps=times, codec="ffv1", pix_fmt="yuv420p"
    )
    assert shown(path) == [0, 25, 50]


@pytest.mark.parametrize("second_start", [0.0, 21.0, 40.0, 300.0, 90000.0])
def test_joined_recordings_run_on(tmp_path: Path, second_start: float) -> None:
    one = write_video(tmp_path / "1.ts", stamped_frames(50), timestamps=[20 + n / 25 for n in range(50)])
    two = write_video(
        tmp_path / "2.ts", stamped_frames(50, first=50), timestamps=[second_start + n / 25 for n in range(50)]
    )
    joined = tmp_path / "joined.ts"
    joined.write_bytes(one.read_bytes() + two.read_bytes())
    with stream_frames(joined, Sampling(fps=2)) as stream:
        stamps = read_stamps(np.concatenate([batch.images for batch in stream]))
        assert stream.duration == pytest.approx(4.0, abs=0.1)
    assert len(stamps) == 8
    # To a frame: where the second begins, a demuxer may lose one.
    assert stamps == pytest.approx([0, 12, 25, 37, 50, 62, 75, 87], abs=2)


def test_a_raw_stream_has_no_stamps_and_is_counted(tmp_path: Path) -> None:
    path = write_video(tmp_path / "raw.h264", stamped_frames(100))
    with stream_frames(path) as stream:
        images = np.concatenate([batch.images for batch in stream])
    assert read_stamps(images) == [0, 25, 50, 75]


def test_count_mode_keeps_every_nth_frame(tmp_path: Path) -> None:
    path = write_video(tmp_path / "count.mp4", stamped_frames(50), fps=Fraction(25, 2))
    frames = read_frames(path, Sampling(mode="count"))
    assert read_stamps(frames.images) == [0, 12, 24, 36, 48]
    assert frames.timestamps == pytest.approx([0.0, 0.96, 1.92, 2.88, 3.84])


def test_count_mode_looks_at_no_stamps(tmp_path: Path) -> None:
    times = [0.0, 0.5, 4.2, 4.3, 5.0, 7.9]
    path = write_video(tmp_path / "vfr.mp4", stamped_frames(6), timestamps=times)
    # 6 frames in 8 s: the rate is below one, so every frame is kept.
    assert shown(path, Sampling(mode="count")) == list(range(6))


def test_sizes(ten_seconds: Path) -> None:
    assert read_frames(ten_seconds, Sampling(resize=100, crop=64)).images.shape == (10, 64, 64, 3)
    assert read_frames(ten_seconds, Sampling(resize=64, crop=64, mode="count")).images.shape == (
        10,
        64,
        64,
        3,
    )


def test_more_threads_give_the_same_frames(ten_seconds: Path) -> None:
    alone, together = read_frames(ten_seconds), read_frames(ten_seconds, threads=2)
    assert np.array_equal(alone.images, together.images)


@pytest.mark.parametrize("arguments", [{"batch_size": 0}, {"threads": -1}])
def test_arguments_that_cannot_be_meant(ten_seconds: Path, arguments: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        FrameStream(ten_seconds, **arguments)  # type: ignore[arg-type]


def test_batches_come_before_the_file_is_decoded(ten_seconds: Path, decoded: list[int]) -> None:
    stream = stream_frames(ten_seconds, batch_size=2)
    assert len(decoded) <= 2
    next(stream)
    assert len(decoded) <= 27
    next(stream)
    assert len(decoded) <= 77
    stream.close()
    assert list(stream) == []
    assert len(decoded) <= 77


def test_batches_already_taken_are_not_held(tmp_path: Path) -> None:
    path = write_video(tmp_path / "long.mp4", stamped_frames(200), fps=10)
    alive: list[weakref.ref[Frames]] = []
    most = 0
    for batch in stream_frames(path, batch_size=2):
        alive.append(weakref.ref(batch))
        del batch
        gc.collect()
        most = max(most, sum(ref() is not None for ref in alive))
    assert len(alive) == 10
    assert most == 0


def test_only_sampled_frames_are_converted(ten_seconds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from visil.video.pictures import Converter

    converted: list[int] = []
    square = Converter.square

    def counting(self: Converter, *arguments: object) -> object:
        converted.append(1)
        return square(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Converter, "square", counting)
    assert len(read_frames(ten_seconds)) == 10
    assert len(converted) == 10


def test_a_held_frame_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from visil.video.pictures import Converter

    path = write_video(tmp_path / "held.mp4", stamped_frames(2), timestamps=[0.0, 50.0])
    converted: list[int] = []
    square = Converter.square

    def counting(self: Converter, *arguments: object) -> object:
        converted.append(1)
        return square(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Converter, "square", counting)
    assert len(read_frames(path)) >= 51
    assert len(converted) == 2


def open_descriptors(path: Path) -> int:
    links = Path("/proc/self/fd").iterdir()
    return sum(1 for link in links if link.is_symlink() and link.resolve() == path.resolve())


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_the_file_is_closed_however_reading_ends(ten_seconds: Path) -> None:
    with stream_frames(ten_seconds, batch_size=1) as stream:
        next(stream)
        assert open_descriptors(ten_seconds) == 1
    assert open_descriptors(ten_seconds) == 0
    list(stream_frames(ten_seconds))
    assert open_descriptors(ten_seconds) == 0
    for _ in itertools.islice(stream_frames(ten_seconds, batch_size=1), 2):
        pass
    gc.collect()
    assert open_descriptors(ten_seconds) == 0


@pytest.mark.skipif(os.name != "posix", reason="elsewhere an open file cannot be deleted")
def test_a_video_deleted_while_it_is_read_is_read_to_its_end(ten_seconds: Path) -> None:
    stream = stream_frames(ten_seconds, batch_size=1)
    ten_seconds.unlink()
    assert sum(len(batch) for batch in stream) == 10


def test_a_video_cut_short_while_it_is_read_ends(ten_seconds: Path) -> None:
    stream = stream_frames(ten_seconds, batch_size=1)
    os.truncate(ten_seconds, 0)
    assert 1 <= sum(len(batch) for batch in stream) <= 10


def test_moving_scenes_differ_by_seed_and_move() -> None:
    one, again, other = (np.stack(list(moving_scene(seed, 0.4))).astype(float) for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert np.abs(one - other).mean() > 30
    assert np.abs(one[0] - one[-1]).mean() > 3
