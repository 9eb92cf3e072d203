"""Demo videos: scenes from photographs, edits that do what they say, files that are whole."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("skimage")

from visil.demo import (
    Edit,
    between,
    border,
    colour,
    crop,
    cut,
    edited,
    inset,
    make_pair,
    mirror,
    overlay,
    photograph,
    photographs,
    recode,
    render_scene,
    scenes,
    speed,
    write_video,
)
from visil.errors import UsageError
from visil.video import Image, frames_at, probe, read_frames

SMALL = (128, 72)


def shots(seconds: float = 1.0, name: str = "coffee", seed: int = 0) -> list[Image]:
    return list(render_scene(photograph(name), seconds, 10, SMALL, seed))


def numbered(count: int) -> list[Image]:
    """Frames that can be told apart by their value."""
    return [np.full((4, 6, 3), i, np.uint8) for i in range(count)]


def numbers(frames: Iterator[Image]) -> list[int]:
    return [int(frame[0, 0, 0]) for frame in frames]


def same(a: list[Image], b: list[Image]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def difference(a: Image, b: Image) -> float:
    return float(np.abs(a.astype(int) - b.astype(int)).mean())


# ---------------------------------------------------------------------- scenes


def test_photographs_are_files_of_the_package_with_names_of_their_own() -> None:
    found = photographs()
    assert len(found) >= 12
    assert len({photo.name for photo in found}) == len(found)
    assert all(photo.path.is_file() for photo in found)
    with pytest.raises(UsageError, match=r"'zebra'; there are .*coffee"):
        photograph("zebra")


def test_without_scikit_image_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'visil\[demo\]'"):
        photographs()


def test_scikit_image_is_not_imported() -> None:
    code = "import sys; from visil.demo import photographs; photographs(); sys.exit('skimage' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


@pytest.mark.parametrize("name", [photo.name for photo in photographs()])
def test_every_photograph_can_be_filmed(name: str) -> None:
    frames = list(render_scene(photograph(name), 0.5, 4, SMALL))
    assert len(frames) == 2
    assert frames[0].shape == (72, 128, 3)
    assert frames[0].dtype == np.uint8
    assert frames[0].std() > 5


def test_the_camera_moves_smoothly_and_never_leaves_the_picture() -> None:
    frames = shots(3)
    steps = [difference(a, b) for a, b in pairwise(frames)]
    assert min(steps) > 0
    assert max(steps) < difference(frames[0], frames[-1])
    # Outside the picture is black; coffee.png has next to nothing that dark along its edges.
    for seed in range(6):
        for frame in shots(1, seed=seed)[::3]:
            assert (frame.max(axis=-1) == 0).mean() < 0.01


def test_the_same_seed_gives_the_same_frames_and_another_gives_others() -> None:
    assert same(shots(seed=3), shots(seed=3))
    assert difference(shots(seed=3)[0], shots(seed=4)[0]) > 5


def test_a_part_of_a_scene_is_the_scene_cut() -> None:
    part = list(render_scene(photograph("coffee"), 2, 10, SMALL, part=(0.5, 1.2)))
    assert same(part, list(edited(shots(2), cut(0.5, 1.2, 10))))
    assert len(part) == 7


@pytest.mark.parametrize(("seconds", "size"), [(0, SMALL), (-1, SMALL), (1, (0, 10))])
def test_scenes_without_frames_are_refused(seconds: float, size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="at least one frame"):
        render_scene(photograph("coffee"), seconds, 10, size)


# ---------------------------------------------------------------------- edits


def test_mirror_swaps_left_and_right_and_twice_is_nothing() -> None:
    frames = shots()
    flipped = list(edited(frames, mirror()))
    assert np.array_equal(flipped[0][:, 0], frames[0][:, -1])
    assert same(list(edited(flipped, mirror())), frames)


def test_cut_keeps_what_lies_between_two_times() -> None:
    assert numbers(edited(numbered(20), cut(0.5, 1.2, 10))) == [5, 6, 7, 8, 9, 10, 11]


@pytest.mark.parametrize(
    ("factor", "kept"), [(2, [0, 2, 4]), (1, [0, 1, 2, 3, 4, 5]), (0.5, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])]
)
def test_speed_leaves_frames_out_or_repeats_them(factor: float, kept: list[int]) -> None:
    assert numbers(edited(numbered(6), speed(factor))) == kept


def test_speed_changes_the_length_by_its_factor() -> None:
    assert len(list(edited(numbered(250), speed(1.25)))) == 200


def test_between_puts_footage_around() -> None:
    assert numbers(edited(numbered(3)[1:], between(numbered(1), numbered(2)))) == [0, 1, 2, 0, 1]


def test_crop_enlarges_a_part() -> None:
    frame = np.zeros((40, 80, 3), np.uint8)
    frame[:20, :40] = 200
    (corner,) = edited([frame], crop(0.5, 0, 0))
    assert corner.shape == frame.shape
    assert corner[:38, :78].min() == 200
    (other,) = edited([frame], crop(0.4, 1, 1))
    assert other.max() == 0
    assert same(list(edited([frame], crop(1.0))), [frame])


def test_colour_grades() -> None:
    frame = shots()[0]
    (dark,) = edited([frame], colour(brightness=0.5))
    assert abs(dark.mean() - frame.mean() / 2) < 1
    (grey,) = edited([frame], colour(saturation=0))
    assert np.ptp(grey, axis=-1).max() == 0
    (flat,) = edited([frame], colour(contrast=0.5))
    assert flat.std() < frame.std()
    assert same(list(edited([frame], colour())), [frame])


def test_overlay_covers_a_box_and_nothing_else() -> None:
    frame = np.full((100, 300, 3), 77, np.uint8)
    (covered,) = edited([frame], overlay("HELLO", 0, 1, height=0.2, fill=(10, 20, 200)))
    changed = (covered != frame).any(axis=-1)
    rows, columns = np.nonzero(changed)
    assert (rows.min(), rows.max(), columns.min()) == (80, 99, 0)
    assert 20 < columns.max() < 200
    assert (covered[80:, : columns.max()] > 240).all(axis=-1).any()  # its letters
    assert (frame == 77).all()
    (narrow,) = edited([frame[:, :10]], overlay("much too long for this", height=0.2))
    assert narrow.shape == (100, 10, 3)


def test_border_frames_the_picture() -> None:
    frame = np.full((50, 100, 3), 90, np.uint8)
    (framed,) = edited([frame], border(0.2, (1, 2, 3)))
    assert framed[0, 0].tolist() == [1, 2, 3]
    assert (framed[5:45, 10:90] == 90).all()
    assert (framed[:5] == (1, 2, 3)).all()


def test_inset_shows_one_video_inside_another() -> None:
    around = [np.zeros((50, 100, 3), np.uint8)] * 3
    shown = list(edited([np.full((20, 20, 3), 255, np.uint8)] * 9, inset(around, 0.4, 1, 0)))
    assert len(shown) == 3
    assert (shown[0][:20, 60:] == 255).all()
    assert shown[0].mean() == pytest.approx(255 * 0.16)


def test_recode_keeps_every_frame_and_loses_detail_with_the_bits() -> None:
    frames = shots(2)
    fine, coarse = list(edited(frames, recode(2_000_000, 10))), list(edited(frames, recode(15_000, 10)))
    assert len(fine) == len(coarse) == len(frames)
    for i in (1, 10, 19):
        assert difference(fine[i], frames[i]) < difference(coarse[i], frames[i])
        assert difference(fine[i], frames[i]) < 5
        assert difference(coarse[i], frames[i]) < difference(coarse[i], frames[(i + 10) % 20])


def test_edits_take_frames_one_at_a_time() -> None:
    taken = 0

    def source() -> Iterator[Image]:
        nonlocal taken
        for frame in shots(2):
            taken += 1
            yield frame

    chain = edited(source(), crop(0.8), mirror(), colour(0.9), overlay("x"), border(0.1), speed(1.5))
    assert taken == 0
    next(chain)
    assert taken == 1


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: crop(0),
        lambda: crop(1.5),
        lambda: crop(0.5, -1),
        lambda: speed(0),
        lambda: cut(3, 2),
        lambda: border(1.0),
        lambda: colour(-1),
        lambda: overlay("x", height=0),
        lambda: recode(0),
    ],
)
def test_edits_that_cannot_be_meant_are_refused(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(UsageError):
        wrong()


# ---------------------------------------------------------------------- files


def test_a_written_video_can_be_read(tmp_path: Path) -> None:
    frames = shots(3)
    path = write_video(tmp_path / "clip.mp4", frames, 10)
    info = probe(path)
    assert (info.width, info.height) == SMALL
    assert info.fps == pytest.approx(10)
    assert info.duration == pytest.approx(3.0, abs=0.01)
    assert info.codec == "h264"
    assert len(read_frames(path)) == 3
    assert difference(frames_at(path, [2.0], SMALL[1])[0], frames[20]) < 12
    assert [entry.name for entry in tmp_path.iterdir()] == ["clip.mp4"]


def test_the_same_frames_give_the_same_file(tmp_path: Path) -> None:
    a, b = (write_video(tmp_path / name, shots(), 10) for name in ("a.mp4", "b.mp4"))
    assert a.read_bytes() == b.read_bytes()


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Image]:
        yield from shots()
        raise RuntimeError("the camera broke")

    with pytest.raises(RuntimeError, match="camera"):
        write_video(tmp_path / "a.mp4", failing(), 10)
    with pytest.raises(UsageError, match="at least one frame"):
        write_video(tmp_path / "a.mp4", [], 10)
    with pytest.raises(UsageError, match="even width and height"):
        write_video(tmp_path / "a.mp4", [np.zeros((5, 6, 3), np.uint8)], 10)
    with pytest.raises(UsageError, match="frame 1 is 4×4×3, the first was 8×8×3"):
        write_video(tmp_path / "a.mp4", [np.zeros((n, n, 3), np.uint8) for n in (8, 4)], 10)
    with pytest.raises(UsageError, match=r"cannot be written as \.nonsense"):
        write_video(tmp_path / "a.nonsense", shots(), 10)
    with pytest.raises(UsageError, match="its folder does not exist"):
        write_video(tmp_path / "nowhere" / "a.mp4", shots(), 10)
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- the pair


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "new"
    make_pair(folder, size=SMALL, fps=10)
    return folder


def test_the_pair_is_as_long_as_it_says(pair_folder: Path) -> None:
    pair = make_pair(pair_folder, size=SMALL, fps=10)
    lengths = []
    for path in (pair.query, pair.target):
        info = probe(path)
        assert info.duration is not None
        lengths.append(info.duration)
    assert lengths == pytest.approx([40, 60], abs=0.01)
    assert len(pair.truth) == 2
    for (start, end), length in (
        (span, n) for both in pair.truth for span, n in zip(both, lengths, strict=True)
    ):
        assert 0 <= start < end <= length
    (first, copied), (second, faster) = pair.truth
    assert copied[1] - copied[0] == pytest.approx(first[1] - first[0])
    assert (second[1] - second[0]) / (faster[1] - faster[0]) == pytest.approx(1.25)


def test_the_pair_shows_the_same_where_it_says_so(pair_folder: Path) -> None:
    """Thumbnails, edited alike, agree best when neither stretch is shifted."""
    pair = make_pair(pair_folder, size=SMALL, fps=10)

    def looks(path: Path, stretch: tuple[float, float], *edits: Edit) -> NDArray[np.float64]:
        start, end = stretch
        times = [start + share * (end - start) for share in np.linspace(0.04, 0.96, 14)]
        pictures = np.stack(list(edited(frames_at(path, times, SMALL[1]), *edits))).mean(axis=-1)[:, 8:60]
        pictures = pictures - pictures.mean(axis=(1, 2), keepdims=True)
        return np.asarray(pictures / pictures.std(axis=(1, 2), keepdims=True))

    for (query, target), edit in zip(pair.truth, (crop(0.8, 0.4, 0.3), border(0.12)), strict=True):
        shown = looks(pair.query, query, edit)
        agreement = {
            shift: np.median(
                (shown * looks(pair.target, (target[0] + shift, target[1] + shift))).mean(axis=(1, 2))
            )
            for shift in (-8, -4, -1, 0, 1, 4, 8)
        }
        assert agreement[0] > 0.9
        assert max(value for shift, value in agreement.items() if shift) < 0.75


def test_files_that_are_there_stay_and_missing_ones_come_back(pair_folder: Path) -> None:
    pair = make_pair(pair_folder, size=SMALL, fps=10)
    before = pair.query.stat().st_mtime_ns
    written = pair.target.read_bytes()
    pair.target.unlink()
    make_pair(pair_folder, size=SMALL, fps=10)
    assert pair.query.stat().st_mtime_ns == before
    assert pair.target.read_bytes() == written


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        make_pair(tmp_path / "file", size=SMALL, fps=10)
