"""videohash2: 64 bits for a whole video."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from peer import Scores, Video, all_pairs
from videohash2 import VideoHash  # type: ignore[import-not-found]

Bits = NDArray[np.uint8]


class Videohash:
    """Less the Hamming distance."""

    packages = ("videohash2", "ImageHash")
    note = "the package's own hash of the file; reads it with the ffmpeg on the path"

    def describe(self, video: Video) -> Bits:
        """64 bits."""
        with tempfile.TemporaryDirectory() as folder:
            return np.array(VideoHash(path=str(video.path), storage_path=folder).bitlist, np.uint8)

    def compare(self, queries: Mapping[str, Bits], targets: Mapping[str, Bits]) -> dict[str, Scores]:
        """One variant."""
        return {"videohash2": all_pairs(queries, targets, lambda a, b: -float((a != b).sum()))}
