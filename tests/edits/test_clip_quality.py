"""Loss of quality against block means, torch's resizing, direct convolution, and Pillow's JPEG."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from visil.edits.clips import quality as lossy


def noise(*shape: int, seed: int = 2) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def picture(size: int = 64) -> Tensor:
    """Soft shapes with some detail, in whole 255ths, as a clip."""
    coarse = F.interpolate(noise(1, 3, 5, 5), (size, size), mode="bicubic")
    return ((coarse + 0.1 * noise(1, 3, size, size, seed=3)).clamp(0, 1) * 255).round()[None] / 255


def jpeg(clip: Tensor, quality: int, subsampling: int = 0) -> Tensor:
    image = Image.fromarray((clip[0, 0].permute(1, 2, 0) * 255).round().byte().numpy())
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality, subsampling=subsampling)
    return torch.from_numpy(np.array(Image.open(file))).permute(2, 0, 1)[None, None].float() / 255


def test_pixelation_shows_block_means() -> None:
    clips = noise(2, 2, 3, 24, 32)
    mosaic = lossy.pixelate(clips, torch.tensor([8, 5]))
    means = F.avg_pool2d(clips[0], 8)
    torch.testing.assert_close(mosaic[0], means.repeat_interleave(8, -1).repeat_interleave(8, -2))
    torch.testing.assert_close(mosaic[1, 0, :, 7, 31], clips[1, 0, :, 5:10, 30:32].mean(dim=(1, 2)))


def test_blur_is_a_gaussian_and_keeps_the_flat() -> None:
    clips = torch.zeros(2, 1, 3, 31, 31)
    clips[:, :, :, 15, 15] = 1
    spots = lossy.blur(clips, torch.tensor([1.0, 2.5]))
    at = torch.arange(31.0) - 15
    for spot, sigma in zip(spots, (1.0, 2.5), strict=True):
        line = torch.exp(-(at**2) / (2 * sigma**2))
        line /= line.sum()
        torch.testing.assert_close(spot[0, 0], line[:, None] * line, atol=1e-5, rtol=0)
    flat = torch.full((1, 1, 3, 20, 24), 0.7)
    torch.testing.assert_close(lossy.blur(flat, torch.tensor([4.0])), flat)
    assert torch.equal(lossy.blur(clips, torch.zeros(2)), clips)


@pytest.mark.parametrize("share", [0.25, 0.4, 1.0])
def test_lower_resolution_is_torchs_shrinking_and_growing(share: float) -> None:
    clips = noise(1, 2, 3, 40, 50)
    few = (round(40 * share), round(50 * share))
    small = F.interpolate(clips[0], few, mode="bilinear", antialias=True)
    expected = F.interpolate(small, (40, 50), mode="bilinear")
    torch.testing.assert_close(
        lossy.lower_resolution(clips, torch.tensor([share]))[0], expected, atol=1e-5, rtol=0
    )


def test_noise_is_gaussian_new_in_every_frame_and_decided_by_its_key() -> None:
    clips = torch.full((3, 2, 3, 64, 64), 0.5)
    keys = torch.tensor([7, 8, 7])
    loud = lossy.noise(clips, torch.tensor([0.1, 0.1, 0.05]), keys) - 0.5
    assert float(loud[0].mean()) == pytest.approx(0, abs=0.003)
    assert float(loud[0].std()) == pytest.approx(0.1, abs=0.002)
    assert float((loud[0].abs() < 0.1).float().mean()) == pytest.approx(0.6827, abs=0.01)
    torch.testing.assert_close(loud[2], loud[0] / 2, atol=1e-6, rtol=0)

    def correlation(a: Tensor, b: Tensor) -> float:
        return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])

    assert abs(correlation(loud[0], loud[1])) < 0.03
    assert abs(correlation(loud[0, 0], loud[0, 1])) < 0.03
    assert abs(correlation(loud[0, ..., 1:], loud[0, ..., :-1])) < 0.03
    assert abs(correlation(loud[0, :, 0], loud[0, :, 1])) < 0.03


@pytest.mark.parametrize("quality", [5, 10, 30, 50, 75, 95])
def test_recompression_is_pillows_jpeg(quality: int) -> None:
    clip = picture()
    ours, theirs = lossy.recompress(clip, torch.tensor([quality])), jpeg(clip, quality)
    lost = (theirs - clip).abs().mean()
    assert (ours - theirs).abs().mean() < min(0.004, 0.3 * float(lost))
    assert float((ours - clip).abs().mean()) == pytest.approx(float(lost), rel=0.1)


def test_halved_chroma_is_pillows_420() -> None:
    clip = picture()
    ours, theirs = (
        lossy.recompress(clip, torch.tensor([40]), halve_chroma=True),
        jpeg(clip, 40, subsampling=2),
    )
    assert (ours - theirs).abs().mean() < 0.004
    assert (ours - theirs).abs().mean() < 0.5 * (jpeg(clip, 40) - theirs).abs().mean()


def test_quality_is_each_clips_own_and_100_is_nearly_nothing() -> None:
    clip = picture()
    qualities = torch.tensor([100, 60, 20, 5])
    errors = (lossy.recompress(clip.expand(4, -1, -1, -1, -1), qualities) - clip).abs().mean(dim=(1, 2, 3, 4))
    assert errors[0] < 0.003
    assert errors.tolist() == sorted(errors.tolist())
    assert errors[3] > 10 * errors[0]


@pytest.mark.parametrize("halve", [False, True])
def test_sides_need_not_be_whole_blocks(halve: bool) -> None:
    clip = picture()[..., :43, :50]
    again = lossy.recompress(clip, torch.tensor([95]), halve_chroma=halve)
    assert again.shape == clip.shape
    assert (again - clip).abs().mean() < (0.05 if halve else 0.015)
