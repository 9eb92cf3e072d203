"""For tests that compare the same videos again and again, and are not about how frames are embedded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from visil.compare.visil import ViSiL

KNOWN: dict[tuple[str, torch.Size, bytes], torch.Tensor] = {}
"""What weights made of frames."""


@pytest.fixture(scope="module", autouse=True)
def embedded_once() -> Iterator[None]:
    """The same frames are embedded once by the same weights."""
    real = ViSiL.features

    def features(model: ViSiL, frames: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled():
            return real(model, frames)
        key = (model.fingerprint(), frames.shape, frames.numpy().tobytes())
        if key not in KNOWN:
            KNOWN[key] = real(model, frames)
        return KNOWN[key].clone()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ViSiL, "features", features)
        yield
