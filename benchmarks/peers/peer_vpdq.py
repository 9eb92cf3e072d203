"""vPDQ as hydrusvideodeduplicator carries it: one PDQ hash (256 bits) a second, and the share of hashes that match."""

from __future__ import annotations

from collections.abc import Mapping

import av
import numpy as np
from hvdaccelerators import vpdq  # type: ignore[import-not-found]
from numpy.typing import NDArray
from peer import Scores, Video, all_pairs

SIDE = 512
QUALITY = 50
TOLERANCE = 31
Bits = NDArray[np.uint8]


class Vpdq:
    """Matched share in the better of both directions; ties are broken by the mean distance to the nearest hash."""

    packages = ("hydrusvideodeduplicator", "hvdaccelerators")
    note = "1 frame a second, quality 50 or more, distance 31 or less, better of both directions"

    def describe(self, video: Video) -> Bits:
        """Bits [frames, 256] of the frames with enough detail."""
        bits = []
        for picture in video.every(1.0):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            # As the package prepares its frames: 512 × 512, nearest pixel.
            square = frame.reformat(
                SIDE, SIDE, "rgb24", interpolation=av.video.reformatter.Interpolation.POINT
            )
            hashed, quality = vpdq.hash_frame(square.to_ndarray().tobytes(), SIDE, SIDE)
            if quality >= QUALITY:
                raw = hashed if len(hashed) == 32 else bytes.fromhex(hashed.decode())
                bits.append(np.unpackbits(np.frombuffer(raw, np.uint8)))
        return np.array(bits, np.uint8).reshape(-1, 256)

    def compare(self, queries: Mapping[str, Bits], targets: Mapping[str, Bits]) -> dict[str, Scores]:
        """One variant."""
        return {"vpdq": all_pairs(queries, targets, share)}


def share(a: Bits, b: Bits) -> float:
    """Per cent of hashes matched, plus less than a thousandth for the distance."""
    if not len(a) or not len(b):
        return 0.0
    distance = (a[:, None, :] != b[None]).sum(axis=-1)
    nearest = [distance.min(axis=1), distance.min(axis=0)]
    matched = max(float((d <= TOLERANCE).mean()) for d in nearest)
    return 100 * matched + 1e-3 * (1 - min(float(d.mean()) for d in nearest) / 256)
