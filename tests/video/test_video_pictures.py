"""What a sample looks like: orientation, pixel shape, colour, odd and extreme sizes."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as pillow

from synthetic import difference, read_stamps, stamped_frames, write_video
from visil.errors import UsageError
from visil.video import Sampling, frames_at, probe, read_frames
from visil.video.pictures import (
    Converter,
    Orientation,
    Size,
    believable_pixel_aspect,
    middle,
    scaled_to_shorter,
)

Image = NDArray[np.uint8]
RED, GREEN, BLUE, WHITE = (200, 20, 20), (20, 200, 20), (20, 20, 200), (230, 230, 230)


def quarters(height: int, width: int) -> Image:
    """Red top left, green top right, blue bottom left, white bottom right."""
    image = np.zeros((height, width, 3), np.uint8)
    image[: height // 2, : width // 2] = RED
    image[: height // 2, width // 2 :] = GREEN
    image[height // 2 :, : width // 2] = BLUE
    image[height // 2 :, width // 2 :] = WHITE
    return image


def corners(image: Image) -> list[str]:
    """The colours of the four quarters in reading order."""
    height, width = image.shape[:2]
    names = []
    for y in (height // 4, height * 3 // 4):
        for x in (width // 4, width * 3 // 4):
            distance = {
                name: float(np.abs(image[y, x].astype(float) - colour).max())
                for name, colour in (("red", RED), ("green", GREEN), ("blue", BLUE), ("white", WHITE))
            }
            best = min(distance, key=lambda name: distance[name])
            assert distance[best] < 12, image[y, x]
            names.append(best)
    return names


UPRIGHT = ["red", "green", "blue", "white"]
# The picture turned counterclockwise by so many degrees.
TURNED = {
    0: UPRIGHT,
    90: ["green", "white", "red", "blue"],
    180: ["white", "blue", "green", "red"],
    270: ["blue", "red", "white", "green"],
}


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_rotation_flags_are_honoured(tmp_path: Path, degrees: int) -> None:
    path = write_video(tmp_path / "turned.mp4", [quarters(120, 160)] * 5, rotation=degrees)
    assert corners(read_frames(path).images[0]) == TURNED[degrees]
    info = probe(path)
    assert (info.width, info.height) == ((120, 160) if degrees in (90, 270) else (160, 120))


def test_a_phone_s_portrait_video_is_upright(tmp_path: Path) -> None:
    """The bytes that phones write: a track matrix of 0 1 -1 0, the sensor's picture turned clockwise."""
    path = write_video(tmp_path / "phone.mp4", [quarters(120, 160)] * 5)
    data = path.read_bytes()
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    clockwise = struct.pack(">9i", 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
    track_header = data.index(b"tkhd")
    at = data.index(identity, track_header)
    path.write_bytes(data[:at] + clockwise + data[at + 36 :])
    assert corners(read_frames(path).images[0]) == TURNED[270]


def test_mirrored_video(tmp_path: Path) -> None:
    path = write_video(tmp_path / "mirror.mp4", [quarters(120, 160)] * 5)
    data = path.read_bytes()
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    mirror = struct.pack(">9i", -(1 << 16), 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    at = data.index(identity, data.index(b"tkhd"))
    path.write_bytes(data[:at] + mirror + data[at + 36 :])
    assert corners(read_frames(path).images[0]) == ["green", "red", "white", "blue"]


def test_count_mode_leaves_frames_as_stored(tmp_path: Path) -> None:
    path = write_video(tmp_path / "turned.mp4", [quarters(120, 160)] * 5, rotation=90)
    assert corners(read_frames(path, Sampling(mode="count")).images[0]) == UPRIGHT


def test_a_slanted_or_broken_matrix_means_upright() -> None:
    slanted = struct.pack("=9i", 46341, 46341, 0, -46341, 46341, 0, 0, 0, 1 << 30)
    assert Orientation.from_display_matrix(slanted) == Orientation()
    assert Orientation.from_display_matrix(b"short") == Orientation()
    assert Orientation.from_display_matrix(bytes(36)) == Orientation()


def disc(height: int, width: int, squeeze: float) -> Image:
    """A disc as it looks once each pixel is ``squeeze`` times as wide as high."""
    y, x = np.ogrid[:height, :width]
    inside = ((x - width / 2) * squeeze) ** 2 + (y - height / 2) ** 2 < (height / 3) ** 2
    return np.where(inside[..., None], np.uint8(235), np.uint8(20)).repeat(3, axis=2)


def extent(image: Image) -> tuple[int, int]:
    """Width and height of what is bright."""
    bright = image[..., 1] > 128
    return int(bright.any(axis=0).sum()), int(bright.any(axis=1).sum())


@pytest.mark.parametrize("aspect", [Fraction(16, 11), Fraction(2), Fraction(1, 2), Fraction(1)])
def test_oblong_pixels_are_made_square(tmp_path: Path, aspect: Fraction) -> None:
    path = write_video(tmp_path / "sar.mp4", [disc(144, 176, float(aspect))] * 3, pixel_aspect=aspect)
    width, height = extent(read_frames(path).images[0])
    assert abs(width - height) <= 3
    assert probe(path).width == round(176 * aspect)
    assert probe(path).height == 144


def test_pixels_that_are_hardly_oblong_are_shown_as_they_are(tmp_path: Path) -> None:
    """Of 456 pixels made 455 each is a mixture of two."""
    stripes = np.full((120, 456, 3), 20, np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 235
    aspect = Fraction(512, 513)
    path = write_video(tmp_path / "near.mp4", [stripes] * 3, pixel_aspect=aspect, options={"crf": "1"})
    assert difference(frames_at(path, [0.0], 120)[0], stripes) < 5


def test_pixel_shape_and_rotation_together(tmp_path: Path) -> None:
    path = write_video(
        tmp_path / "both.mp4", [disc(144, 176, 2.0)] * 3, pixel_aspect=Fraction(2), rotation=90
    )
    width, height = extent(read_frames(path).images[0])
    assert abs(width - height) <= 3
    assert (probe(path).width, probe(path).height) == (144, 352)


def test_pixel_shapes_that_cannot_be_meant_are_square() -> None:
    assert believable_pixel_aspect(None) == 1
    assert believable_pixel_aspect(Fraction(1000, 1)) == 1
    assert believable_pixel_aspect(Fraction(0, 1)) == 1
    assert believable_pixel_aspect(Fraction(12, 11)) == Fraction(12, 11)


@pytest.mark.parametrize("colour", [(200, 60, 30), (30, 180, 60), (40, 50, 220), (250, 250, 250), (5, 5, 5)])
@pytest.mark.parametrize(("space", "color_range"), [(1, 1), (1, 2), (6, 1), (6, 2)])
def test_colours_come_back(tmp_path: Path, colour: tuple[int, ...], space: int, color_range: int) -> None:
    """BT.709 and BT.601, limited and full range."""
    solid = np.broadcast_to(np.array(colour, np.uint8), (96, 128, 3))
    path = write_video(tmp_path / "solid.mp4", [solid] * 2, colorspace=space, color_range=color_range)
    image = read_frames(path).images[0].astype(int)
    assert np.abs(image - colour).max() <= 4


def test_full_range_by_its_tag_alone() -> None:
    """libx264's full range has a pixel format of its own; VP9 and others only carry a tag."""
    colour = np.array((200, 60, 30), np.uint8)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.broadcast_to(colour, (96, 128, 3))), "rgb24")
    full = frame.reformat(format="yuv420p", dst_colorspace=1, dst_color_range=2)
    assert (full.format.name, full.color_range) == ("yuv420p", 2)
    assert np.abs(Converter(Fraction(1)).square(full, 64, 32).astype(int) - colour).max() <= 4


def test_untagged_high_definition_is_bt709(tmp_path: Path) -> None:
    colour = np.array((200, 60, 30), np.uint8)
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(np.broadcast_to(colour, (720, 1280, 3))), "rgb24")
    untagged = frame.reformat(format="yuv420p", dst_colorspace=1)
    untagged.colorspace = 2
    assert np.abs(Converter(Fraction(1)).square(untagged, 64, 32).astype(int) - colour).max() <= 4


