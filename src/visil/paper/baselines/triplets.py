"""Triplets made from features alone: what the learned baselines train on where only vectors are at hand.

A positive is a part of the anchor's video whose vectors were disturbed as an edit of the pictures would: all frames
shifted the same way (a filter, a logo), each frame a little more (compression), a share of another video mixed in (a
picture beside or behind), frames dropped or repeated. Chosen here; the methods' own papers use annotated pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.errors import UsageError

HARD = 10
"""Most similar other videos that an anchor's negative is drawn from."""

TOO_ALIKE = 0.8
"""Cosine of two videos' centred mean vectors above which they may share footage, and are no negatives."""


@dataclass(frozen=True)
class Edits:
    """How strongly positives are disturbed; each draw takes a share of these between none and all."""

    shift: float = 0.5
    """Length of what is added to every vector of a video alike, the vectors being of length 1."""
    noise: float = 0.3
    """Length of what is added to each vector by itself."""
    mix: float = 0.3
    """Share of another video's vectors."""
    fast: float = 2.0
    """Most that a part is sped up or slowed down."""


@dataclass(frozen=True)
class Drawn:
    """One triplet, vectors [t, R, C] each; ``video`` and ``other`` are the numbers of the two videos."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    video: int
    other: int


class FeatureTriplets:
    """Draws triplets from videos [T, R, C] for ever; the same seed, the same triplets.

    Hard negatives are mined: one of the other videos most like the anchor's by the cosine of their mean vectors, less
    the mean of all videos, unless so alike that they may share footage.
    """

    def __init__(
        self, videos: Sequence[Tensor], *, seed: int = 0, longest: int = 64, edits: Edits | None = None
    ) -> None:
        if len(videos) < 2:
            raise UsageError(f"learning needs at least 2 videos, got {len(videos)}")
        if len({video.shape[1:] for video in videos}) != 1:
            raise UsageError("videos to learn from must all have the same regions and channels")
        # Autograd refuses tensors made in inference mode.
        self.videos = [video.clone() if video.is_inference() else video for video in videos]
        self.longest = longest
        self.edits = edits or Edits()
        self.negatives = hard_negatives(videos)
        self._rng = np.random.default_rng(seed)

    def draw(self) -> Drawn:
        """The next triplet; anchor and positive share at least half of the shorter one's time."""
        number = int(self._rng.integers(len(self.videos)))
        other = int(self._rng.choice(self.negatives[number]))
        video, foreign = self.videos[number].float(), self.videos[other].float()
        length = int(self._rng.integers(min(4, len(video)), min(self.longest, len(video)) + 1))
        start = int(self._rng.integers(len(video) - length + 1))
        moved = start + int(self._rng.integers(-(length // 2), length // 2 + 1))
        moved = min(max(moved, 0), len(video) - length)
        negative = self.part(foreign)
        return Drawn(
            video[start : start + length],
            self.edited(video[moved : moved + length], foreign),
            self.edited(negative, video) if self._rng.random() < 0.5 else negative,
            number,
            other,
        )

    def part(self, video: Tensor) -> Tensor:
        """A stretch of a video, of any length up to the longest."""
        length = int(self._rng.integers(min(4, len(video)), min(self.longest, len(video)) + 1))
        start = int(self._rng.integers(len(video) - length + 1))
        return video[start : start + length].float()

    def edited(self, part: Tensor, foreign: Tensor) -> Tensor:
        """``part`` [t, R, C] disturbed, its vectors as long as before; the number of frames may change."""
        edits, rng = self.edits, self._rng
        speed = edits.fast ** rng.uniform(-1, 1)
        count = max(1, min(self.longest, round(len(part) / speed)))
        places = np.sort(rng.uniform(0, len(part), count)).astype(np.int64)
        vectors = part[torch.from_numpy(places).to(part.device)]
        lengths = vectors.norm(dim=-1, keepdim=True)
        width = vectors.shape[-1] ** 0.5
        strength = rng.uniform(0, 1, 3)
        shift = self._normal((1, *vectors.shape[1:]), part) * (edits.shift * strength[0] / width)
        noise = self._normal(tuple(vectors.shape), part) * (edits.noise * strength[1] / width)
        share = edits.mix * strength[2]
        mixed = (1 - share) * vectors + share * foreign[int(rng.integers(len(foreign)))]
        return F.normalize(mixed + lengths * (shift + noise), dim=-1) * lengths

    def _normal(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return torch.from_numpy(self._rng.standard_normal(shape, np.float32)).to(like.device)


def hard_negatives(
    videos: Sequence[Tensor], few: int = HARD, too_alike: float = TOO_ALIKE
) -> list[list[int]]:
    """For each video, the numbers of the ``few`` others most like it, those too alike left out.

    Where all others are too alike, the one least alike: a set of two videos can still be learned from.
    """
    means = torch.stack([video.float().mean(dim=(0, 1)) for video in videos])
    means = F.normalize(means - means.mean(dim=0), dim=-1)
    alike = (means @ means.T).cpu().numpy()
    found = []
    for number, row in enumerate(alike):
        order = [int(i) for i in np.argsort(-row, kind="stable") if i != number]
        allowed = [i for i in order if row[i] <= too_alike]
        found.append(allowed[:few] or order[-1:])
    return found
