"""Frames that nobody needs are not decoded, and the samples are the same as if they were."""

from __future__ import annotations

from fractions import Fraction
from itertools import count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import read_stamps, stamped_frames, write_video
from visil.errors import UsageError
from visil.video import Sampling, read_frames, stream_frames
from visil.video.decoding import Decoder
from visil.video.sampling import Skipper

SMALL = Sampling(resize=256, crop=224)


def decoded(path: Path, sampling: Sampling, *, skip: bool = True) -> tuple[Any, list[float], float, int]:
    """Samples, their times, the duration, and how many frames the decoder gave out."""
    given_out = count()
    plain = Decoder.decode_on

    def counted(decoder: Decoder) -> Any:
        for frame in plain(decoder):
            next(given_out)
            yield frame

    def all_needed(_: Skipper, packets: Any) -> Any:
        return zip(packets, repeat(True), strict=False)

    with (
        patch.object(Decoder, "decode_on", counted),
        patch.object(Skipper, "packets", Skipper.packets if skip else all_needed),
        stream_frames(path, sampling) as stream,
    ):
        batches = list(stream)
    images = np.concatenate([batch.images for batch in batches])
    return (
        images,
        [t for batch in batches for t in batch.timestamps.tolist()],
        stream.duration,
        next(given_out),
    )


def same(path: Path, sampling: Sampling = SMALL) -> tuple[int, int]:
    """Frames given out with and without skipping, once both have the same samples."""
    images, times, duration, few = decoded(path, sampling)
    expected, expected_times, expected_duration, every = decoded(path, sampling, skip=False)
    assert np.array_equal(images, expected)
    assert times == expected_times
    assert duration == expected_duration
    return few, every


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", {"preset": "veryfast", "bf": "3"}),
        ("a.mkv", "libx264", {"preset": "veryfast", "bf": "2", "x264-params": "b-pyramid=none"}),
        ("a.ts", "libx264", {"preset": "veryfast", "bf": "3"}),
        ("a.mpg", "mpeg2video", {"bf": "2"}),
        ("a.mp4", "mpeg4", {"bf": "2"}),
    ],
)
def test_fewer_frames_the_same_samples(
    tmp_path: Path, name: str, codec: str, options: dict[str, str]
) -> None:
    path = write_video(tmp_path / name, stamped_frames(210), codec=codec, options=options)
    few, every = same(path)
    assert every == 210
    assert few < 170


@pytest.mark.parametrize("fps", [0.7, 3.0, 25.0])
def test_other_rates(tmp_path: Path, fps: float) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(120), options={"preset": "veryfast", "bf": "3"})
    few, every = same(path, Sampling(fps=fps))
    assert few == every if fps >= 25 else few < every


def test_variable_rate_and_held_frames(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    gaps = rng.choice([0.02, 0.04, 0.1, 0.5, 1.7], 150, p=[0.3, 0.5, 0.1, 0.05, 0.05])
    path = write_video(
        tmp_path / "a.mkv",
        stamped_frames(150),
        timestamps=np.cumsum(gaps).tolist(),
        time_base=Fraction(1, 1000),
        options={"preset": "veryfast", "bf": "3"},
    )
    same(path)


def test_codecs_without_such_frames(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.webm", stamped_frames(12), codec="libvpx")
    assert same(path) == (12, 12)


def test_fast_takes_frames_nearby(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(250), options={"preset": "veryfast", "bf": "3"})
    with stream_frames(path, SMALL, fast=True) as stream:
        images = np.concatenate([batch.images for batch in stream])
        assert stream.fast
    late = np.array(range(0, 250, 25)) - read_stamps(images)
    assert len(late) == 10
    assert (late >= 0).all()
    assert (late <= 4).all()
    with pytest.raises(UsageError, match="fast decoding"):
        stream_frames(path, Sampling(mode="count"), fast=True)


@settings(max_examples=60, deadline=None)
@given(
    gaps=st.lists(st.sampled_from([1, 2, 3, 7, 40, 400]), min_size=1, max_size=120),
    shuffled=st.integers(1, 6),
    fps=st.sampled_from([0.5, 1.0, 7.0]),
)
def test_every_frame_on_display_at_a_grid_time_is_needed(gaps: list[int], shuffled: int, fps: float) -> None:
    """Packets in order of decoding, some places from that of display; times against the plain definition."""
    tick = 0.01
    stamps = np.cumsum([0, *gaps]).tolist()
    order = [
        i
        for start in range(0, len(stamps), shuffled)
        for i in reversed(range(start, min(start + shuffled, len(stamps))))
    ]
    packets = [SimpleNamespace(pts=stamps[i]) for i in order]
    skipper = Skipper(fps, 1e-9, tick)
    skipper.offset = 0.0
    needed = {p.pts for p, needed in skipper.packets(iter(cast(Any, packets))) if p is not None and needed}
    for k in range(int(stamps[-1] * tick * fps) + 1):
        on_display = max(stamp for stamp in stamps if stamp * tick <= k / fps + 1e-9)
        assert on_display in needed


def test_reading_all_frames_still_does(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(60), options={"preset": "veryfast", "bf": "3"})
    assert read_stamps(read_frames(path, Sampling(fps=25)).images) == list(range(60))
