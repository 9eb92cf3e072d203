"""Clips joined into videos of minutes, and triplets of those: what the paper's own training videos are like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from visil.training.footage import Footage
from visil.training.pools import ArtificialPool, Related
from visil.training.snippets import Snippet
from visil.training.triplets import Triplet, TripletSampler, mutual

FRAMES = 200
"""Of a joined video, at least: a snippet of 96 is made from a stretch twice as long."""


def joined_epoch(
    footage: Footage,
    negatives: Sequence[Sequence[int]],
    related: Related,
    number: int,
    *,
    triplets: int,
    window: int,
    seed: int,
) -> list[Triplet]:
    """An epoch of the paper's artificial triplets over clips that are joined anew; frames name the clips again."""
    lengths = [len(footage.times(video)) for video in range(len(footage))]
    rng = np.random.default_rng([seed, number])
    videos = joined(lengths, related, rng)
    near = [{n for clip in clips for n in negatives[clip]} for clips in videos]
    kin = [{k for clip in clips for k in related[clip]} for clips in videos]
    strangers = [
        [
            other
            for other, theirs in enumerate(videos)
            if other != video and near[video] & set(theirs) and not kin[video] & set(theirs)
        ]
        for video in range(len(videos))
    ]
    sampler = TripletSampler(
        [ArtificialPool(range(len(videos)), strangers)],
        [_seconds(sum(lengths[clip] for clip in clips)) for clips in videos],
        triplets,
        window,
        seed=seed,
    )
    frames = [[(clip, place) for clip in clips for place in range(lengths[clip])] for clips in videos]

    def named(snippet: Snippet) -> Snippet:
        return Snippet(tuple(frames[video][position] for video, position in snippet.frames), snippet.seed)

    return [Triplet(named(t.anchor), named(t.positive), named(t.negative)) for t in sampler.epoch(number)]


def joined(lengths: Sequence[int], related: Related, rng: np.random.Generator) -> list[list[int]]:
    """All clips in random order, cut into videos of at least :data:`FRAMES` frames; related clips share a video."""
    videos: list[list[int]] = [[]]
    for clips in _kin(related, rng.permutation(len(lengths)).tolist()):
        if sum(lengths[clip] for clip in videos[-1]) >= FRAMES:
            videos.append([])
        videos[-1] += clips
    if len(videos) > 1 and sum(lengths[clip] for clip in videos[-1]) < FRAMES:
        last = videos.pop()
        videos[-1] += last
    return videos


def _kin(related: Related, order: Sequence[int]) -> Iterator[list[int]]:
    """Clips with those that are related to them."""
    both, seen = mutual(related), set[int]()
    for first in order:
        if first not in seen:
            clips = sorted(both[first] - seen)
            seen.update(clips)
            yield clips


def _seconds(frames: int) -> Tensor:
    return torch.arange(frames, dtype=torch.float64)
