"""What attention looks at, drawn over frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from visil.errors import UsageError
from visil.plots import plot_attention
from visil.plots.attention_figure import smooth, weight_maps


def test_attention_is_red_where_the_weight_is_high(tmp_path: Path) -> None:
    frames = np.full((2, 90, 160, 3), 128, np.uint8)
    weights = np.zeros((2, 9))
    weights[0, 0], weights[1, 8] = 1, 1
    plot_attention(frames, weights, tmp_path / "attention.png")
    picture = np.asarray(Image.open(tmp_path / "attention.png").convert("RGB")).astype(int)
    warmth = picture[..., 0] - picture[..., 2]
    height, width = warmth.shape
    lower = warmth[height // 2 : -10, : int(width * 0.8)]
    hot = np.nonzero(lower[: lower.shape[0] // 3] > 60)[1]
    assert hot.size
    assert hot.max() < width * 0.35
    assert (np.nonzero(lower[2 * lower.shape[0] // 3 :] > 60)[1] > width * 0.35).all()
    assert (
        warmth[10 : height // 2 - 10, 10 : int(width * 0.8)] == 0
    ).all()  # the frames above are as they were


def test_the_finest_level_of_regions_is_drawn() -> None:
    weights = np.arange(14.0)[None]
    assert weight_maps(weights, None).tolist() == [[[5, 6, 7], [8, 9, 10], [11, 12, 13]]]
    assert weight_maps(weights[:, :9], None).shape == (1, 3, 3)
    assert weight_maps(weights[:, :13], None).shape == (1, 3, 3)
    assert weight_maps(weights, 2).tolist() == [[[10, 11], [12, 13]]]
    for regions, grid in ((7, None), (9, 4), (9, 0)):
        with pytest.raises(UsageError, match=f"{regions} regions"):
            weight_maps(weights[:, :regions], grid)


def test_weights_are_smooth_between_regions() -> None:
    large = smooth(np.array([[0.0, 1.0], [0.0, 1.0]]), 20, 40)
    assert large.shape == (20, 40)
    assert (np.diff(large[10]) >= -1e-6).all()
    assert np.abs(np.diff(large[10])).max() < 0.15


def test_attention_takes_at_most_eight_frames_and_checks_what_it_gets(tmp_path: Path) -> None:
    frames = np.zeros((30, 20, 20, 3), np.uint8)
    plot_attention(frames, np.ones((30, 9)), tmp_path / "many.jpg")
    assert (tmp_path / "many.jpg").read_bytes().startswith(b"\xff\xd8\xff")
    with pytest.raises(UsageError, match="uint8"):
        plot_attention(frames[0], np.ones((30, 9)), tmp_path / "a.png")
    with pytest.raises(UsageError, match="weights must be finite"):
        plot_attention(frames, np.ones((3, 9)), tmp_path / "a.png")
    with pytest.raises(UsageError, match="weights must be finite"):
        plot_attention(frames, np.full((30, 9), np.nan), tmp_path / "a.png")
    assert [entry.name for entry in tmp_path.iterdir()] == ["many.jpg"]
