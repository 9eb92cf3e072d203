"""L_N-iMAC and the descriptors of Table 2 against loops over cells, in float64."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, sqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.model import regions

Array = NDArray[np.float64]


def unit(vector: Array) -> Array:
    norm = sqrt(sum(float(v) ** 2 for v in vector))
    return vector / max(norm, 1e-12)


def largest(stage: Array, top: int, left: int, height: int, width: int) -> Array:
    """The maximum of each channel over one window of [C, H, W], cell by cell."""
    best = stage[:, top, left].copy()
    for i in range(top, top + height):
        for j in range(left, left + width):
            for c in range(len(stage)):
                best[c] = max(best[c], stage[c, i, j])
    return best


def imac_by_loops(maps: Sequence[Array], windows: Sequence[tuple[int, int]], level: int) -> Array:
    """Sec. 4.1 for one frame; ``windows`` gives each stage's kernel and stride."""
    vectors = []
    for i in range(level):
        for j in range(level):
            parts = [
                unit(largest(stage, i * stride, j * stride, kernel, kernel))
                for stage, (kernel, stride) in zip(maps, windows, strict=True)
            ]
            vectors.append(unit(np.concatenate(parts)))
    return np.stack(vectors)


def stages(sizes: Sequence[tuple[int, int, int]], batch: int = 2, seed: int = 0) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.normal(size=(batch, *size))) for size in sizes]


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize(("size", "kernel", "stride"), [(56, 28, 14), (28, 14, 7), (14, 6, 3), (7, 3, 2)])
def test_the_authors_windows_at_224_pixels(size: int, kernel: int, stride: int) -> None:
    assert regions.region_windows(size, 3) == (kernel, [0, stride, 2 * stride])


@settings(deadline=None)
@given(size=st.integers(1, 130), level=st.integers(1, 5))
def test_windows_of_any_map_lie_inside_it(size: int, level: int) -> None:
    length, starts = regions.region_windows(size, level)
    assert len(starts) == level
    assert length >= 1
    assert starts[0] == 0
    assert starts == sorted(starts)
    assert starts[-1] + length <= size


@settings(deadline=None)
@given(size=st.integers(1, 130), level=st.integers(1, 5))
def test_windows_leave_no_gap(size: int, level: int) -> None:
    """Where the map has a cell for every window, each cell but a last few lies in one."""
    length, starts = regions.region_windows(size, level)
    steps = [b - a for a, b in pairwise(starts)]
    if size >= level:
        assert all(1 <= step <= max(length, ceil(size / level)) for step in steps)
    assert size - (starts[-1] + length) < ceil(length / 2)


@settings(max_examples=40, deadline=None)
@given(
    height=st.integers(1, 16), width=st.integers(1, 16), level=st.integers(1, 5), seed=st.integers(0, 1000)
)
def test_regional_max_on_any_map(height: int, width: int, level: int, seed: int) -> None:
    stage = stages([(3, height, width)], batch=1, seed=seed)[0]
    actual = regions.regional_max(stage, level)
    assert actual.shape == (1, 3, level, level)
    tall, rows = regions.region_windows(height, level)
    wide, columns = regions.region_windows(width, level)
    for i, top in enumerate(rows):
        for j, left in enumerate(columns):
            expected = largest(stage[0].numpy(), top, left, tall, wide)
            np.testing.assert_array_equal(actual[0, :, i, j].numpy(), expected)


# ---------------------------------------------------------------- L_N-iMAC


def test_l3_imac_on_the_maps_of_resnet50() -> None:
    maps = stages([(2, 56, 56), (3, 28, 28), (4, 14, 14), (5, 7, 7)])
    actual = regions.imac(maps)
    assert actual.shape == (2, 9, 14)
    for frame in range(2):
        windows = [(28, 14), (14, 7), (6, 3), (3, 2)]
        expected = imac_by_loops([m[frame].numpy() for m in maps], windows, 3)
        np.testing.assert_allclose(actual[frame].numpy(), expected, atol=1e-12)


def test_every_stage_counts_the_same_and_vectors_are_unit() -> None:
    """ℓ2 before: a stage a thousand times louder weighs no more. ℓ2 after: the whole has norm one."""
    maps = stages([(2, 14, 14), (6, 7, 7)])
    vectors = regions.imac([maps[0] * 1000, maps[1]])
    torch.testing.assert_close(vectors, regions.imac(maps))
    torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(2, 9, dtype=torch.float64))
    torch.testing.assert_close(
        vectors[..., :2].norm(dim=-1), torch.full((2, 9), sqrt(0.5), dtype=torch.float64)
    )


def test_regions_run_row_by_row() -> None:
    stage = torch.zeros(1, 10, 7, 7, dtype=torch.float64)
    stage[:, 9] = 1e-3
    # One cell per region that no other region sees: the corners, edges' middles and the centre of 3/2 windows.
    for region, (row, column) in enumerate([(r, c) for r in (0, 3, 6) for c in (0, 3, 6)]):
        stage[0, region, row, column] = 1.0
    vectors = regions.imac([stage])
    assert vectors[0].argmax(dim=-1).tolist() == list(range(9))


def test_levels_stack_their_regions() -> None:
    maps = stages([(2, 28, 28), (3, 7, 7)])
    stacked = regions.imac(maps, (1, 2, 3))
    assert stacked.shape == (2, 14, 5)
    for part, level in ((stacked[:, :1], 1), (stacked[:, 1:5], 2), (stacked[:, 5:], 3)):
        torch.testing.assert_close(part, regions.imac(maps, (level,)))


