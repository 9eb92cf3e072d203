"""Probing, names, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import av
import pytest

from synthetic import stamped_frames, write_video
from visil.video import IMAGE_SUFFIXES, VIDEO_SUFFIXES, is_video_path, probe, read_frames


def test_probe(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", stamped_frames(90), fps=Fraction(30000, 1001))
    info = probe(path)
    assert info.path == str(path)
    assert (info.width, info.height) == (256, 192)
    assert info.duration == pytest.approx(3.003)
    assert info.fps == pytest.approx(29.97, abs=0.001)
    assert (info.codec, info.container, info.has_audio) == ("h264", "mp4", False)
    assert info.bit_rate == pytest.approx(path.stat().st_size * 8 / 3.003, rel=0.05)
    assert probe(str(path)) == info


def test_probe_of_a_matroska_file_with_sound(tmp_path: Path) -> None:
    info = probe(write_video(tmp_path / "clip.mkv", stamped_frames(25), codec="libx265", sound=True))
    assert (info.codec, info.container, info.has_audio) == ("hevc", "matroska", True)


def test_probe_of_a_folder(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("1.png", "2.png"):
        Image.new("RGB", (40, 30)).save(tmp_path / name)
    info = probe(tmp_path)
    assert (info.width, info.height, info.duration, info.fps) == (40, 30, None, None)
    assert (info.codec, info.container) == ("png", "images")


def test_the_main_video_stream_is_read(tmp_path: Path) -> None:
    path = tmp_path / "two.mkv"
    with av.open(str(path), "w") as container:
        streams = []
        for size in (64, 256):
            stream = container.add_stream("libx264", rate=25)
            stream.width = stream.height = size
            stream.pix_fmt = "yuv420p"
            stream.disposition = av.stream.Disposition(0)
            streams.append((stream, size))
        for _ in range(5):
            for stream, size in streams:
                container.mux(stream.encode(av.VideoFrame(size, size, "yuv420p")))
        for stream, _ in streams:
            container.mux(stream.encode())
    assert probe(path).width == 256
    assert len(read_frames(path)) == 1


def test_metadata_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "titled.mkv"
    with av.open(str(path), "w") as container:
        container.metadata["title"] = "CAFEBABE"
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        container.mux(stream.encode(av.VideoFrame(64, 64, "yuv420p")))
        container.mux(stream.encode())
    data = path.read_bytes()
    assert b"CAFEBABE" in data
    path.write_bytes(data.replace(b"CAFEBABE", b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe"))
    assert probe(path).width == 64


@pytest.mark.parametrize("name", ["a.mp4", "A.MKV", "b/c.WebM", "x.y.mov", "clip.ts", "moving.gif"])
def test_names_of_videos(name: str) -> None:
    assert is_video_path(name)
    assert is_video_path(Path(name))


@pytest.mark.parametrize("name", ["a.txt", "mp4", "a.mp4.part", "", "a.png", ".mp4", "a.mp3"])
def test_names_of_other_files(name: str) -> None:
    assert not is_video_path(name)


def test_suffixes_are_lower_case_with_a_dot() -> None:
    for suffix in VIDEO_SUFFIXES | IMAGE_SUFFIXES:
        assert suffix.startswith(".")
        assert suffix == suffix.lower()
    both = VIDEO_SUFFIXES & IMAGE_SUFFIXES
    assert both == {".gif"}


def test_importing_loads_no_heavy_library() -> None:
    code = "import sys, visil.video; print([m for m in ('torch', 'av', 'PIL') if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert result.stdout.strip() == "[]"
