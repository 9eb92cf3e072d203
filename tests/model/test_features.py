"""What `VideoFeatures` accepts, and when a frame gives way to the next."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures


def features(timestamps: list[float], duration: float | None = None) -> VideoFeatures:
    times = torch.tensor(timestamps, dtype=torch.float64)
    return VideoFeatures(torch.zeros(len(timestamps), 9, 4), times, duration)


@pytest.mark.parametrize("shape", [(4,), (4, 9), (4, 9, 8, 1), (0, 9, 8), (4, 0, 8), (4, 9, 0)])
def test_vectors_must_be_frames_by_regions_by_channels(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"\[frames, regions, channels\]"):
        VideoFeatures(torch.zeros(shape), torch.arange(shape[0], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_vectors_must_be_floating_point(dtype: torch.dtype) -> None:
    with pytest.raises(UsageError, match="floating point"):
        VideoFeatures(torch.zeros(2, 1, 3, dtype=dtype), torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_float_type_is_taken_as_it_is(dtype: torch.dtype) -> None:
    made = VideoFeatures(torch.zeros(2, 1, 3, dtype=dtype), torch.tensor([0.0, 1.0]))
    assert made.vectors.dtype == dtype
    assert len(made) == 2


@pytest.mark.parametrize("times", [torch.zeros(0), torch.arange(2.0), torch.arange(4.0), torch.zeros(3, 1)])
def test_every_frame_needs_a_timestamp(times: Tensor) -> None:
    with pytest.raises(UsageError, match="3 frames need as many timestamps"):
        VideoFeatures(torch.zeros(3, 1, 2), times)


@pytest.mark.parametrize(
    "times", [[0.0, 2.0, 1.0], [0.0, 1.0, 1.0], [0.0, float("nan"), 2.0], [0.0, 1.0, float("inf")]]
)
def test_timestamps_rise(times: list[float]) -> None:
    with pytest.raises(UsageError, match="rise from frame to frame"):
        features(times)


def test_timestamps_may_begin_anywhere() -> None:
    assert features([-0.5, 0.5]).timestamps.tolist() == [-0.5, 0.5]
    assert features([100.0]).ends.tolist() == [101.0]


def test_a_frame_ends_where_the_next_begins() -> None:
    assert features([0.0, 1.0, 2.5, 3.5]).ends.tolist() == [1.0, 2.5, 3.5, 4.5]


def test_the_last_frame_lasts_the_usual_step() -> None:
    assert features([0.0, 0.5, 1.0, 9.0, 9.5]).ends[-1] == 10.0
    assert features([3.0]).ends.tolist() == [4.0]


def test_the_last_frame_ends_with_the_video() -> None:
    assert features([0.0, 1.0, 2.0], duration=2.25).ends.tolist() == [1.0, 2.0, 2.25]
    assert features([0.0, 1.0, 2.0], duration=30.0).ends.tolist() == [1.0, 2.0, 3.0]


def test_a_duration_that_cannot_be_is_passed_over() -> None:
    """A container may claim to end before its last frame."""
    assert features([0.0, 1.0, 2.0], duration=1.5).ends.tolist() == [1.0, 2.0, 3.0]
    assert features([0.0, 1.0, 2.0], duration=2.0).ends.tolist() == [1.0, 2.0, 3.0]


def test_whole_number_timestamps_lose_no_fraction() -> None:
    made = VideoFeatures(torch.zeros(3, 1, 2), torch.tensor([0, 1, 2]), duration=2.5)
    assert made.ends.tolist() == [1.0, 2.0, 2.5]


def test_frozen() -> None:
    made = features([0.0, 1.0])
    with pytest.raises(AttributeError):
        made.duration = 3.0  # type: ignore[misc]
