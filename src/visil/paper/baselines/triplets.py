"""The triplets that ViSiL learns from, as features of another kind: what DML, VReL and LAMV are trained on.

Anchor, positive and negative are those of ``visil train`` (:mod:`visil.training.triplets`): the same pools, the same
hard negatives, the same edited pictures in the same order for the same seed. Only the vectors differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.files import make_folder
from visil.model.whitening import Whitening
from visil.training.config import TrainConfig
from visil.training.dataset import Split, read_footage, triplet_sampler
from visil.training.distributed import Processes
from visil.training.run import embedder
from visil.training.snippets import Snippet
from visil.training.triplets import Triplet
from visil.training.videos import Sampler

TOGETHER = 8
"""Triplets embedded at once."""

REMEMBERED = 1 << 30
"""Bytes of triplets kept, so that none is embedded twice."""


@dataclass(frozen=True)
class Drawn:
    """One triplet, vectors [t, R, C] each."""

    anchor: Tensor
    positive: Tensor
    negative: Tensor
    shift: float | None = None
    """Seconds that the shared footage is later in the positive than in the anchor; None: not known, or not one."""
    step: float = 1.0
    """Seconds from a frame to the next."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.anchor.nbytes + self.positive.nbytes + self.negative.nbytes


class TripletSource(Protocol):
    """Gives triplets for ever."""

    def draw(self) -> Drawn:
        """The next one."""


class SnippetEmbedding(Protocol):
    """Snippets to vectors, as :class:`visil.training.embedding.SnippetEmbedder` does."""

    def pictures(self, snippet: Snippet) -> Tensor | None:
        """The pictures that have to be read first."""

    def __call__(self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]) -> list[Tensor]:
        """Vectors [T, R, C] of each snippet."""


class SnippetTriplets:
    """A sampler's triplets, epoch after epoch; after ``epochs`` of them from the first again.

    ``step`` is the time between two frames. :meth:`whitened` gives the same triplets under a whitening, from vectors
    that are embedded once for both.
    """

    def __init__(
        self, sampler: Sampler, embed: SnippetEmbedding, *, step: float = 1.0, epochs: int = 100
    ) -> None:
        if epochs < 1:
            raise UsageError(f"triplets are drawn from 1 epoch or more, not {epochs}")
        self._sampler, self._embed, self._step, self._epochs = sampler, embed, step, epochs
        self._kept: list[Drawn] = []
        self._bytes = 0
        self._endless = self.drawn()

    def draw(self) -> Drawn:
        """The next triplet."""
        return next(self._endless)

    def whitened(self, whitening: Whitening | None) -> TripletSource:
        """The same triplets from the first one on, their vectors whitened."""
        return _Whitened(self.drawn(), whitening)

    def drawn(self) -> Iterator[Drawn]:
        """All triplets from the first one on, again and again."""
        while True:
            place = 0
            for triplets in self._batches():
                if place + len(triplets) <= len(self._kept):
                    yield from self._kept[place : place + len(triplets)]
                else:
                    yield from self._remembered(self._embedded(triplets), place)
                place += len(triplets)

    def _batches(self) -> Iterator[list[Triplet]]:
        for number in range(1, self._epochs + 1):
            triplets = self._sampler.epoch(number)
            for start in range(0, len(triplets), TOGETHER):
                yield triplets[start : start + TOGETHER]

    def _embedded(self, triplets: Sequence[Triplet]) -> list[Drawn]:
        snippets = [snippet for t in triplets for snippet in (t.anchor, t.positive, t.negative)]
        vectors = self._embed(snippets, [self._embed.pictures(snippet) for snippet in snippets])
        found = deque(part.detach() for part in vectors)
        return [
            Drawn(
                *(found.popleft(), found.popleft(), found.popleft()),
                shift=_in_seconds(common_shift(t.anchor, t.positive), self._step),
                step=self._step,
            )
            for t in triplets
        ]

    def _remembered(self, batch: list[Drawn], place: int) -> list[Drawn]:
        size = sum(drawn.size for drawn in batch)
        if place == len(self._kept) and self._bytes + size <= REMEMBERED:
            self._kept += batch
            self._bytes += size
        return batch


class _Whitened:
    """With a whitening of its own, which goes where the vectors are; the one that was given stays where it is."""

    def __init__(self, source: Iterator[Drawn], whitening: Whitening | None) -> None:
        self._source, self._whitening = source, deepcopy(whitening)

    def draw(self) -> Drawn:
        drawn = next(self._source)
        if self._whitening is None:
            return drawn
        whiten = self._whitening.to(drawn.anchor.device)
        return replace(
            drawn,
            anchor=whiten(drawn.anchor),
            positive=whiten(drawn.positive),
            negative=whiten(drawn.negative),
        )


def common_shift(anchor: Snippet, positive: Snippet) -> int | None:
    """Frames that shared footage is later in the positive, where all of it moved alike; else None."""
    places = {frame: place for place, frame in enumerate(anchor.frames)}
    shifts = {place - places[frame] for place, frame in enumerate(positive.frames) if frame in places}
    return shifts.pop() if len(shifts) == 1 else None


def _in_seconds(frames: int | None, step: float) -> float | None:
    return None if frames is None else frames * step


def lesson(
    config: TrainConfig,
    model: ViSiL,
    data: Split | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
) -> SnippetTriplets:
    """The triplets that ``visil train`` would draw under these settings, as features that ``model`` makes.

    ``data`` is what was read already, such as videos that are features; by default the videos of the settings. What
    mining finds is kept beside the frames, for all that reads these.
    """
    out = make_folder(config.out, "the folder of triplets")
    if data is None:
        cache = Path(config.data.cache) if config.data.cache is not None else out / "frames"
        data = read_footage(config.data, model.config.sampling, cache, tell)
    sampler, _ = triplet_sampler(config, model, data, Processes(device=model.device), anew=False)
    embed = embedder(config, model, data.training)
    return SnippetTriplets(sampler, embed, step=_step(data), epochs=config.optim.epochs)


def _step(data: Split) -> float:
    """Seconds from a frame to the next, in most videos."""
    gaps = [data.training.times(video).diff() for video in range(len(data.training))]
    known = torch.cat([some for some in gaps if len(some)] or [torch.ones(1)])
    return float(known.median())
