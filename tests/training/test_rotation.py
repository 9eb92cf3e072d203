"""Where binary codes begin: a rotation that loses less than any other start."""

from __future__ import annotations

import torch
import torch.nn.functional as F

import toy_training
from visil.compare.visil import ViSiL
from visil.model.attention import BinaryCode
from visil.training.whitening import fit_on_footage, fit_rotation, itq


def lost(vectors: torch.Tensor, rotation: torch.Tensor) -> float:
    rotated = F.normalize(vectors.double(), dim=-1) @ rotation.double()
    return float((torch.sign(rotated) - rotated).square().sum())


def test_itq_finds_the_rotation_under_which_signs_lose_least() -> None:
    """Corners of a cube, turned: there is a rotation under which signs lose no more than their length."""
    generator = torch.Generator().manual_seed(0)
    turned = torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q
    corners = torch.randint(0, 2, (400, 6), generator=generator).double() * 2 - 1
    vectors = corners @ turned.T
    found = itq(vectors)
    torch.testing.assert_close(found @ found.T, torch.eye(6, dtype=torch.float64))
    others = [lost(vectors, torch.linalg.qr(torch.randn(6, 6, generator=generator)).Q) for _ in range(5)]
    assert lost(vectors, found) < 0.9 * min(others)
    assert torch.equal(found, itq(vectors))


def test_a_model_is_turned_on_its_own_vectors() -> None:
    config = toy_training.toy_model().config.replaced(attention="binary")
    model = ViSiL(config, with_backbone=False).load_backbone()
    footage = toy_training.footage()
    fit_on_footage(model, footage)
    assert isinstance(model.attention, BinaryCode)
    before = model.attention.rotation.detach().clone()
    fit_rotation(model, footage)
    raw = torch.cat([model.region_vectors(footage.images(v, range(12))) for v in range(len(footage))])
    assert model.whitening is not None
    vectors = model.whitening(raw).flatten(0, 1)
    assert lost(vectors, model.attention.rotation.detach()) < 0.98 * lost(vectors, before)
