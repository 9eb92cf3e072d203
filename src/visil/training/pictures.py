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
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.errors import FileError, UsageError, VideoError, os_reason
from visil.machine.processor import usable_cores
from visil.matching.blank import GROUND_SHARE, blank_frames
from visil.progress import Counted
from visil.video import Sampling
from visil.video.container import is_image_path
from visil.video.images import square_image

THUMB = 16
"""Side of the small pictures by which frames of one video are told apart."""

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


SLIDES = (3, 8)
"""Least and most pictures of a show."""

SECONDS = (1.5, 5.0)
"""Least and greatest time that a picture stays."""

NEAREST = 24
"""Pictures of the same kind that are most like a show's first one: the others of the show are among them."""


class SlideShows:
    """Footage: at most ``count`` shows of pictures, none of which is in two of them.

    A show's pictures are of one kind and look alike, as the slides of one deck and the windows of one program do; the
    next show of such pictures is its hardest stranger.
    """

    def __init__(self, pictures: Pictures, count: int, *, fps: float = 4.0, seed: int = 0) -> None:
        self._images = pictures.images
        rng = np.random.default_rng(seed)
        self._frames = [
            np.repeat(show, np.ceil(rng.uniform(*SECONDS, len(show)) * fps).astype(np.int64))
            for show in decks(small_pictures(pictures.images), pictures.kinds, count, rng)
        ]
        self._fps = fps
        self.identity = f"{len(self._frames)} shows of {pictures.identity}"
        """Tells such footage apart."""
        self.names = [f"slide show {number + 1}" for number in range(len(self._frames))]

    def __len__(self) -> int:
        return len(self._frames)

    def times(self, video: int) -> Tensor:
        """Seconds of each frame."""
        return torch.arange(len(self._frames[video]), dtype=torch.float64) / self._fps

    def images(self, video: int, positions: Sequence[int]) -> Tensor:
        """The frames at these positions."""
        return self._images[torch.from_numpy(self._frames[video][list(positions)])]


def decks(
    thumbs: NDArray[np.float32], kinds: Sequence[str], count: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Numbers of the pictures of each show: kinds in turn, look-alikes together, none twice."""
    left = {
        kind: rng.permutation([i for i, own in enumerate(kinds) if own == kind])
        for kind in sorted(set(kinds))
    }
    shows: list[NDArray[np.int64]] = []
    while len(shows) < count and left:
        for kind in list(left):
            pictures = left[kind]
            if len(pictures) < SLIDES[0]:
                del left[kind]
                continue
            apart = np.abs(thumbs[pictures] - thumbs[pictures[0]]).mean(axis=1)
            near = np.argsort(apart, kind="stable")[1 : NEAREST + 1]
            size = min(int(rng.integers(SLIDES[0], SLIDES[1] + 1)), len(pictures)) - 1
            chosen = np.concatenate([[0], rng.permutation(near)[:size]])
            shows.append(pictures[chosen])
            left[kind] = np.delete(pictures, chosen)
    return shows[:count]


def small_pictures(images: Tensor) -> NDArray[np.float32]:
    """Frames uint8 [N, H, W, 3] as small pictures, [N, 3 · THUMB²] in [0, 1], by which they are told apart."""
    parts = (part.permute(0, 3, 1, 2).float() / 255 for part in images.split(256))
    return np.concatenate([F.adaptive_avg_pool2d(part, THUMB).flatten(1).cpu().numpy() for part in parts])