@pytest.mark.parametrize(
    ("codec", "pix_fmt", "name"),
    [
        ("libx265", "yuv420p10le", "a.mp4"),
        ("ffv1", "yuv422p10le", "a.mkv"),
        ("ffv1", "gray", "a.mkv"),
        ("ffv1", "yuva420p", "a.mkv"),
        ("libx264rgb", "rgb24", "a.mkv"),
        ("prores_ks", "yuv444p10le", "a.mov"),
        ("png", "rgb24", "a.mov"),
        ("libx264", "yuv444p", "a.mp4"),
        ("rawvideo", "bgr24", "a.avi"),
    ],
)
def test_pixel_formats(tmp_path: Path, codec: str, pix_fmt: str, name: str) -> None:
    path = write_video(tmp_path / name, stamped_frames(30), codec=codec, pix_fmt=pix_fmt)
    assert read_stamps(read_frames(path).images) == [0, 25]
    assert read_stamps(read_frames(path, Sampling(mode="count")).images) == [0, 25]


def test_odd_sizes(tmp_path: Path) -> None:
    size = (179, 321)
    path = write_video(tmp_path / "odd.mkv", stamped_frames(30, size), pix_fmt="yuv444p")
    assert read_stamps(read_frames(path).images, source=size) == [0, 25]
    assert (probe(path).width, probe(path).height) == (321, 179)