def test_imac_of_level_one_is_the_maximum_of_every_stage() -> None:
    maps = stages([(2, 9, 6), (3, 5, 4)])
    actual = regions.imac(maps, (1,))
    for frame in range(2):
        parts = [unit(largest(m[frame].numpy(), 0, 0, *m.shape[-2:])) for m in maps]
        np.testing.assert_allclose(actual[frame, 0].numpy(), unit(np.concatenate(parts)), atol=1e-12)


def test_maps_need_not_be_square() -> None:
    maps = stages([(2, 40, 64), (3, 5, 8)], batch=1)
    actual = regions.imac(maps)
    assert actual.shape == (1, 9, 5)
    windows = [(regions.region_windows(m.shape[2], 3), regions.region_windows(m.shape[3], 3)) for m in maps]
    for region, (i, j) in enumerate((i, j) for i in range(3) for j in range(3)):
        parts = [
            unit(largest(m[0].numpy(), rows[1][i], columns[1][j], rows[0], columns[0]))
            for m, (rows, columns) in zip(maps, windows, strict=True)
        ]
        np.testing.assert_allclose(actual[0, region].numpy(), unit(np.concatenate(parts)), atol=1e-12)


def test_a_black_frame_stays_finite() -> None:
    vectors = regions.imac([torch.zeros(1, 4, 7, 7), torch.zeros(1, 2, 3, 3)])
    assert torch.equal(vectors, torch.zeros(1, 9, 6))


# ---------------------------------------------------------------- Table 2's global descriptors


@pytest.mark.parametrize("size", [(4, 7, 7), (3, 5, 9), (3, 9, 4), (2, 1, 1)])
def test_global_descriptors_of_the_last_stage(size: tuple[int, int, int]) -> None:
    maps = [*stages([(6, 12, 12)]), stages([size], seed=4)[0].abs() + 0.01]
    channels, height, width = size
    for frame in range(2):
        stage = maps[-1][frame].numpy()
        cells = [stage[:, i, j] for i in range(height) for j in range(width)]
        peak = largest(stage, 0, 0, height, width)
        total, cubes = np.zeros(channels), np.zeros(channels)
        for cell in cells:
            total += cell
            cubes += cell**3
        expected = {
            "mac": unit(peak),
            "spoc": unit(total),
            "gem": unit((cubes / len(cells)) ** (1 / 3)),
        }
        for name, vector in expected.items():
            actual = getattr(regions, name)(maps)
            assert actual.shape == (2, 1, channels)
            np.testing.assert_allclose(actual[frame, 0].numpy(), vector, atol=1e-9, err_msg=name)


def test_gem_sits_between_the_mean_and_the_maximum() -> None:
    maps = [stages([(5, 6, 6)], seed=1)[0].abs()]
    torch.testing.assert_close(regions.gem(maps, p=1.0), regions.spoc(maps), rtol=0, atol=1e-5)
    torch.testing.assert_close(regions.gem(maps, p=200.0), regions.mac(maps), rtol=0, atol=2e-2)


def test_rmac_regions_of_a_square_map() -> None:
    """Tolias et al. at L = 3 on 7×7: the whole map, four 4×4 in the corners, nine 3×3 two apart."""
    expected = [(0, 0, 7)]
    expected += [(t, left, 4) for t in (0, 3) for left in (0, 3)]
    expected += [(t, left, 3) for t in (0, 2, 4) for left in (0, 2, 4)]
    assert regions.rmac_regions(7, 7) == expected
    assert len(expected) == 1 + 4 + 9


def test_rmac_regions_of_a_wide_map() -> None:
    """The longer axis gets one more square at each level where that overlaps nearest to 40 %."""
    # 7×11: with 2 squares of side 7, overlap 1 - 4/7 = 43 %; with 3, 71 %.
    assert [r for r in regions.rmac_regions(7, 11) if r[2] == 7] == [(0, 0, 7), (0, 4, 7)]
    assert len(regions.rmac_regions(7, 11)) == 1 * 2 + 2 * 3 + 3 * 4
    tall = [(left, top, side) for top, left, side in regions.rmac_regions(7, 11)]
    assert sorted(regions.rmac_regions(11, 7)) == sorted(tall)


@settings(deadline=None)
@given(height=st.integers(1, 40), width=st.integers(1, 40), levels=st.integers(1, 4))
def test_rmac_regions_lie_inside_any_map(height: int, width: int, levels: int) -> None:
    for top, left, side in regions.rmac_regions(height, width, levels):
        assert side >= 1
        assert 0 <= top <= height - side
        assert 0 <= left <= width - side


@pytest.mark.parametrize("size", [(3, 7, 7), (4, 5, 9)])
def test_rmac(size: tuple[int, int, int]) -> None:
    stage = stages([size], seed=2)[0]
    actual = regions.rmac([stage])
    assert actual.shape == (2, 1, size[0])
    for frame in range(2):
        total = np.zeros(size[0])
        for top, left, side in regions.rmac_regions(*size[1:]):
            total += unit(largest(stage[frame].numpy(), top, left, side, side))
        np.testing.assert_allclose(actual[frame, 0].numpy(), unit(total), atol=1e-12)
