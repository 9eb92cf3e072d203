"""TMK+PDQF as the package perception carries it: frame hashes averaged (L1) or pooled by temporal kernels (L2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peer import Scores, Video, all_pairs
from perception.hashers.image.phash import PHashF  # type: ignore[import-not-found]
from perception.hashers.video.tmk import TMKL1, TMKL2  # type: ignore[import-not-found]


class _Remembered:
    """The package's own frame hash, worked out once for both levels."""

    def __init__(self) -> None:
        self.hasher = PHashF(hash_size=16, exclude_first_term=True, freq_shift=1)
        self.hash_length, self.dtype = self.hasher.hash_length, self.hasher.dtype
        self.distance_metric = self.hasher.distance_metric
        self._last: tuple[Any, Any] = (None, None)

    def compute(self, image: Any, hash_format: str) -> Any:
        """As ``PHashF.compute``."""
        if self._last[0] is not image:
            self._last = (image, self.hasher.compute(image, hash_format=hash_format))
        return self._last[1]


class Tmk:
    """One less the package's distance, without search over shifts, as its public comparison does it."""

    packages = ("Perception", "opencv-contrib-python-headless")
    note = "all 15 frames a second, less those too flat to hash; compute_distance of TMKL1 (cosine) and TMKL2"

    def __init__(self) -> None:
        self.frame_hasher = _Remembered()
        self.levels = {"tmk-l1": TMKL1(self.frame_hasher), "tmk-l2": TMKL2(self.frame_hasher)}

    def describe(self, video: Video) -> dict[str, Any]:
        """One vector for each level."""
        states: dict[str, Any] = dict.fromkeys(self.levels)
        for i, picture in enumerate(video.frames):
            # A frame without detail has no hash, and both levels stop at it.
            if self.frame_hasher.compute(picture, hash_format="vector") is None:
                continue
            for name, hasher in self.levels.items():
                states[name] = hasher.process_frame(picture, i, i / video.fps, states[name])
        return {name: hasher.hash_from_final_state(states[name]) for name, hasher in self.levels.items()}

    def compare(self, queries: Mapping[str, Any], targets: Mapping[str, Any]) -> dict[str, Scores]:
        """Both levels."""
        return {
            name: all_pairs(
                queries,
                targets,
                lambda a, b, hasher=hasher, name=name: 1 - hasher.compute_distance(a[name], b[name]).item(),
            )
            for name, hasher in self.levels.items()
        }
