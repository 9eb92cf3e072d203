"""Edits of clips, as copies have them: picture transforms on float clips [B, T, 3, H, W] in [0, 1].

Every clip draws its own parameters from its own seed, all frames of a clip share them, and the same seed gives the
same result whatever else is in the batch. Parameters are drawn on the CPU; the pictures stay on their device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from visil.edits.clips.chains import Composite, Heavy, Mild, PaperPositive

__all__ = ["Composite", "Heavy", "Mild", "PaperPositive", "PictureTransform"]


class PictureTransform(Protocol):
    """Changes the pictures of clips [B, T, 3, H, W], one seed for each clip; the shape stays."""

    def __call__(self, clips: Tensor, seeds: Sequence[int]) -> Tensor:
        """Same shape out."""
        ...
