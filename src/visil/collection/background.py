"""The background of a collection: frames that look like much of it say little about which video a query came from.

A face before a wall, a pitch, a studio: in some collections hundreds of videos show nearly that. Each frame of a query
is held against a sample of the collection, at most one frame a video; how alike its nearest ten are, beyond what is
typical there, is taken off its similarities before stretches are looked for and confidence is worked out. It can only
lower them, and by little enough that a plain copy is still one, were it in the collection fifty times. ``score`` stays
the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.kernels.signs import signs_only
from visil.model.codes import decode, encode
from visil.model.features import VideoFeatures, shown_vectors

if TYPE_CHECKING:
    from visil.collection.parts import Parts

SAMPLE = 256
"""Videos that the sample takes a frame of."""

LEAST = 30
"""A smaller sample says nothing about common footage: its nearest frames are the matches themselves."""

NEAREST = 10
"""Frames of the sample whose likeness tells how common a frame is."""

MOST = 0.2
"""The most that is taken off a similarity."""


class Background:
    """A sample of a collection's frames [N, R, C]."""

    def __init__(self, model: ViSiL, frames: Sequence[Tensor]) -> None:
        self._model = model
        self._frames = torch.stack(list(frames)).float() if len(frames) >= LEAST else None
        self.typical = 0.0
        """How common the sample's own frames are, at the median."""
        if self._frames is not None:
            alike = self._alike(self._frames)
            np.fill_diagonal(alike, -1.0)
            self.typical = float(np.median(_mean_of_nearest(alike)))

    @classmethod
    def of(cls, model: ViSiL, videos: Iterable[VideoFeatures]) -> Background:
        """The middle one of each video's frames that are not blank."""
        frames = (middle_frame(video) for video in videos)
        return cls(model, [frame for frame in frames if frame is not None])

    def beyond_typical(self, query: VideoFeatures) -> NDArray[np.float32] | None:
        """The amount to take off the similarities of each frame of a query, [T]; None: nothing is known."""
        if self._frames is None:
            return None
        common = _mean_of_nearest(self._alike(query.vectors.float()))
        return np.clip(common - self.typical, 0.0, MOST).astype(np.float32)

    @torch.inference_mode()
    def _alike(self, vectors: Tensor) -> NDArray[np.float32]:
        assert self._frames is not None
        if signs_only(self._frames) and not signs_only(vectors):
            # Signs are more like signs than like whole vectors: only among their own kind is "typical" typical.
            vectors = decode(encode(vectors, "binary")).float()
        return self._model.scorer().frames(vectors, [self._frames]).cpu().numpy()


def sampled(parts: Parts) -> Background:
    """From all parts together; which order videos came in, and where they are, makes no difference.

    A reader goes by the background of its own model: what it answers does not depend on the collection.
    """
    if parts.model.reader is not None:
        return Background(parts.model, [])
    chosen = parts.catalogue.sample(SAMPLE)
    asked = parts.by_place(video.number for video in chosen)
    answers = parts.connection.some("middle_frames", {place: (some,) for place, some in asked.items()})
    frames = {video: frame for found in answers.values() for video, frame in found.items()}
    return Background(parts.model, [frames[video.id] for video in chosen if video.id in frames])


def middle_frame(video: VideoFeatures) -> Tensor | None:
    """The middle one of a video's frames that are not blank, [R, C]; None where all are."""
    shown = shown_vectors(video)
    return shown[len(shown) // 2] if len(shown) else None


def _mean_of_nearest(alike: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.sort(alike, axis=1)[:, -NEAREST:].mean(axis=1)
