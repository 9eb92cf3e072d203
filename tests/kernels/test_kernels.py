"""The fast paths against the plain formulas they stand for, in float64 and across every tile boundary."""

from __future__ import annotations

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.kernels import FrameMatrix, RunningPool, torch_engine
from visil.kernels import frame_matrix as tiles
from visil.kernels.torch_engine import score_pair
from visil.model.comparator import Comparator, Padding
from visil.model.formula import Formula
from visil.model.similarity import Reduction, frame_matrix, pool

REDUCTIONS: tuple[Reduction, ...] = ("max", "mean", "top3")
COMBINATIONS = list(product(REDUCTIONS, REDUCTIONS, (False, True)))


def video(frames: int, regions: int, channels: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return F.normalize(
        torch.randn(frames, regions, channels, dtype=torch.float64, generator=generator), dim=-1
    )


def network(padding: Padding) -> Comparator:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        comparator = Comparator(padding).double()
        for parameter in comparator.parameters():
            # Outputs between -1 and 1, some beyond: hard tanh has something to clip and something to leave.
            std = (4.0 / parameter[0].numel()) ** 0.5 if parameter.ndim > 1 else 0.1
            torch.nn.init.normal_(parameter, std=std)
    return comparator


class Rows:
    """Collects strips, and holds the kernel to its word: each row once, in order."""

    def __init__(self) -> None:
        self.strips: list[Tensor] = []
        self.next = 0

    def __call__(self, start: int, strip: Tensor) -> None:
        assert start == self.next, "strips must follow one another"
        self.next += len(strip)
        self.strips.append(strip.clone())

    @property
    def matrix(self) -> Tensor:
        return torch.cat(self.strips)


# ---------------------------------------------------------------- S_f


@settings(max_examples=60, deadline=None)
@given(
    x=st.integers(1, 13),
    y=st.integers(1, 13),
    r=st.integers(1, 9),
    s=st.integers(1, 9),
    c=st.integers(1, 8),
    tile=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    how=st.sampled_from(COMBINATIONS),
    seed=st.integers(0, 1000),
)
def test_frame_matrix_across_tiles(
    x: int,
    y: int,
    r: int,
    s: int,
    c: int,
    tile: tuple[int, int],
    how: tuple[Reduction, Reduction, bool],
    seed: int,
) -> None:
    inner, outer, symmetric = how
    query, target = video(x, r, c, seed), video(y, s, c, seed + 1)
    expected = frame_matrix(query, target, inner=inner, outer=outer, symmetric=symmetric)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "TILE_FRAMES", tile)
        pair = FrameMatrix(query, target, Formula((inner, outer), symmetric=symmetric))
        assert pair.shape == (x, y)
        torch.testing.assert_close(pair.full(), expected, rtol=0, atol=1e-12)
        start, stop = x // 3, max(x // 3 + 1, 2 * x // 3)
        torch.testing.assert_close(pair.rows(start, stop), expected[start:stop], rtol=0, atol=1e-12)


@pytest.mark.parametrize("symmetric", [False, True])
def test_frame_matrix_past_the_real_tile(symmetric: bool) -> None:
    query, target = video(tiles.TILE_FRAMES[0] + 3, 2, 3, 0), video(tiles.TILE_FRAMES[1] + 5, 3, 3, 1)
    expected = frame_matrix(query, target, symmetric=symmetric)
    torch.testing.assert_close(
        FrameMatrix(query, target, Formula(symmetric=symmetric)).full(), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("symmetric", [False, True])
def test_narrow_inputs_are_computed_in_float32(dtype: torch.dtype, symmetric: bool) -> None:
    """Stored in half precision, summed in single: as exact as the stored values allow."""
    query, target = video(9, 4, 64, 0).to(dtype), video(7, 5, 64, 1).to(dtype)
    result = FrameMatrix(query, target, Formula(symmetric=symmetric)).full()
    assert result.dtype == torch.float32
    expected = frame_matrix(query.double(), target.double(), symmetric=symmetric)
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=1e-6)


def test_non_contiguous_inputs() -> None:
    query, target = video(8, 4, 6, 0)[::2], video(5, 12, 6, 1)[:, ::3]
    torch.testing.assert_close(FrameMatrix(query, target, Formula()).full(), frame_matrix(query, target))


def test_inputs_are_left_alone() -> None:
    query, target = video(5, 3, 4, 0), video(6, 3, 4, 1)
    copies = query.clone(), target.clone()
    for inner, outer, symmetric in COMBINATIONS:
        FrameMatrix(query, target, Formula((inner, outer), symmetric=symmetric)).full()
    assert torch.equal(query, copies[0])
    assert torch.equal(target, copies[1])


# ---------------------------------------------------------------- Eq. 2 on the run


