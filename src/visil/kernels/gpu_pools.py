"""Which poolings the GPU kernels know; plain torch takes the others."""

from __future__ import annotations

from visil.model.similarity import Reduction


def supports(frame_pool: tuple[Reduction, Reduction], video_pool: tuple[Reduction, Reduction]) -> bool:
    """Regions: each one's best partner, then any reduction. Videos: Chamfer similarity."""
    return frame_pool[0] == "max" and video_pool == ("max", "mean")
