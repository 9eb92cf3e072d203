"""Videos that are features already, to learn from without pictures, as with I3D's features of action videos.

Everything but the pictures is as with footage: pools, hard negatives, snippets, losses, the trainer. Made positives are
changed in time alone, since there is no picture to change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.edits.clips import PaperPositive
from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.training.config import Part
from visil.training.embedding import SnippetEmbedder
from visil.training.snippets import Snippet


class FeatureFootage:
    """:class:`visil.training.footage.Footage` of vectors [T, R, C] a video, before any whitening.

    ``read`` gives the features of a name whenever they are needed, and nothing is kept here.
    """

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[str], VideoFeatures],
        times: Sequence[Tensor] | None = None,
    ) -> None:
        self.names, self._read = list(names), read
        known = times if times is not None else [read(name).timestamps for name in names]
        self._times = [seconds.double() for seconds in known]

    def __len__(self) -> int:
        return len(self.names)

    def times(self, video: int) -> Tensor:
        """Seconds of each vector."""
        return self._times[video]

    def images(self, video: int, positions: Sequence[int]) -> Tensor:  # noqa: ARG002
        """There are none."""
        raise UsageError(f"{self.names[video]}: is there as features only, and has no pictures")

    def vectors(self, video: int) -> Tensor:
        """[T, R, C]."""
        return self._read(self.names[video]).vectors.float()

    def some(self, videos: Sequence[int]) -> FeatureFootage:
        """Some of the videos, numbered from 0."""
        return FeatureFootage(
            [self.names[video] for video in videos], self._read, [self._times[video] for video in videos]
        )


class FeatureEmbedder(SnippetEmbedder):
    """Refined vectors of snippets of features; the seed of a snippet's picture transforms means nothing here."""

    def __init__(self, model: ViSiL, footage: FeatureFootage, learning: Collection[Part] = ()) -> None:
        if "backbone" in learning:
            raise UsageError("a backbone cannot learn from features: take it out of optim.trainable")
        super().__init__(model, footage, PaperPositive(), learning)
        self._stored = footage

    def pictures(self, snippet: Snippet) -> None:
        """Nothing has to be read."""

    @torch.no_grad()
    def _video_vectors(self, video: int) -> Tensor:
        return self._whitened(self._stored.vectors(video).to(self.model.device))
