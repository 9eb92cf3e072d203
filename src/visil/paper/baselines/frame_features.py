"""Frame features compared by dot product, frame by frame and then video by video: the rows of Table 2.

MAC, SPoC, R-MAC, GeM and iMAC have one vector a frame, so that S_f is their dot products; L2- and L3-iMAC have four
and nine, compared as ViSiL_f does (Eq. 5). The video's score is the raw Chamfer similarity of S_f.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from visil.kernels import Scorer
from visil.model.features import VideoFeatures
from visil.model.formula import Formula
from visil.paper.baselines.system import PlacedSystem, ScoreArray, checked

KINDS: dict[str, str] = {
    "MAC": "mac",
    "SPoC": "spoc",
    "R-MAC": "rmac",
    "GeM": "gem",
    "iMAC": "imac",
    "L2-iMAC": "l2-imac",
    "L3-iMAC": "l3-imac",
}
"""Names of Table 2, and the features that each reads."""

VARIANTS: dict[str, str] = {"": "", " +PCA": "+pca", " reduced": "+reduced"}
"""As they are; whitened; or, as the paper's small rows, reduced by PCA without whitening."""


class FrameFeatures(PlacedSystem):
    """One row of Table 2: any frame vectors, Eq. 5 and Chamfer similarity. Nothing is learned."""

    def __init__(self, name: str, reads: str) -> None:
        self.name, self.reads = name, reads

    @property
    def formula(self) -> Formula:
        """Eq. 5 and Chamfer similarity, without a network."""
        return Formula()

    def describe(self, video: VideoFeatures) -> Tensor:
        """The frames' vectors, [T, R, C]."""
        return checked(video)

    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """CS of the frame-to-frame similarities with each target."""
        return Scorer(self.formula, query.device).scores(query, targets)


FRAME_SYSTEMS = {
    f"{name}{variant}": partial(FrameFeatures, f"{name}{variant}", f"{kind}{suffix}")
    for name, kind in KINDS.items()
    for variant, suffix in VARIANTS.items()
}
"""Every name above in every variant."""
