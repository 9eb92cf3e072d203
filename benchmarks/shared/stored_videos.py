"""Feature files and collections of videos whose features are known, without video files behind them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

import visil
from visil.collection.catalogue import NewVideo
from visil.collection.identity import Stamp
from visil.collection.index import Index
from visil.collection.store import Features


def stored(store: Features, videos: Sequence[visil.VideoFeatures]) -> list[str]:
    """Feature files of videos, and their ids."""
    ids = [f"{number:032x}" for number in range(len(videos))]
    for name, video in zip(ids, videos, strict=True):
        assert video.blank is not None
        writer = store.writer(name)
        writer.append(video.vectors, video.timestamps.double().numpy(), video.blank)
        writer.finish(video.duration or 0.0)
    return ids


def store_video(index: Index, name: str, vectors: Tensor) -> None:
    """A video whose features are known, without a file behind it."""
    video = name.encode().hex().ljust(32, "0")[-32:]
    writer = index.store.writer(video)
    writer.append(
        vectors, np.arange(len(vectors), dtype=np.float64), torch.zeros(len(vectors), dtype=torch.bool)
    )
    frames = writer.finish(float(len(vectors)))
    index.catalogue.add(
        NewVideo(video, frames, float(frames), 256, 256, "", None, 0, 0), f"/{name}", Stamp(0, 0)
    )
