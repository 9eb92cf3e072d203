"""Bad files: each ends as a VideoError with a plain reason, or as the frames that can be saved."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthetic import moving_scene, read_stamps, stamped_frames, write_video
from visil.errors import VideoError
from visil.video import decoding as decoding_module
from visil.video import frames_at, probe, read_frames, stream_frames

READERS: list[Callable[[Path], object]] = [
    lambda path: read_frames(path),
    lambda path: list(stream_frames(path)),
    lambda path: probe(path),
    lambda path: frames_at(path, [0.0, 1.0]),
]


def reason(path: Path | str, reader: Callable[[Path], object] = READERS[0]) -> str:
    with pytest.raises(VideoError) as caught:
        reader(path)  # type: ignore[arg-type]
    assert caught.value.path == os.fspath(path)
    assert "\n" not in str(caught.value)
    assert "Errno" not in caught.value.reason
    return caught.value.reason


@pytest.mark.parametrize("reader", READERS)
def test_nothing_there(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    assert reason(tmp_path / "none.mp4", reader) == "no such file"
    (tmp_path / "file").write_text("x")
    assert reason(tmp_path / "file" / "below.mp4", reader) == "no such file"


@pytest.mark.parametrize("reader", READERS)
def test_an_empty_file(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    path = tmp_path / "empty.mp4"
    path.touch()
    assert reason(path, reader) == "the file is empty"


@pytest.mark.parametrize("reader", READERS)
def test_a_folder_without_images(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    assert reason(tmp_path, reader) == "a folder without images"


@pytest.mark.parametrize("name", ["nul\0.mp4", "lone\ud800.mp4", "x" * 300 + ".mp4"])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(VideoError) as caught:
        read_frames(name)
    assert caught.value.reason
    str(caught.value).encode("utf-8")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read anything")
def test_permission_denied(tmp_path: Path) -> None:
    path = write_video(tmp_path / "secret.mp4", stamped_frames(5))
    path.chmod(0)
    assert reason(path) == "permission denied"


def test_permission_denied_by_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(tmp_path / "secret.mp4", stamped_frames(5))
    monkeypatch.setattr("visil.video.container.os.access", lambda *_: False)
    assert reason(path) == "permission denied"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["notes.mp4", "notes.mkv", "notes.avi", "notes.h264", "notes"])
def test_text(tmp_path: Path, name: str, reader: Callable[[Path], object]) -> None:
    path = tmp_path / name
    path.write_text("Dear diary, today I renamed a file.\n" * 50)
    assert reason(path, reader) == "not a video file: it holds text"


def test_random_bytes_and_zeros(tmp_path: Path) -> None:
    for seed in range(20):
        path = tmp_path / f"noise{seed}.mp4"
        path.write_bytes(random.Random(seed).randbytes(20_000))
        assert reason(path) == "not a video file, or damaged at its start"
    path = tmp_path / "zeros.mp4"
    path.write_bytes(bytes(100_000))
    assert reason(path) == "not a video file: it holds only zeros"


def write_sound(path: Path, codec: str, cover: bool = False) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=44100)
        assert isinstance(stream, av.AudioStream)
        picture = None
        if cover:
            picture = container.add_stream("mjpeg")
            picture.width = picture.height = 64
            picture.pix_fmt = "yuvj420p"
            picture.disposition = av.stream.Disposition.attached_pic
        layout = (
            {"format": "s16", "layout": "mono"} if codec != "aac" else {"format": "fltp", "layout": "mono"}
        )
        kind = np.int16 if codec != "aac" else np.float32
        if picture is not None:
            container.mux(
                picture.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), "rgb24"))
            )
            container.mux(picture.encode())
        for start in range(0, 44100, 1024):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), kind), **layout)
            frame.sample_rate = 44100
            frame.pts = start
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(("name", "codec"), [("a.m4a", "aac"), ("a.wav", "pcm_s16le"), ("a.mkv", "flac")])
def test_only_sound(tmp_path: Path, name: str, codec: str) -> None:
    path = write_sound(tmp_path / name, codec)
    assert reason(path) == "no video stream: the file holds only sound"


def test_sound_with_a_cover_picture(tmp_path: Path) -> None:
    path = write_sound(tmp_path / "song.mp4", "aac", cover=True)
    assert reason(path) == "no video stream: the file holds only sound and a cover picture"


def test_sound_beside_video_is_passed_over(tmp_path: Path) -> None:
    path = write_video(tmp_path / "both.mp4", stamped_frames(50), sound=True)
    assert read_stamps(read_frames(path).images) == [0, 25]
    assert probe(path).has_audio


def test_a_missing_index(tmp_path: Path) -> None:
    path = write_video(tmp_path / "cut.mp4", stamped_frames(100))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert reason(path) == "damaged: its index is missing, as if the recording or download was cut short"


def test_a_truncated_download_gives_what_is_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_video(
        tmp_path / "cut.mp4",
        moving_scene(3, 10, size=(120, 160)),
        container_options={"movflags": "faststart"},
    )
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])
    with caplog.at_level(logging.WARNING, logger="visil"), stream_frames(path) as stream:
        count = sum(len(batch) for batch in stream)
        assert 3 <= count <= 8
        assert stream.duration < 9
        assert stream.info.duration == pytest.approx(10.0)
    assert "cut.mp4" in caplog.text
    assert "of the 10.0 s it declares" in caplog.text


def test_a_whole_video_gives_no_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("fine.mp4", "fine.mkv", "fine.ts"):
        path = write_video(tmp_path / name, stamped_frames(50), sound=True)
        with caplog.at_level(logging.WARNING, logger="visil"):
            assert len(read_frames(path)) == 2
    assert caplog.text == ""


def test_damage_in_the_middle_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_video(
        tmp_path / "hole.mkv", stamped_frames(100), codec="ffv1", options={"level": "3", "slicecrc": "1"}
    )
    data = bytearray(path.read_bytes())
    middle = slice(len(data) // 2, len(data) // 2 + 3000)
    data[middle] = random.Random(0).randbytes(3000)
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, logger="visil"), stream_frames(path) as stream:
        images = np.concatenate([batch.images for batch in stream])
        assert read_stamps(images[[0, -1]]) == [0, 75]


def test_packets_that_cannot_be_decoded_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_video(tmp_path / "png.mov", stamped_frames(100), codec="png", pix_fmt="rgb24")
    data = path.read_bytes()
    starts = [at for at in range(len(data)) if data.startswith(b"\x89PNG\r\n", at)]
    assert len(starts) == 100
    broken = bytearray(data)
    for at in starts[10:20]:
        broken[at : at + 8] = bytes(8)
    path.write_bytes(broken)
    with caplog.at_level(logging.WARNING, logger="visil"), stream_frames(path) as stream:
        images = np.concatenate([batch.images for batch in stream])
        assert read_stamps(images) == [0, 25, 50, 75]
        assert stream.damaged == 10
        assert stream.duration == pytest.approx(4.0)
    assert "10 packets could not be decoded" in caplog.text


def test_not_one_good_packet(tmp_path: Path) -> None:
    path = write_video(tmp_path / "png.mov", stamped_frames(30), codec="png", pix_fmt="rgb24")
    path.write_bytes(path.read_bytes().replace(b"\x89PNG\r\n", bytes(6)))
    for reader in READERS:
        assert reason(path, reader) == "damaged: not one frame can be decoded"


def test_garbage_behind_a_good_header_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_module, "MOST_BAD_PACKETS_IN_A_ROW", 5)
    path = write_video(tmp_path / "png.mov", stamped_frames(30), codec="png", pix_fmt="rgb24")
    data = path.read_bytes()
    second = data.index(b"\x89PNG\r\n", data.index(b"\x89PNG\r\n") + 1)
    path.write_bytes(data[:second] + data[second:].replace(b"\x89PNG\r\n", bytes(6)))
    with stream_frames(path) as stream:
        assert sum(len(batch) for batch in stream) == 1
        assert stream.damaged == 5


def test_a_stream_without_frames(tmp_path: Path) -> None:
    path = tmp_path / "none.y4m"
    path.write_bytes(b"YUV4MPEG2 W64 H48 F25:1 Ip A1:1 C420jpeg\n")
    assert reason(path) == "the video stream holds no frames"


def test_absurd_frame_sizes(tmp_path: Path) -> None:
    path = tmp_path / "huge.y4m"
    path.write_bytes(b"YUV4MPEG2 W30000 H30000 F25:1 Ip A1:1 C420jpeg\nFRAME\n" + bytes(1000))
    assert reason(path) == "not a video file, or damaged at its start"


def test_an_absurd_size_in_the_header(tmp_path: Path) -> None:
    path = write_video(tmp_path / "huge.avi", stamped_frames(5), codec="rawvideo", pix_fmt="bgr24")
    data = bytearray(path.read_bytes())
    at = data.index(b"strf") + 8 + 4
    data[at : at + 8] = struct.pack("<ii", 60000, 60000)
    path.write_bytes(data)
    assert reason(path).startswith("damaged")


CODECS = [("mkv", "libx264"), ("mp4", "libx264"), ("ts", "mpeg2video"), ("avi", "mpeg4"), ("webm", "libvpx")]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("originals")
    frames = list(stamped_frames(20, (48, 64)))
    return {
        suffix: write_video(folder / f"a.{suffix}", frames, codec=codec).read_bytes()
        for suffix, codec in CODECS
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    suffix=st.sampled_from([suffix for suffix, _ in CODECS]),
    seed=st.integers(0, 2**32),
    changes=st.integers(1, 200),
    head_only=st.booleans(),
)
def test_whatever_is_broken_nothing_but_a_video_error_comes_out(
    tmp_path: Path, originals: dict[str, bytes], suffix: str, seed: int, changes: int, head_only: bool
) -> None:
    data = bytearray(originals[suffix])
    chance = random.Random(seed)
    for _ in range(changes):
        data[chance.randrange(600 if head_only else len(data))] = chance.randrange(256)
    path = tmp_path / f"fuzzed.{suffix}"
    path.write_bytes(data[: chance.randrange(len(data)) + 1] if chance.random() < 0.3 else data)
    for reader in READERS:
        with contextlib.suppress(VideoError):
            assert reader(path)


@pytest.mark.parametrize("movflags", ["faststart", "frag_keyframe+empty_moov"])
def test_an_encrypted_file_says_so(tmp_path: Path, movflags: str) -> None:
    locked = {
        "encryption_scheme": "cenc-aes-ctr",
        "encryption_key": "0123456789abcdef0123456789abcdef",
        "encryption_kid": "a7e61c373e219033c21091fa607bf3b8",
    }
    path = write_video(
        tmp_path / "locked.mp4", stamped_frames(30), container_options=locked | {"movflags": movflags}
    )
    for reader in READERS:
        assert reason(path, reader) == "encrypted: it can be read once it is decrypted with its key"


@pytest.mark.parametrize("boxes", [(b"mdhd",), (b"mvhd", b"mdhd")])
def test_a_clock_without_ticks_is_taken_for_the_usual_one(
    tmp_path: Path, boxes: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    path = write_video(tmp_path / "clock.mp4", stamped_frames(75))
    data = bytearray(path.read_bytes())
    for box in boxes:
        scale = data.index(box) + 16
        data[scale : scale + 4] = bytes(4)
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING, logger="visil"):
        assert read_stamps(read_frames(path).images) == [0, 25, 50]
    assert "clock.mp4: says nowhere how fast it runs" in caplog.text
    assert read_stamps(frames_at(path, [2.0], height=192), resize=192) == [50]
    assert (probe(path).duration, probe(path).fps) == (None, None)
