"""Packs of frames: many videos in one file of JPEG bytes with an index, and their features."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import visil
from shared.copy_sets import LEFT_OUT

Span = tuple[int, int]


def write_pack(target: Path, videos: list[tuple[str, list[bytes]]]) -> None:
    """All videos in one file."""
    data = b"".join(frame for _, frames in videos for frame in frames)
    sizes = [len(frame) for _, frames in videos for frame in frames]
    np.savez(
        target,
        data=np.frombuffer(data, np.uint8),
        sizes=np.array(sizes, np.int64),
        names=np.array([name for name, _ in videos]),
        lengths=np.array([len(frames) for _, frames in videos], np.int64),
    )
    print(f"{target.name}: {len(videos)} videos, {len(sizes)} frames, {len(data) / 1e6:.1f} MB")


def write_packs(folder: Path, name: str, videos: list[tuple[str, list[bytes]]]) -> None:
    """In two halves, so that each travels alone."""
    half = len(videos) // 2
    write_pack(folder / f"{name}1.npz", videos[:half])
    write_pack(folder / f"{name}2.npz", videos[half:])


def read_pack(path: Path) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield (name, frames uint8 [T, H, W, 3])."""
    with np.load(path) as pack:
        data, sizes = pack["data"].tobytes(), pack["sizes"]
        ends = np.cumsum(sizes)
        at = 0
        for name, length in zip(pack["names"].tolist(), pack["lengths"].tolist(), strict=True):
            frames = [
                np.asarray(Image.open(io.BytesIO(data[ends[i] - sizes[i] : ends[i]])).convert("RGB"))
                for i in range(at, at + length)
            ]
            at += length
            yield name, np.stack(frames)


def embed_packs(model: visil.ViSiL, packs: Path, name: str) -> dict[str, Tensor]:
    """{video: region vectors}, half precision; kept beside the packs, since it takes minutes.

    Clips that were cut from one recording are left out (``LEFT_OUT``): nobody could tell them apart.
    """
    cache = packs / f"features-{name}.safetensors"
    if cache.exists():
        features = load_file(cache)
    else:
        features = {}
        for pack in sorted(packs.glob("*.npz")):
            for video, frames in read_pack(pack):
                features[video] = model.embed_frames(frames).vectors.half()
                if len(features) % 200 == 0:
                    print(f"{len(features)} videos embedded", flush=True)
        save_file(features, cache)
    left_out = {f"{source}/{clip}" for source, clips in LEFT_OUT.items() for clip in clips}
    return {video: vectors for video, vectors in features.items() if video.split("|")[0] not in left_out}


def random_cut(frames: int, rng: random.Random) -> Span:
    """Which frames of an edited copy are used: all of them, or 60 % and more of those of longer ones."""
    if frames < 5 or rng.random() < 0.3:
        return 0, frames - 1
    length = rng.randint(round(0.6 * frames), frames)
    first = rng.randint(0, frames - length)
    return first, first + length - 1
