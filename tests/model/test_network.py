"""The network of the paper by itself: from frames to a score without any fast path."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from family import FAMILY, built, related
from visil.errors import ModelError
from visil.model.network import Network


def test_it_knows_no_fast_path() -> None:
    code = "import sys, visil.model.network; print([n for n in sys.modules if n.startswith('visil.kernels')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", FAMILY)
def test_the_same_model_as_the_one_that_people_use(name: str) -> None:
    model = built(FAMILY[name], with_backbone=True)
    network = Network(model.config)
    network.load_state_dict(model.state_dict())
    assert network.fingerprint() == model.fingerprint()
    frames = torch.randint(0, 256, (3, 64, 64, 3), generator=torch.Generator().manual_seed(0)).byte()
    with torch.no_grad():
        torch.testing.assert_close(network.features(frames), model.features(frames), atol=1e-5, rtol=0)
        query, target = related((9, 3), 1, with_blank=False)
        score = network(query.vectors.float(), target.vectors.float())
    assert float(score) == pytest.approx(model.compare(query, target).score, abs=1e-5)


def test_without_a_backbone_it_says_so() -> None:
    network = Network(FAMILY["f"], with_backbone=False)
    with pytest.raises(ModelError, match="without a backbone"):
        network.features(torch.zeros(1, 64, 64, 3, dtype=torch.uint8))
