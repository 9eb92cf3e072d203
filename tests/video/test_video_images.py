"""Folders of images, and single images, as videos."""

from __future__ import annotations

import logging
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from synthetic import read_stamps, stamped_frames, write_video
from visil.errors import VideoError
from visil.video import Sampling, frames_at, probe, read_frames, samples_at, stream_frames

SIZE = (192, 256)


def save(folder: Path, names: list[str], first: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    for name, image in zip(names, stamped_frames(len(names), SIZE, first), strict=True):
        Image.fromarray(image).save(folder / name)
    return folder


def test_one_image_is_one_sample(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", ["a.png", "b.jpg", "c.webp", "d.bmp", "e.tif", "f.GIF", "g.JPEG"])
    with stream_frames(folder, Sampling(fps=2), batch_size=3) as stream:
        batches = list(stream)
        assert stream.duration == 3.5
        assert stream.damaged == 0
        assert (stream.info.width, stream.info.height, stream.info.duration) == (256, 192, 3.5)
    assert [len(batch) for batch in batches] == [3, 3, 1]
    assert read_stamps(np.concatenate([batch.images for batch in batches])) == list(range(7))
    assert np.concatenate([batch.timestamps for batch in batches]).tolist() == [k / 2 for k in range(7)]


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", ["frame1.png", "frame2.png", "frame10.png", "Frame11.png", "frame100.png"])
    assert read_stamps(read_frames(folder).images) == [0, 1, 2, 3, 4]


def test_other_files_are_passed_over(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", ["1.png", "2.png"])
    (folder / ".hidden.png").write_bytes(b"not an image")
    (folder / "notes.txt").write_text("x")
    (folder / "Thumbs.db").write_bytes(b"x")
    (folder / "3.png").mkdir()
    assert read_stamps(read_frames(folder).images) == [0, 1]


def test_one_image_file_is_a_video_of_one_frame(tmp_path: Path) -> None:
    save(tmp_path / "f", ["only.png"], first=9)
    frames = read_frames(tmp_path / "f" / "only.png")
    assert read_stamps(frames.images) == [9]
    assert frames.timestamps.tolist() == [0.0]
    assert probe(tmp_path / "f" / "only.png").codec == "png"


def test_images_of_different_sizes(tmp_path: Path) -> None:
    for index, size in enumerate([(100, 300), (300, 100), (7, 5), (1, 1), (2, 3000)]):
        Image.new("RGB", size[::-1], (90, 90, 90)).save(tmp_path / f"{index}.png")
    images = read_frames(tmp_path).images
    assert images.shape == (5, 224, 224, 3)
    assert np.abs(images.astype(int) - 90).max() <= 1


def centre(path: Path) -> list[int]:
    colour: NDArray[np.uint8] = read_frames(path).images[0, 112, 112]
    return [int(level) for level in colour]


@pytest.mark.parametrize(
    ("mode", "colour", "suffix", "expected"),
    [
        ("L", 77, "png", [77, 77, 77]),
        ("1", 1, "png", [255, 255, 255]),
        ("LA", (200, 128), "png", [100, 100, 100]),
        ("RGBA", (200, 100, 50, 255), "png", [200, 100, 50]),
        ("RGBA", (200, 100, 50, 0), "png", [0, 0, 0]),  # what is transparent comes out black
        ("CMYK", (0, 255, 255, 0), "tif", [255, 0, 0]),
        ("I;16", 50 * 257, "png", [50, 50, 50]),
        ("I;16", 50 * 257, "tif", [50, 50, 50]),
        ("I", 50 * 257, "tif", [50, 50, 50]),
        ("F", 0.5, "tif", [128, 128, 128]),
    ],
)
def test_kinds_of_pixels(
    tmp_path: Path, mode: str, colour: float | tuple[int, ...], suffix: str, expected: list[int]
) -> None:
    path = tmp_path / f"image.{suffix}"
    Image.new(mode, (40, 30), colour).save(path)
    assert centre(path) == pytest.approx(expected, abs=2)


def test_palettes(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), (200, 100, 50)).quantize(4).save(tmp_path / "palette.png")
    assert centre(tmp_path / "palette.png") == pytest.approx([200, 100, 50], abs=8)
    clear = Image.new("P", (40, 30), 0)
    clear.putpalette([200, 100, 50])
    clear.save(tmp_path / "clear.png", transparency=0)
    assert centre(tmp_path / "clear.png") == [0, 0, 0]


def test_exif_orientation(tmp_path: Path) -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    image[:, :40] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise for display
    Image.fromarray(image).save(tmp_path / "phone.jpg", exif=exif, quality=95)
    seen = read_frames(tmp_path / "phone.jpg").images[0]
    assert seen[20].mean() > 240
    assert seen[-20].mean() < 15
    assert (probe(tmp_path / "phone.jpg").width, probe(tmp_path / "phone.jpg").height) == (60, 80)


def test_a_broken_image_is_named_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = save(tmp_path / "f", ["1.png", "2.png", "3.png"])
    whole = (folder / "1.png").read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"not an image at all", whole[:20]):
        (folder / "1.png").write_bytes(broken)
        caplog.clear()
        with caplog.at_level(logging.WARNING, logger="visil"), stream_frames(folder) as stream:
            (frames,) = stream
        assert (read_stamps(frames.images), frames.timestamps.tolist()) == ([1, 2], [1.0, 2.0])
        assert (stream.damaged, stream.duration, stream.info.width) == (1, 3.0, 256)
        assert "1.png" in caplog.text
        assert read_stamps(frames_at(folder, [0.0], height=192), resize=192) == [1]


def test_a_folder_of_broken_images(tmp_path: Path) -> None:
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_text("not an image at all")
    for read in (read_frames, probe, lambda path: frames_at(path, [0])):
        with pytest.raises(VideoError) as caught:
            read(tmp_path)
        assert caught.value.path == str(tmp_path)
        assert ".png" in caught.value.reason


def test_a_folder_with_a_video_is_no_row_of_images(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", ["cover.png"])
    write_video(folder / "film.mp4", stamped_frames(5))
    with pytest.raises(VideoError, match=r"a folder of videos, not one video: name film\.mp4 in it"):
        read_frames(folder)


def test_a_broken_single_image(tmp_path: Path) -> None:
    path = tmp_path / "bad.jpg"
    path.write_bytes(b"\xff\xd8\xff\xe0 and then nothing")
    for read in (read_frames, probe, lambda path: frames_at(path, [0])):
        with pytest.raises(VideoError) as caught:
            read(path)
        assert caught.value.path == str(path)


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_decompression_bombs(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(60000, 60000))
    for read in (read_frames, probe):
        with pytest.raises(VideoError) as caught:
            read(path)
        assert caught.value.reason == "the image is too large to be meant"


def test_an_animated_gif_is_a_video(tmp_path: Path) -> None:
    frames = [Image.fromarray(image) for image in stamped_frames(4, SIZE)]
    path = tmp_path / "moving.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=500)
    assert read_stamps(read_frames(path).images) == [0, 2]


@pytest.mark.parametrize("name", ["moving.webp", "moving.png"])
def test_other_animated_images_are_videos(tmp_path: Path, name: str) -> None:
    first, *others = [Image.fromarray(image) for image in stamped_frames(6, SIZE)]
    path = tmp_path / name
    first.save(
        path, save_all=True, append_images=others, duration=[500, 500, 2000, 500, 500, 1000], lossless=True
    )
    with stream_frames(path) as stream:
        (frames,) = stream
    assert read_stamps(frames.images) == [0, 2, 2, 3, 5]
    assert stream.duration == pytest.approx(5.0)
    assert stream.info.codec == ("webp" if name.endswith("webp") else "apng")
    assert read_stamps(frames_at(path, [2.2, 0.6], height=192), resize=192) == [2, 1]
    assert probe(path).fps == stream.info.fps
    assert read_stamps(np.stack(samples_at(path, [4.5], Sampling()))) == [5]


BESIDE_A_VIDEO = """
import sys, threading
ready, begun, other = (threading.Event() for _ in range(3))

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "av._core":  # PyAV is begun
            begun.set()
            other.wait(1)
        elif name.startswith("av.") and threading.current_thread() is thread:
            other.set()

def read():
    from PIL import Image, WebPImagePlugin
    from visil.video import animations, stream_frames
    ready.set()
    begun.wait()
    with stream_frames(sys.argv[1]) as stream:
        print(sum(map(len, stream)))

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=read)
thread.start()
ready.wait()
import av
thread.join()
"""
"""Reads an animation while another thread has PyAV half imported, as reading a video does."""


def test_an_animation_beside_a_video_in_another_thread(tmp_path: Path) -> None:
    first, *others = [Image.fromarray(image) for image in stamped_frames(3, SIZE)]
    first.save(tmp_path / "moving.webp", save_all=True, append_images=others, duration=1000)
    words = [sys.executable, "-c", BESIDE_A_VIDEO, str(tmp_path / "moving.webp")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("name", ["large.webp", "large.gif"])
def test_pictures_that_take_much_memory_are_told(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, *others = [Image.fromarray(image) for image in stamped_frames(2, SIZE)]
    first.save(tmp_path / name, save_all=True, append_images=others, duration=1000)
    read_frames(tmp_path / name)
    assert caplog.messages == []
    monkeypatch.setattr("visil.video.frames.MOST_HELD", 500_000)
    read_frames(tmp_path / name)
    (told,) = caplog.messages
    assert re.fullmatch(r".*: frames of 256x192 pixels: decoding them takes some 0\.0 GB", told)


def test_a_damaged_animation(tmp_path: Path) -> None:
    first, *others = [Image.fromarray(image) for image in stamped_frames(6, SIZE)]
    path = tmp_path / "moving.webp"
    first.save(path, save_all=True, append_images=others, duration=1000, lossless=True)
    data = path.read_bytes()
    for size in (len(data) - 40, len(data) // 2, 60, 25):
        path.write_bytes(data[:size])
        with pytest.raises(VideoError, match="damaged"):
            read_frames(path)
    last = data.rindex(b"ANMF") + 40
    path.write_bytes(data[:last] + bytes(len(data) - last))
    with stream_frames(path) as stream:
        (frames,) = stream
    assert (read_stamps(frames.images), stream.damaged) == ([0, 1, 2, 3, 4], 1)


def test_thumbnails_of_a_folder(tmp_path: Path) -> None:
    folder = save(tmp_path / "f", ["1.png", "2.png", "3.png"])
    thumbnails = frames_at(folder, [2.0, 0.0, 99.0, 1.5], height=192)
    assert read_stamps(thumbnails, resize=192) == [2, 0, 2, 1]
    assert read_stamps(frames_at(folder, [0.5], height=192, fps=2), resize=192) == [1]
