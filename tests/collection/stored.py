"""Collections of random features for the tests of stores: nothing is decoded, so they cost next to nothing."""

from __future__ import annotations

import hashlib

import numpy as np
import torch
import torch.nn.functional as F

from visil.collection.catalogue import NewVideo
from visil.collection.identity import Stamp
from visil.collection.index import Index
from visil.model.features import VideoFeatures

REGIONS, CHANNELS = 14, 256


def features(seed: int, frames: int = 5, *, like: VideoFeatures | None = None) -> VideoFeatures:
    """Random unit vectors; those of ``like``, a little disturbed, where it is given."""
    generator = torch.Generator().manual_seed(seed)
    vectors = F.normalize(torch.randn(frames, REGIONS, CHANNELS, generator=generator), dim=-1)
    if like is not None:
        vectors = F.normalize(like.vectors.float() + 0.2 * vectors[: len(like)], dim=-1)
    blank = torch.zeros(len(vectors), dtype=torch.bool)
    times = torch.arange(len(vectors), dtype=torch.float64)
    return VideoFeatures(vectors, times, float(len(vectors)), None, blank)


def identity(name: str) -> str:
    return hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def put(index: Index, name: str, video: VideoFeatures) -> str:
    """A video as ``add`` puts it in, less the decoding. Returns its id."""
    assert index.model is not None
    assert video.blank is not None
    known = identity(name)
    writer = index.store.writer(known)
    writer.append(video.vectors, video.timestamps.numpy().astype(np.float64), video.blank)
    frames = writer.seal(float(len(video)))
    new = NewVideo(known, frames, float(frames), 64, 48, "h264", None, 1000, 0)
    index.catalogue.add(new, f"/videos/{name}.mp4", Stamp(1000, 5), place=writer.place)
    return known


def fill(index: Index, names: list[str]) -> None:
    """Videos that share nothing, but for each name ending in "copy", which is like the one before."""
    before = features(0)
    for name in names:
        seed = int(identity(name)[:6], 16)
        before = features(seed, like=before) if name.endswith("copy") else features(seed)
        put(index, name, before)
