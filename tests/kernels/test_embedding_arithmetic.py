"""What frames are embedded in: what was asked for, what the processor multiplies, and how near both are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import visil
from synthetic import moving_scene
from visil.errors import UsageError
from visil.kernels.precision import EMBEDDING_VARIABLE, Embedding, embedding, of_collections
from visil.machine import processor


@pytest.mark.parametrize(
    ("instructions", "auto"),
    [({"avx2", "avx512_bf16"}, "bf16"), ({"amx_bf16"}, "bf16"), ({"avx512f"}, "fp32"), (set(), "fp32")],
)
def test_auto_is_what_the_processor_multiplies(
    instructions: set[str], auto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "_known", lambda: frozenset(instructions))
    assert embedding("auto") == auto


@pytest.mark.parametrize(
    ("asked", "variable", "found"),
    [(None, "", "fp32"), (None, "bf16", "bf16"), ("fp32", "bf16", "fp32"), ("bf16", "", "bf16")],
)
def test_what_was_asked_for(
    asked: Embedding | None, variable: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EMBEDDING_VARIABLE, variable)
    assert embedding(asked) == found


def test_a_collection_takes_the_faster_one_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EMBEDDING_VARIABLE, "fp32")
    assert of_collections("efficientnet-lite0") is None
    monkeypatch.delenv(EMBEDDING_VARIABLE)
    assert of_collections("efficientnet-lite0") == "auto"
    assert of_collections("resnet50") == "fp32"  # nobody has looked at its answers
    monkeypatch.setenv(EMBEDDING_VARIABLE, "int4")
    with pytest.raises(UsageError, match="VISIL_EMBEDDING must be auto, fp32 or bf16, not 'int4'"):
        of_collections("efficientnet-lite0")


def test_the_default_models_features_are_nearly_the_same() -> None:
    """Rounding its first depthwise convolution, too, would leave cosines of 0.93."""
    frames = np.stack(list(moving_scene(0, 4, fps=1, size=(288, 288))))
    model = visil.load()
    exact = model.embed_frames(frames).vectors
    model.embedding = "bf16"
    rounded = model.embed_frames(frames).vectors
    assert model.embeds_in == "bf16"
    assert not torch.equal(rounded, exact)
    assert float(F.cosine_similarity(rounded, exact, dim=-1).min()) > 0.99
    model.embedding = "fp32"
    assert torch.equal(model.embed_frames(frames).vectors, exact)