@settings(max_examples=60, deadline=None)
@given(
    heights=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    columns=st.integers(1, 9),
    how=st.sampled_from(COMBINATIONS),
    seed=st.integers(0, 1000),
)
def test_running_pool(
    heights: list[int], columns: int, how: tuple[Reduction, Reduction, bool], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(sum(heights), columns, dtype=torch.float64, generator=generator)
    running = RunningPool(Formula(video_pool=how[:2], symmetric=how[2]))
    for strip in matrix.split(heights):
        running.update(strip)
    assert running.result() == pytest.approx(float(pool(matrix, *how)), abs=1e-12)


# ---------------------------------------------------------------- one pass over a pair


@settings(max_examples=40, deadline=None)
@given(
    x=st.integers(4, 31),
    y=st.integers(4, 31),
    strip_cells=st.integers(1, 4),
    tile_cells=st.integers(1, 4),
    tile_frames=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    padding=st.sampled_from(("replicate", "zeros")),
    symmetric=st.booleans(),
)
def test_score_pair_with_a_comparator(
    x: int,
    y: int,
    strip_cells: int,
    tile_cells: int,
    tile_frames: tuple[int, int],
    padding: Padding,
    symmetric: bool,
) -> None:
    query, target, comparator = video(x, 3, 5, x), video(y, 4, 5, y + 50), network(padding)
    matrix = frame_matrix(query, target, symmetric=symmetric)
    with torch.no_grad():
        output = comparator(matrix).clamp(-1, 1)
    frames, outputs = Rows(), Rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_engine, "STRIP_CELLS", strip_cells)
        patch.setattr(torch_engine, "TILE_CELLS", tile_cells)
        patch.setattr(tiles, "TILE_FRAMES", tile_frames)
        pair = FrameMatrix(query, target, Formula(symmetric=symmetric))
        score = score_pair(pair, comparator, on_frames=frames, on_output=outputs)
    torch.testing.assert_close(frames.matrix, matrix, rtol=0, atol=1e-10)
    torch.testing.assert_close(outputs.matrix, output, rtol=0, atol=1e-10)
    assert score == pytest.approx(float(pool(output, symmetric=symmetric)), abs=1e-10)


@settings(max_examples=30, deadline=None)
@given(
    x=st.integers(1, 31),
    y=st.integers(1, 31),
    strip_cells=st.integers(1, 3),
    how=st.sampled_from(COMBINATIONS),
)
def test_score_pair_without_a_comparator(
    x: int, y: int, strip_cells: int, how: tuple[Reduction, Reduction, bool]
) -> None:
    """ViSiL_f: both listeners see S_f, and the score is read off it."""
    query, target = video(x, 3, 5, x), video(y, 4, 5, y + 50)
    formula = Formula(video_pool=how[:2], symmetric=how[2])
    matrix = frame_matrix(query, target, symmetric=how[2])
    frames, outputs = Rows(), Rows()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_engine, "STRIP_CELLS", strip_cells)
        score = score_pair(FrameMatrix(query, target, formula), None, on_frames=frames, on_output=outputs)
    torch.testing.assert_close(frames.matrix, matrix, rtol=0, atol=1e-12)
    torch.testing.assert_close(outputs.matrix, matrix, rtol=0, atol=1e-12)
    assert score == pytest.approx(float(pool(matrix, *how)), abs=1e-12)


@pytest.mark.parametrize("padding", ["replicate", "zeros"])
def test_score_pair_past_a_real_strip(padding: Padding) -> None:
    """More than two strips of query frames and a remainder, at the sizes in use."""
    x = 2 * torch_engine.STRIP_CELLS * 4 + 7
    query, target, comparator = video(x, 1, 8, 0), video(21, 1, 8, 1), network(padding)
    with torch.no_grad():
        expected = comparator(frame_matrix(query, target)).clamp(-1, 1)
    outputs = Rows()
    score = score_pair(FrameMatrix(query, target, Formula()), comparator, on_output=outputs)
    torch.testing.assert_close(outputs.matrix, expected, rtol=0, atol=1e-10)
    assert score == pytest.approx(float(pool(expected)), abs=1e-10)


def test_half_precision_features_through_the_comparator() -> None:
    query, target, comparator = video(9, 9, 32, 0), video(14, 9, 32, 1), network("replicate")
    with torch.no_grad():
        expected = pool(comparator(frame_matrix(query.half().double(), target.half().double())).clamp(-1, 1))
    score = score_pair(FrameMatrix(query.half(), target.half(), Formula()), comparator.float())
    assert score == pytest.approx(float(expected), abs=1e-5)


def test_listeners_are_optional() -> None:
    query, target = video(9, 2, 4, 0), video(12, 2, 4, 1)
    comparator = network("replicate")
    alone = score_pair(FrameMatrix(query, target, Formula()), comparator)
    heard = score_pair(FrameMatrix(query, target, Formula()), comparator, on_frames=Rows(), on_output=Rows())
    assert alone == heard