@pytest.mark.parametrize("size", [(2, 4096), (4096, 2), (16, 10000), (2, 2), (1, 1), (1, 500)])
@pytest.mark.parametrize("mode", ["time", "count"])
def test_extreme_shapes_stay_small(tmp_path: Path, size: tuple[int, int], mode: str) -> None:
    frames = np.full((*size, 3), 90, np.uint8)
    path = write_video(tmp_path / "strip.mkv", [frames] * 2, codec="ffv1", pix_fmt="yuv444p")
    image = read_frames(path, Sampling(mode=mode)).images[0]  # type: ignore[arg-type]
    assert image.shape == (224, 224, 3)
    assert np.abs(image.astype(int) - 90).max() <= 3


def test_a_strip_is_cut_before_it_is_enlarged(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[Size] = []
    rgb = Converter._rgb

    def watched(self: Converter, frame: av.VideoFrame, size: Size, *rest: object) -> Image:
        sizes.append(size)
        return rgb(self, frame, size, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Converter, "_rgb", watched)
    Converter(Fraction(1)).square(av.VideoFrame(10000, 16, "yuv420p"), 256, 224)
    assert max(size.width * size.height for size in sizes) <= 4 * 256 * 256


def test_the_middle_of_a_strip_is_its_middle() -> None:
    rows, columns = middle(10000, 16)
    assert (rows, columns) == (slice(0, 16), slice(4968, 5032))
    rows, columns = middle(16, 10000)
    assert (rows, columns) == (slice(4968, 5032), slice(0, 16))


def test_the_shorter_side_is_exact() -> None:
    assert scaled_to_shorter(1920, 1080, 256) == Size(455, 256)
    assert scaled_to_shorter(1080, 1920, 256) == Size(256, 455)
    assert scaled_to_shorter(100, 100, 256) == Size(256, 256)


def test_a_resolution_that_changes_midway(tmp_path: Path) -> None:
    small = write_video(tmp_path / "1.ts", stamped_frames(50, (192, 256)))
    later = [2 + n / 25 for n in range(50)]
    large = write_video(tmp_path / "2.ts", stamped_frames(50, (384, 288), first=50), timestamps=later)
    joined = tmp_path / "joined.ts"
    joined.write_bytes(small.read_bytes() + large.read_bytes())
    images = read_frames(joined).images
    assert images.shape == (4, 224, 224, 3)
    assert read_stamps(images[:2]) == [0, 25]
    assert read_stamps(images[3:], source=(384, 288)) == pytest.approx([75], abs=2)


def test_the_centre_is_cropped_where_the_authors_crop() -> None:
    from visil.video.pictures import centre_crop

    image = np.arange(256 * 455 * 3, dtype=np.uint64).astype(np.uint8).reshape(256, 455, 3)
    assert np.array_equal(centre_crop(image, 224), image[16:240, 115:339])


@pytest.mark.parametrize(("height", "width"), [(144, 352), (352, 144), (160, 160)])
@pytest.mark.parametrize(
    ("rotation", "corners"), [(0, (RED, GREEN, BLUE, WHITE)), (180, (WHITE, BLUE, GREEN, RED))]
)
def test_the_whole_frame_is_pressed_into_the_square(
    tmp_path: Path, height: int, width: int, rotation: int, corners: tuple[tuple[int, int, int], ...]
) -> None:
    path = write_video(tmp_path / "wide.mp4", [quarters(height, width)] * 3, rotation=rotation)
    (image,) = read_frames(path, Sampling(crop=96, fit="whole")).images
    assert image.shape == (96, 96, 3)
    for corner, colour in zip(
        (np.s_[:44, :44], np.s_[:44, 52:], np.s_[52:, :44], np.s_[52:, 52:]), corners, strict=True
    ):
        assert np.abs(image[corner].astype(int) - colour).max() < 40


def test_a_whole_image_is_pressed_into_the_square(tmp_path: Path) -> None:
    pillow.fromarray(quarters(100, 300)).save(tmp_path / "wide.png")
    (image,) = read_frames(tmp_path / "wide.png", Sampling(crop=80, fit="whole")).images
    assert np.abs(image[[4, 4, 74, 74], [4, 74, 4, 74]].astype(int) - [RED, GREEN, BLUE, WHITE]).max() < 6


def test_the_authors_cut_the_centre() -> None:
    with pytest.raises(UsageError, match="fit must be 'crop'"):
        Sampling(mode="count", fit="whole")


def test_a_stream_s_frames_are_asked_once_how_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that is asked stays in memory until garbage is collected."""
    asked: list[object] = []

    def counted(frame: object) -> object:
        asked.append(frame)
        return Orientation()

    monkeypatch.setattr("visil.video.pictures.orientation_of", counted)
    path = write_video(tmp_path / "still.mp4", [np.zeros((48, 64, 3), np.uint8)] * 40, fps=5)
    assert len(read_frames(path)) == 8
    assert len(asked) == 1
