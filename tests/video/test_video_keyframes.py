"""Key frames alone: the nearest one for each second, and all frames where key frames are far apart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest

from visil.errors import UsageError
from visil.video import Sampling, stream_frames
from visil.video.decoding import Decoder

FPS = 10
SAMPLING = Sampling(resize=32, crop=32)


def counting_video(path: Path, seconds: int, keys_every: float) -> Path:
    """Frames whose grey says when they are shown: 8 levels a second; a key frame every so many seconds."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        gop = round(keys_every * FPS)
        stream.options = {"g": str(gop), "keyint_min": str(gop), "sc_threshold": "0", "bf": "2"}
        for number in range(seconds * FPS):
            grey = np.full((64, 64, 3), 20 + round(8 * number / FPS), np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(grey, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode():
            container.mux(packet)
    return path


def seconds_shown(path: Path, keyframes: bool) -> tuple[list[float], list[float], float]:
    """The times of the samples, when what they show was shown, and the duration."""
    with stream_frames(path, SAMPLING, keyframes=keyframes) as stream:
        batches = list(stream)
    greys = np.concatenate([batch.images.mean(axis=(1, 2, 3)) for batch in batches])
    times = np.concatenate([batch.timestamps for batch in batches])
    return times.tolist(), ((greys - 20) / 8).tolist(), stream.duration


def test_each_second_has_the_nearest_key_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = counting_video(tmp_path / "v.mp4", 12, keys_every=2.5)
    decoded = []
    real = Decoder.decode_on

    def counted(self: Decoder) -> Iterator[av.VideoFrame]:
        for frame in real(self):
            decoded.append(frame)
            yield frame

    monkeypatch.setattr(Decoder, "decode_on", counted)
    times, shown, duration = seconds_shown(path, keyframes=True)
    assert len(decoded) == 5
    assert times == [float(second) for second in range(12)]
    expected = [0, 0, 2.5, 2.5, 5, 5, 5, 7.5, 7.5, 10, 10, 10]
    assert shown == pytest.approx(expected, abs=0.3)
    assert duration == pytest.approx(12, abs=0.11)


def test_far_from_key_frames_the_frame_itself(tmp_path: Path) -> None:
    path = counting_video(tmp_path / "v.mp4", 12, keys_every=100)
    times, shown, duration = seconds_shown(path, keyframes=True)
    exactly = seconds_shown(path, keyframes=False)
    assert times == exactly[0]
    assert shown == pytest.approx(exactly[1], abs=0.3)
    assert duration == pytest.approx(exactly[2], abs=0.01)


def test_a_file_cut_short_ends_where_it_ends(tmp_path: Path) -> None:
    path = counting_video(tmp_path / "v.mkv", 20, keys_every=2)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    exactly = seconds_shown(path, keyframes=False)
    assert exactly[2] < 19
    assert seconds_shown(path, keyframes=True)[2] == pytest.approx(exactly[2], abs=0.3)


def test_not_with_the_authors_sampling(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mode 'time' only"):
        stream_frames(tmp_path / "v.mp4", Sampling(mode="count"), keyframes=True)
