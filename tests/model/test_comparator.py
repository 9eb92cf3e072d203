"""Table 1 against a network of plain loops, and tiles of it against the whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from visil.model.comparator import Comparator, Padding, hard_tanh, windows

Array = NDArray[np.float64]
PADDINGS: tuple[Padding, ...] = ("replicate", "zeros")


# ---------------------------------------------------------------- Table 1, one output value at a time


def padded(maps: Array, padding: Padding) -> Array:
    """A border of one: the nearest value, or zero. [C, H, W] to [C, H+2, W+2]."""
    channels, height, width = maps.shape
    result = np.zeros((channels, height + 2, width + 2))
    for i in range(height + 2):
        for j in range(width + 2):
            row, column = i - 1, j - 1
            if padding == "replicate":
                row, column = min(max(row, 0), height - 1), min(max(column, 0), width - 1)
            elif not (0 <= row < height and 0 <= column < width):
                continue
            result[:, i, j] = maps[:, row, column]
    return result


def convolved(maps: Array, weight: Array, bias: Array) -> Array:
    """Every output position of a valid convolution, by hand: [C, H, W] to [K, H-k+1, W-k+1]."""
    size = weight.shape[-1]
    height, width = maps.shape[1] - size + 1, maps.shape[2] - size + 1
    result = np.empty((len(weight), height, width))
    for i in range(height):
        for j in range(width):
            for k in range(len(weight)):
                result[k, i, j] = bias[k] + np.sum(weight[k] * maps[:, i : i + size, j : j + size])
    return result


def halved(maps: Array) -> Array:
    """The maximum of each 2×2 block; a last odd row or column is left out."""
    channels, height, width = maps.shape
    result = np.empty((channels, height // 2, width // 2))
    for i in range(height // 2):
        for j in range(width // 2):
            block = maps[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].reshape(channels, 4)
            result[:, i, j] = np.sort(block, axis=1)[:, -1]
    return result


def rectified(maps: Array) -> Array:
    return np.where(maps > 0, maps, 0.0)


def table_1(matrix: Array, weights: dict[str, Array], padding: Padding) -> Array:
    """S_f [X, Y] to S_v [X', Y'] before hard tanh; ``weights`` as in a state dict."""
    x = matrix[None]
    x = halved(rectified(convolved(padded(x, padding), weights["conv1.weight"], weights["conv1.bias"])))
    x = halved(rectified(convolved(padded(x, padding), weights["conv2.weight"], weights["conv2.bias"])))
    x = rectified(convolved(padded(x, padding), weights["conv3.weight"], weights["conv3.bias"]))
    return convolved(x, weights["fconv.weight"], weights["fconv.bias"])[0]


def comparator(padding: Padding, seed: int = 0) -> Comparator:
    """A network in double whose outputs spread over the whole range."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Comparator(padding).double()
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
    return network


def matrix_of(rows: int, columns: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).uniform(-1, 1, (rows, columns)))


# ---------------------------------------------------------------- the network


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 7), (6, 4), (8, 9), (10, 5), (11, 12), (7, 13)])
def test_table_1(padding: Padding, rows: int, columns: int) -> None:
    network, matrix = comparator(padding), matrix_of(rows, columns, rows + columns)
    weights = {k: v.numpy() for k, v in network.state_dict().items()}
    expected = table_1(matrix.numpy(), weights, padding)
    assert float(np.std(expected)) > 0 or expected.size == 1
    with torch.no_grad():
        actual = network(matrix)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-9, atol=1e-9)


def test_parameters_are_those_of_table_1_under_the_authors_names() -> None:
    shapes = {k: tuple(v.shape) for k, v in Comparator().state_dict().items()}
    assert shapes == {
        "conv1.weight": (32, 1, 3, 3),
        "conv1.bias": (32,),
        "conv2.weight": (64, 32, 3, 3),
        "conv2.bias": (64,),
        "conv3.weight": (128, 64, 3, 3),
        "conv3.bias": (128,),
        "fconv.weight": (1, 128, 1, 1),
        "fconv.bias": (1,),
    }


