"""The reader's channels by hand, its map whole and in tiles, and in batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from visil.errors import ModelError
from visil.model.background import FixedBackground, central
from visil.model.formula import Formula
from visil.model.reader import (
    BESIDE,
    FrameSigns,
    Reader,
    ReaderConfig,
    change,
    channels,
    elsewhere,
    frame_signs,
    read_maps,
    tiled_map,
)

FORMULA = Formula(("max", "top3"), ("max", "mean"), symmetric=True)


def background(dim: int = 8) -> FixedBackground:
    found = FixedBackground(6, dim)
    found.regions.copy_(vectors(6, 1, dim, seed=9)[:, 0])
    found.mean.fill_(0.2)
    found.spread.fill_(0.1)  # so that every tile of random vectors is promising
    return found


def vectors(frames: int, regions: int = 4, dim: int = 8, seed: int = 0) -> Tensor:
    drawn = torch.randn(frames, regions, dim, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=-1)


def pair(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, FrameSigns, FrameSigns]:
    query, target = vectors(rows, seed=seed), vectors(columns, seed=seed + 1)
    signs = frame_signs([query, target], [None, None], background(), FORMULA)
    return FORMULA.frame_matrix(query, target), signs[0], signs[1]


def read_map(
    network: Reader, ground: FixedBackground, frames: Tensor, query: FrameSigns, target: FrameSigns
) -> Tensor:
    (found,) = read_maps(network, ground, [frames], [query], [target])
    return found


def reader(config: ReaderConfig | None = None) -> Reader:
    torch.manual_seed(1)
    return Reader(config or ReaderConfig(hidden=4, dilations=(1, 2), window=4)).eval()


def test_elsewhere_is_the_best_of_the_row_nearby_without_the_cell_and_its_neighbours() -> None:
    matrix = torch.rand(5, 17, generator=torch.Generator().manual_seed(3))
    found = elsewhere(matrix, 5)
    for x in range(5):
        for y in range(17):
            near = [matrix[x, z] for z in range(17) if BESIDE < abs(z - y) <= 5]
            assert found[x, y] == max(near)


def test_elsewhere_of_a_matrix_too_narrow_to_have_one_is_the_cell_itself() -> None:
    matrix = torch.rand(4, 3)
    assert torch.equal(elsewhere(matrix, 6), matrix)


def test_change_of_linear_similarities_is_the_cosine_of_the_frames_differences() -> None:
    """Frames with one region: S_f is a plain product, and a second difference the product of two differences."""
    torch.manual_seed(0)
    query, target = torch.randn(3, 16), torch.randn(3, 16)
    lengths = torch.full((3,), 0.5)  # 2 · 0.5 · 2 · 0.5 under the root: divided by 1
    found = change(query @ target.T, lengths, lengths)
    steps = [query.diff(dim=0), target.diff(dim=0)]
    expected = (steps[0] @ steps[1].T).mean()  # the middle cell has four second differences around it
    assert found[1, 1] == pytest.approx(float(expected), rel=1e-4)


def test_signs_of_frames_are_their_distance_from_their_neighbours_and_how_common_they_are() -> None:
    video = vectors(3)
    video = torch.stack([video[0], video[0], video[2]])
    blank = torch.tensor([False, False, True])
    before, signs = frame_signs([vectors(2, seed=3), video], [None, blank], background(), FORMULA)
    assert before.blank.tolist() == [False, False]
    apart = 1 - float(FORMULA.frame_matrix(video[1:2], video[2:3]))
    still = 1 - float(FORMULA.frame_matrix(video[:1], video[:1]))
    assert signs.change.tolist() == pytest.approx([still, apart, apart], abs=1e-5)
    assert signs.blank.tolist() == [False, False, True]
    products = (video[0] @ background().regions.T).topk(4, dim=1).values.mean(dim=1)
    assert float(signs.common[0]) == pytest.approx(float(products.topk(3).values.mean()), rel=1e-5)


def test_a_video_of_one_frame_is_still() -> None:
    (signs,) = frame_signs([vectors(1)], [None], background(), FORMULA)
    assert signs.change.tolist() == [0.0]


def test_channels_are_similarities_beside_those_of_strangers() -> None:
    frames, query, target = pair(6, 7)
    planes = channels(frames, query, target, background(), ReaderConfig(channels=("similarity", "common")))
    assert planes.shape == (3, 6, 7)
    assert torch.allclose(planes[0], (frames - 0.2) / 0.1, atol=1e-5)
    assert torch.allclose(planes[1], (frames - query.common[:, None]) / 0.1, atol=1e-5)
    assert torch.allclose(planes[2], (frames - target.common[None]) / 0.1, atol=1e-5)


def test_blank_frames_are_read_as_strangers() -> None:
    frames, query, target = pair(4, 5)
    query.blank[2] = True
    planes = channels(frames, query, target, background(), ReaderConfig(channels=("similarity",)))
    assert torch.equal(planes[0, 2], torch.zeros(5))


@pytest.mark.parametrize("shape", [(1, 1), (3, 6), (40, 9)])
def test_a_map_has_the_size_of_its_matrix_and_stays_within_one(shape: tuple[int, int]) -> None:
    found = read_map(reader(), background(), *pair(*shape))
    assert found.shape == shape
    assert found.abs().max() <= 1


def test_tiles_with_a_halo_give_the_whole_map() -> None:
    frames, query, target = pair(50, 43)
    network = reader()
    whole = read_map(network, background(), frames, query, target)
    for start, stop in ((0, 20), (20, 40), (40, 50)):
        low, high = max(0, start - network.halo), stop + network.halo
        rows = slice(start - low, stop - low)
        found = tiled_map(network, background(), frames[low:high], query[low:high], target, rows, tile=11)
        assert torch.allclose(found, whole[start:stop], atol=1e-5)


def test_a_batch_of_pairs_of_several_sizes_is_read_as_each_alone() -> None:
    pairs = [pair(5, 9), pair(8, 4, seed=5), pair(1, 2, seed=7)]
    together = read_maps(
        reader(), background(), [p[0] for p in pairs], [p[1] for p in pairs], [p[2] for p in pairs]
    )
    for own, found in zip(pairs, together, strict=True):
        assert torch.allclose(found, read_map(reader(), background(), *own), atol=1e-5)


def test_a_background_stands_for_the_vectors_that_occur_most() -> None:
    rng = np.random.default_rng(0)
    clusters = torch.from_numpy(rng.normal(size=(3, 8)) * 5).float()
    points = torch.cat([c + 0.01 * torch.from_numpy(rng.normal(size=(20, 8))).float() for c in clusters])
    chosen = central(points, 3, seed=2)
    assert all(any(torch.equal(vector, point) for point in points) for vector in chosen)
    nearest = torch.cdist(chosen, clusters).argmin(dim=1)
    assert set(nearest.tolist()) <= {0, 1, 2}


def test_commonness_is_high_for_what_the_background_holds() -> None:
    ground = background()
    common = ground.regions[:1][None].expand(1, 4, 8)
    assert ground.commonness(common, "top3") > ground.commonness(vectors(1, seed=4), "top3")


@pytest.mark.parametrize(
    "wrong", [{"channels": ("colour",)}, {"channels": ()}, {"hidden": 0}, {"dilations": (0,)}, {"window": 2}]
)
def test_shapes_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ModelError, match="reader"):
        ReaderConfig(**wrong)  # type: ignore[arg-type]
