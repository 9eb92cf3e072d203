"""Batches against the model's plain formulas, one pair at a time, in double."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.model.comparator import Padding
from visil.model.config import ViSiLConfig
from visil.training import batch_similarity
from visil.training.batch_similarity import VideoBatch, compare_all, compare_pairs
from visil.training.losses import similarity_regularisation

REGIONS, CHANNELS = 4, 12
lengths = st.lists(st.integers(1, 13), min_size=1, max_size=4)


def network(comparator: Padding | None = "replicate", symmetric: bool = False) -> ViSiL:
    """A model in double without backbone, whose outputs lie on both sides of 1."""
    config = ViSiLConfig(
        backbone="efficientnet-lite0", dim=CHANNELS, comparator=comparator, symmetric=symmetric
    )
    model = ViSiL(config, with_backbone=False).double()
    random = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=random, dtype=torch.float64) / 4
    if model.comparator is not None:
        bias = model.comparator.fconv.bias
        assert bias is not None
        bias.data -= 2  # outputs of random videos from -0.4 to 2.1
    return model


def video(frames: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    vectors = torch.randn(frames, REGIONS, CHANNELS, generator=random, dtype=torch.float64)
    return torch.nn.functional.normalize(vectors, dim=-1)


def videos(frames: list[int], seed: int) -> list[Tensor]:
    return [video(count, seed + i) for i, count in enumerate(frames)]


MODELS = {
    "paper": network(),
    "zeros": network("zeros"),
    "symmetric": network(symmetric=True),
    "no comparator": network(None),
}


@pytest.mark.parametrize("name", MODELS)
@given(lengths, lengths)
@example([7, 7, 7], [7, 7, 7])
@example([1, 2, 3, 13], [4, 5, 6, 3])
@settings(max_examples=15, deadline=None)
def test_pairs_equal_the_model(name: str, query_lengths: list[int], target_lengths: list[int]) -> None:
    count = min(len(query_lengths), len(target_lengths))
    queries, targets = videos(query_lengths[:count], 0), videos(target_lengths[:count], 100)
    model = MODELS[name]
    got = compare_pairs(model, VideoBatch.of(queries), VideoBatch.of(targets)).similarity
    expected = torch.stack([model(q, t) for q, t in zip(queries, targets, strict=True)])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@given(lengths, lengths)
@settings(max_examples=10, deadline=None)
def test_all_pairs_equal_the_model(name: str, query_lengths: list[int], target_lengths: list[int]) -> None:
    queries, targets = videos(query_lengths, 0), videos(target_lengths, 100)
    model = MODELS[name]
    got = compare_all(model, VideoBatch.of(queries), VideoBatch.of(targets)).similarity
    expected = torch.stack([torch.stack([model(q, t) for t in targets]) for q in queries])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9)


def test_excess_is_that_of_the_output() -> None:
    model = MODELS["paper"]
    queries, targets = videos([8, 5, 8], 0), videos([9, 6, 9], 50)
    got = compare_pairs(model, VideoBatch.of(queries), VideoBatch.of(targets)).excess
    comparator = model.comparator
    assert comparator is not None
    for i, (q, t) in enumerate(zip(queries, targets, strict=True)):
        matrix = torch.tensor([[(a @ b.T).amax(1).mean() for b in t] for a in q], dtype=torch.float64)
        expected = similarity_regularisation(comparator(matrix))
        assert expected > 0
        assert got[i].item() == pytest.approx(expected.item(), abs=1e-9)
    assert (
        compare_all(MODELS["no comparator"], VideoBatch.of(queries), VideoBatch.of(targets)).excess.sum() == 0
    )


def test_padding_has_no_gradient_and_no_say() -> None:
    model = MODELS["paper"]
    batch = VideoBatch.of(videos([9, 6], 0))
    noisy = VideoBatch(
        torch.where(batch.mask[..., None, None], batch.vectors, 7.0).requires_grad_(), batch.lengths
    )
    target = VideoBatch.of(videos([8, 8], 9))
    plain = compare_pairs(model, batch, target).similarity
    loud = compare_pairs(model, noisy, target).similarity
    torch.testing.assert_close(loud, plain, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(loud.sum(), noisy.vectors)
    assert gradient[1, 6:].abs().max() == 0
    assert gradient[1, :6].abs().max() > 0


@pytest.mark.parametrize("compare", [compare_pairs, compare_all])
def test_pieces_give_the_same_values_and_gradients(compare: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(compare)
    model = MODELS["paper"]
    target = VideoBatch.of(videos([8] * 5, 9))
    results = []
    for cells in (1 << 28, 1):
        monkeypatch.setattr(batch_similarity, "CELLS", cells)
        query = VideoBatch(torch.stack(videos([8] * 5, 0)).requires_grad_(), (8,) * 5)
        compared = compare(model, query, target)
        (gradient,) = torch.autograd.grad((compared.similarity + compared.excess).sum(), query.vectors)
        results.append((compared.similarity, compared.excess, gradient))
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-12)


def test_half_precision_sums_in_float() -> None:
    model = network().float()
    query, target = (
        VideoBatch.of([v.float() for v in videos([9, 8], 0)]),
        VideoBatch.of([v.float() for v in videos([8, 8], 4)]),
    )
    with torch.autocast("cpu", torch.bfloat16):
        half = compare_pairs(model, query, target)
    assert half.similarity.dtype == half.excess.dtype == torch.float32
    torch.testing.assert_close(
        half.similarity, compare_pairs(model, query, target).similarity, rtol=0, atol=0.05
    )


def test_a_batch_is_checked() -> None:
    with pytest.raises(UsageError, match="lengths must be 1 to 4"):
        VideoBatch(torch.zeros(1, 4, 2, 3), (5,))
    with pytest.raises(UsageError, match=r"\[B, T, R, C\]"):
        VideoBatch(torch.zeros(4, 2, 3), (4,))
    with pytest.raises(UsageError, match="2 queries"):
        compare_pairs(MODELS["paper"], VideoBatch.of(videos([4, 4], 0)), VideoBatch.of(videos([4], 0)))
