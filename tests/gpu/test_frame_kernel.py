"""The Tensor Dot and Chamfer kernel against Eq. 5 in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.kernels.triton_frames import FP8, frame_products, prepared, tile_for
from visil.model.similarity import Reduction, frame_matrix

FP16_TOLERANCE = 2e-3
"""Both operands are rounded to eleven bits; a product of unit vectors then differs by 1e-3 at most."""

FP8_TOLERANCE = 0.06
"""Four bits each: 2⁻⁴ of a product whose rounding errors all fall the same way."""


def videos(frames: int, regions: int, channels: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(torch.randn(frames, regions, channels, generator=generator), dim=-1)


def kernel(
    query: Tensor, target: Tensor, dtype: torch.dtype, outer: Reduction, symmetric: bool, device: torch.device
) -> Tensor:
    out = torch.full((len(query), len(target)), float("nan"), device=device)
    q, t = (prepared(video.to(device), dtype) for video in (query, target))
    return frame_products(q, t, out, outer=outer, symmetric=symmetric).squeeze(0).cpu()


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    x=st.integers(1, 20),
    y=st.sampled_from([1, 2, 63, 64, 65, 130]),
    regions=st.integers(1, 6),
    others=st.integers(1, 6),
    channels=st.sampled_from([3, 64, 70, 128, 192, 256]),
    outer=st.sampled_from(["mean", "max", "top2", "top3", "top4", "top5"]),
    symmetric=st.booleans(),
    dtype=st.sampled_from([torch.float16, FP8]),
    seed=st.integers(0, 1000),
)
def test_the_kernel_is_eq_5(
    device: torch.device,
    x: int,
    y: int,
    regions: int,
    others: int,
    channels: int,
    outer: Reduction,
    symmetric: bool,
    dtype: torch.dtype,
    seed: int,
) -> None:
    query, target = videos(x, regions, channels, seed), videos(y, others, channels, seed + 1)
    expected = frame_matrix(query.double(), target.double(), symmetric=symmetric, outer=outer)
    found = kernel(query, target, dtype, outer, symmetric, device)
    assert found.isfinite().all(), "every element is written"
    tolerance = FP8_TOLERANCE if dtype == FP8 else FP16_TOLERANCE
    assert (found - expected).abs().max() < tolerance


@pytest.mark.parametrize("channels", [128, 512])  # the query's tile stays where it is, or streams
def test_equal_frames(device: torch.device, channels: int) -> None:
    frame = videos(1, 9, channels, 0)
    found = kernel(frame.repeat(5, 1, 1), frame.repeat(3, 1, 1), torch.float16, "mean", False, device)
    assert found == pytest.approx(torch.ones(5, 3), abs=FP16_TOLERANCE)


def test_a_strided_output_beside_others(device: torch.device) -> None:
    query, target = videos(3, 2, 64, 1), videos(4, 2, 64, 2)
    whole = torch.full((5, 9), 7.0, device=device)
    part = whole[1:4, 2:6]
    frame_products(
        prepared(query.to(device), torch.float16), prepared(target.to(device), torch.float16), part
    )
    assert (part.cpu() - frame_matrix(query, target)).abs().max() < FP16_TOLERANCE
    part.fill_(7.0)
    assert (whole == 7.0).all(), "nothing beside it is written"


def test_many_pairs_at_once(device: torch.device) -> None:
    query = torch.stack([videos(5, 3, 64, i) for i in range(3)])
    target = torch.stack([videos(7, 4, 64, 10 + i) for i in range(3)])
    out = torch.full((3, 5, 7), float("nan"), device=device)
    which = torch.full((3, 3, 5, 7), 255, dtype=torch.uint8, device=device)
    q, t = (prepared(video.to(device), torch.float16) for video in (query, target))
    frame_products(q, t, out, which=which)
    for i in range(3):
        assert (out[i].cpu() - frame_matrix(query[i], target[i])).abs().max() < FP16_TOLERANCE
        products = torch.einsum("xrc,ysc->rxys", q[i].double(), t[i].double()).cpu()
        chosen = products.gather(3, which[i].cpu().long()[..., None])[..., 0]
        assert (products.amax(3) - chosen).abs().max() < 1e-5


def test_widths_that_differ(device: torch.device) -> None:
    q, t = prepared(videos(2, 2, 64, 0), torch.float16), prepared(videos(2, 2, 128, 0), torch.float16)
    with pytest.raises(UsageError, match="cannot compare"):
        frame_products(q.to(device), t.to(device), torch.empty(2, 2, device=device))


def test_a_tile_fits_the_shared_memory_it_is_chosen_for() -> None:
    for memory in (232_448, 166_912, 101_376):  # H200, A100, consumer cards
        for channels in (64, 128, 256, 512, 3840):
            for size in (1, 2):
                for few in (0, 1, 3, 5):
                    tile = tile_for(channels * (3 - size), size, few, memory)
                    held = tile.x * channels * (3 - size) * size if tile.resident else 0
                    streamed = tile.y * tile.channels * (2 if tile.resident else 1)
                    streamed += 0 if tile.resident else tile.x * tile.channels
                    assert held + streamed * size * tile.stages <= memory
