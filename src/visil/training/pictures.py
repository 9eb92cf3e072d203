"""Pictures to learn from beside videos: what films seldom show (slides, screens, charts, maps) teaches frames as well.

A folder's sub-folders are kinds. Kinds are drawn by the square root of their number, so that a hundred maps are seen
often enough among four thousand photographs, and not as if they were as many.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import FileError, UsageError, VideoError, os_reason
from visil.matching.blank import GROUND_SHARE, blank_frames
from visil.processes import usable_cores
from visil.progress import Counted
from visil.video import Sampling
from visil.video.container import is_image_path
from visil.video.images import square_image

CHUNK = 256
"""Pictures that are read before the next ones are."""


@dataclass(frozen=True)
class Pictures:
    """Pictures of one size, and what kind each is of."""

    images: Tensor
    """uint8 [N, H, W, 3]"""
    kinds: list[str]
    failed: list[tuple[str, str]]
    """Pictures left out, each with the reason."""
    identity: str
    """Tells collections apart: how many, and a hash of their names and sizes in bytes."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """How often each is drawn, in shares: kinds by the square root of their number."""
        _, own, counts = np.unique(self.kinds, return_inverse=True, return_counts=True)
        weights = 1 / np.sqrt(counts[own])
        return np.asarray(weights / weights.sum())


def read_pictures(
    folders: Sequence[str],
    sampling: Sampling,
    progress: Counted | None = None,
    ground_share: float = GROUND_SHARE,
) -> Pictures:
    """All pictures below some folders, as a video's frames would be sampled; blank ones are left out."""
    files = [found for folder in folders for found in _below(Path(folder))]
    if not files:
        raise UsageError(f"no pictures below {', '.join(folders)}: give a folder with JPEG or PNG files")
    digest = hashlib.sha256()
    for file, kind in files:
        digest.update(f"{kind}/{file.name} {file.stat().st_size}\n".encode("utf-8", "surrogateescape"))
    images: list[NDArray[np.uint8]] = []
    kinds: list[str] = []
    failed: list[tuple[str, str]] = []

    def read(file: Path) -> NDArray[np.uint8] | VideoError:
        try:
            return square_image(file, file, sampling)
        except VideoError as error:
            return error

    with ThreadPoolExecutor(usable_cores(), "visil-pictures") as pool:
        for start in range(0, len(files), CHUNK):
            some = files[start : start + CHUNK]
            for (file, kind), found in zip(some, pool.map(read, [file for file, _ in some]), strict=True):
                if isinstance(found, VideoError):
                    failed.append((os.fspath(file), found.reason))
                elif not blank_frames(torch.from_numpy(found)[None], ground_share)[0]:
                    images.append(found)
                    kinds.append(kind)
            if progress is not None:
                progress(start + len(some), len(files), os.fspath(some[-1][0]))
    if not images:
        raise UsageError(f"no picture below {', '.join(folders)} could be read")
    pixels = torch.from_numpy(np.stack(images))
    return Pictures(pixels, kinds, failed, f"{len(images)} ({digest.hexdigest()[:16]})")


def _below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Pictures below a folder in the order of their paths, each with its kind: the first folder on the way to it."""
    if not folder.is_dir():
        raise FileError(folder, "is no folder of pictures")

    def cannot(error: OSError) -> None:
        raise FileError(error.filename or folder, f"cannot be read: {os_reason(error)}") from error

    for place, folders, names in os.walk(folder, onerror=cannot):
        folders.sort()
        inner = Path(place).relative_to(folder).parts
        kind = inner[0] if inner else folder.resolve().name
        for name in sorted(names):
            file = Path(place, name)
            if not name.startswith(".") and is_image_path(file) and file.is_file():
                yield file, kind
