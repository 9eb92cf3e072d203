"""A video in parts by time gives the frames of the whole, bit for bit, or is not split."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from synthetic import moving_scene, write_video
from visil.cluster.time_parts import CannotSplit, Part, PartStream, plan_parts
from visil.video import Frames, Sampling, stream_frames

SAMPLING = Sampling(fps=8, resize=64, crop=64)
PART = 32
SECONDS = 14

GOP = {"g": "20", "keyint_min": "20", "sc_threshold": "0", "bf": "3"}


@pytest.fixture(scope="module")
def scene() -> list[np.ndarray]:
    return list(moving_scene(3, SECONDS, 12, (64, 96)))


def whole(path: Path) -> tuple[list[Frames], float]:
    with stream_frames(path, SAMPLING, batch_size=32) as stream:
        return list(stream), stream.duration


def in_parts(path: Path, parts: list[Part]) -> tuple[list[Frames], float]:
    batches: list[Frames] = []
    joints = []
    for number, part in enumerate(parts):
        following = parts[number + 1] if number + 1 < len(parts) else None
        stream = PartStream(path, SAMPLING, part, following)
        batches += list(stream)
        joints.append(stream.joint)
    assert all(a.tail == b.head for a, b in pairwise(joints))
    return batches, stream.duration


def variable(count: int) -> list[float]:
    """Stamps of a variable rate, with a frame that is held for two seconds across a border."""
    steps = np.where(np.arange(count) % 7 < 3, 0.03, 0.11)
    steps[40] = 2.0
    return list(np.concatenate([[0.0], np.cumsum(steps)[:-1]]))


@pytest.mark.parametrize(
    ("name", "options", "container", "vary"),
    [
        ("closed.mp4", GOP, {}, False),
        ("open.mkv", GOP | {"x264-params": "open-gop=1:keyint=20:bframes=3"}, {}, False),
        ("no index.mp4", GOP, {"movflags": "frag_keyframe+empty_moov"}, False),
        ("variable.mp4", GOP, {}, True),
    ],
)
def test_the_parts_make_the_whole(
    name: str,
    options: dict[str, str],
    container: dict[str, str],
    vary: bool,
    scene: list[np.ndarray],
    tmp_path: Path,
) -> None:
    stamps = variable(len(scene)) if vary else None
    path = write_video(
        tmp_path / name, scene, 12, options=options, container_options=container, timestamps=stamps
    )
    parts = plan_parts(path, SAMPLING, PART)
    assert parts is not None
    assert len(parts) > 2
    expected, duration = whole(path)
    found, found_duration = in_parts(path, parts)
    assert found_duration == duration
    assert [len(batch) for batch in found] == [len(batch) for batch in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.images, other.images)
        np.testing.assert_array_equal(one.timestamps, other.timestamps)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("stamps may restart.ts", GOP),
        ("one key frame.mp4", GOP | {"g": "100000", "keyint_min": "100000"}),
        ("other container.avi", GOP | {"bf": "0"}),
    ],
)
def test_what_cannot_be_split_for_certain_is_not(
    name: str, options: dict[str, str], scene: list[np.ndarray], tmp_path: Path
) -> None:
    path = write_video(tmp_path / name, scene, 12, options=options)
    assert plan_parts(path, SAMPLING, PART) is None


def test_neither_short_videos_nor_those_sampled_by_count(scene: list[np.ndarray], tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mp4", scene, 12, options=GOP)
    assert plan_parts(path, SAMPLING, 64) is None
    assert plan_parts(path, Sampling(fps=8, mode="count"), PART) is None


def test_a_plan_that_is_wrong_is_found_out(scene: list[np.ndarray], tmp_path: Path) -> None:
    """A clock that is somewhere else, a first frame that is not there, a key frame that is later than said."""
    path = write_video(tmp_path / "clip.mp4", scene, 12, options=GOP)
    parts = plan_parts(path, SAMPLING, PART)
    assert parts is not None
    first, second = parts[0], parts[1]
    assert second.clock is not None
    assert second.first is not None
    late = second.clock | {"time": second.clock["time"] + 0.01}
    with pytest.raises(CannotSplit):
        list(PartStream(path, SAMPLING, first, dataclasses.replace(second, clock=late)))
    with pytest.raises(CannotSplit):
        list(PartStream(path, SAMPLING, dataclasses.replace(second, first=second.first + 1), parts[2]))
    with pytest.raises(CannotSplit):
        list(PartStream(path, SAMPLING, dataclasses.replace(second, key=-100_000), parts[2]))
