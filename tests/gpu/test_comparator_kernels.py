"""The comparator's kernels and Eq. 6 over batches of videos of different lengths, against Table 1 in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visil.kernels.ragged_axes import ragged_axis
from visil.kernels.triton_comparator import ComparatorWeights, chamfer_scores, compared
from visil.model.comparator import Comparator, Padding, repeated
from visil.model.similarity import video_similarity

TOLERANCE = 2e-3
"""Activations and weights in half precision."""


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lengths=st.tuples(
        st.lists(st.integers(1, 23), min_size=1, max_size=4),
        st.lists(st.integers(1, 40), min_size=1, max_size=4),
    ),
    padding=st.sampled_from(["replicate", "zeros"]),
    symmetric=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_pair_is_as_table_1_says(
    device: torch.device, lengths: tuple[list[int], list[int]], padding: Padding, symmetric: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    module = Comparator(padding).eval().requires_grad_(False)
    module.fconv.weight.mul_(8)  # so that hard tanh has something to clip
    queries, targets = lengths
    matrix = (torch.rand(sum(queries), sum(targets)) * 2 - 1).half()
    rows, columns = (ragged_axis(some, padding).to(device) for some in lengths)
    weights = ComparatorWeights.of(module, device)
    output = compared(matrix.to(device), rows, columns, weights, clip=False)
    assert output.isfinite().all(), "every cell is written"
    clipped = compared(matrix.to(device), rows, columns, weights)
    scores = chamfer_scores(clipped, rows.cells, columns.cells, symmetric=symmetric).cpu()
    module.double()
    for i, strip in enumerate(matrix.double().split(queries)):
        for j, part in enumerate(strip.split(targets, dim=1)):
            expected = module(repeated(repeated(part, module, 0), module, 1))
            found = output[rows.cells[i] : rows.cells[i + 1], columns.cells[j] : columns.cells[j + 1]].cpu()
            assert found.shape == expected.shape
            assert (found - expected).abs().max() < TOLERANCE
            score = video_similarity(expected.clamp(-1, 1), symmetric=symmetric)
            assert scores[i, j] == pytest.approx(float(score), abs=TOLERANCE)


def test_the_maps_of_a_video_by_hand() -> None:
    axis = ragged_axis([1, 5], "replicate")
    assert axis.frames.tolist() == [0, 1, 6]
    assert axis.cells.tolist() == [0, 1, 2]
    assert (axis.pooled[0] == 0).all(), "one frame, doubled twice, is read everywhere"
    # Five frames pool to two and then to one; the four places are rows 0, 0, 1 and 1 of the two.
    assert axis.pooled[1].tolist() == [[1, 1, 2, 3], [1, 1, 2, 3], [2, 3, 4, 5], [2, 3, 4, 5]]
    assert axis.around.tolist() == [[0, 0, 0], [1, 1, 1]]
    zeros = ragged_axis([5], "zeros")
    assert zeros.pooled[0].tolist() == [[-1] * 4, [-1, 0, 1, 2], [1, 2, 3, 4], [-1] * 4]
    assert zeros.exists[0].tolist() == [False, True, True, False]
    assert zeros.around.tolist() == [[-1, 0, -1]]