@pytest.mark.parametrize("size", range(4, 22))
def test_output_is_a_quarter_rounded_down_twice(size: int) -> None:
    with torch.no_grad():
        assert Comparator()(torch.zeros(size, 9)).shape == (size // 2 // 2, 2)
        assert Comparator()(torch.zeros(9, size)).shape == (2, size // 2 // 2)


def test_paddings_differ_at_the_border_only() -> None:
    replicate, zeros = comparator("replicate"), Comparator("zeros").double()
    zeros.load_state_dict(replicate.state_dict())
    matrix = matrix_of(40, 40)
    with torch.no_grad():
        difference = (replicate(matrix) - zeros(matrix)).abs()
    # A border reaches 7 frames in (half of 18 less half a cell), so cells 2 to 7 of 10 see none of it.
    assert float(difference[2:8, 2:8].max()) < 1e-12
    assert float(difference[0].max()) > 1e-3
    assert float(difference[:, -1].max()) > 1e-3


def test_batches_of_any_rank() -> None:
    network = comparator("replicate")
    batch = torch.stack([matrix_of(9, 11, seed) for seed in range(6)]).view(2, 3, 9, 11)
    with torch.no_grad():
        result = network(batch)
        assert result.shape == (2, 3, 2, 2)
        for i, j in np.ndindex(2, 3):
            torch.testing.assert_close(result[i, j], network(batch[i, j]))


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (4, 3), (1, 100), (0, 8)])
def test_too_few_frames_are_refused(rows: int, columns: int) -> None:
    with pytest.raises(ValueError, match="4×4 frames"):
        Comparator()(torch.zeros(rows, columns))


def test_hard_tanh_clips_to_plus_minus_one() -> None:
    values = torch.tensor([-7.0, -1.0, -0.25, 0.0, 0.999, 1.0, 1.001, torch.inf])
    assert hard_tanh(values).tolist() == pytest.approx([-1, -1, -0.25, 0, 0.999, 1, 1, 1])


def test_a_cell_sees_18_frames_and_no_more() -> None:
    """conv, pool, conv, pool, conv: 3, 6, 8, 16, 18 frames. Cell 5 stands for frames 20 to 23, so it sees 13 to 30."""
    # A maximum passes one of its inputs on, so several matrices are needed to see every frame that can count.
    matrices = torch.stack([matrix_of(44, 44, seed) for seed in range(8)]).requires_grad_()
    comparator("replicate")(matrices)[:, 5, 5].sum().backward()
    assert matrices.grad is not None
    seen = (matrices.grad != 0).any(dim=0).nonzero()
    assert seen.min(dim=0).values.tolist() == [13, 13]
    assert seen.max(dim=0).values.tolist() == [30, 30]


@pytest.mark.parametrize("row", [0, 12, 31, 43])
def test_a_frame_outside_the_field_changes_nothing(row: int) -> None:
    network, matrix = comparator("replicate"), matrix_of(44, 44)
    changed = matrix.clone()
    changed[row] = 5.0
    with torch.no_grad():
        before, after = network(matrix), network(changed)
    assert torch.equal(before[5, 5], after[5, 5])
    assert not torch.equal(before, after)


# ---------------------------------------------------------------- tiles


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(4, 70),
    columns=st.integers(4, 22),
    row_cells=st.integers(1, 8),
    column_cells=st.integers(1, 8),
    padding=st.sampled_from(PADDINGS),
)
@example(4, 4, 1, 1, "replicate")
@example(7, 11, 1, 2, "zeros")
@example(70, 33, 8, 3, "replicate")
@example(9, 70, 2, 5, "zeros")
def test_stitched_tiles_equal_the_whole(
    rows: int, columns: int, row_cells: int, column_cells: int, padding: Padding
) -> None:
    network, matrix = comparator(padding, seed=1), matrix_of(rows, columns, rows * 100 + columns)
    with torch.no_grad():
        whole = network(matrix)
        strips = [
            torch.cat(
                [network.tile(matrix[r.inputs, c.inputs], r, c) for c in windows(columns, column_cells)],
                dim=1,
            )
            for r in windows(rows, row_cells)
        ]
    torch.testing.assert_close(torch.cat(strips), whole, rtol=0, atol=1e-10)


@settings(deadline=None)
@given(size=st.integers(4, 400), cells=st.integers(1, 40))
def test_windows_cover_every_cell_once_in_order(size: int, cells: int) -> None:
    cover = windows(size, cells)
    flat = [cell for window in cover for cell in range(window.outputs.start, window.outputs.stop)]
    assert flat == list(range(size // 4))
    for window in cover:
        count = window.outputs.stop - window.outputs.start
        assert 1 <= count <= cells
        assert 0 <= window.inputs.start < window.inputs.stop <= size
        # 4 frames a cell and a halo of 7 on each side: bounded work space, whatever the size.
        assert window.inputs.stop - window.inputs.start <= 4 * count + 14
    assert cover[0].inputs.start == 0
    assert cover[-1].inputs.stop == size
