"""What all rows of the ablation share, computed once: footage, mined negatives, vectors of what does not learn."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from shared.ablation_joined import joined_epoch
from visil.compare.visil import ViSiL
from visil.edits.clips import PaperPositive
from visil.errors import UsageError
from visil.model.attention import ContextAttention
from visil.model.comparator import Comparator
from visil.model.config import ViSiLConfig
from visil.paper.ablation import VARIANTS, Variant
from visil.training.config import DataConfig, LossConfig, OptimConfig, TrainConfig
from visil.training.dataset import Split
from visil.training.embedding import SnippetEmbedder
from visil.training.footage import ArrayFootage, Footage
from visil.training.hard_negatives import Miner, suitable_size
from visil.training.lbow import LayerBagOfWords, layer_vectors
from visil.training.pools import ArtificialPool, Related
from visil.training.snippets import Snippet
from visil.training.triplets import Triplet, TripletSampler
from visil.training.validation import edited_copies
from visil.training.whitening import fit_on_footage

BACKBONE = "efficientnet-lite0"

THREADS = 16
CLIPS = 8
"""Positives embedded together."""


@dataclass(frozen=True)
class Settings:
    """What all rows share."""

    epochs: int
    distinct: int
    """Epochs of triplets of their own; then they come again, at no cost for the backbone."""
    triplets: int
    batch: int
    lr: float
    strings: int
    dim: int
    seed: int
    window: int | None
    """W of every row is at most this, for a try; None: its own."""

    def snippet(self, row: Variant) -> int:
        """W of a row."""
        return row.window if self.window is None else min(row.window, self.window)

    def training(self, row: Variant, out: Path, device: torch.device) -> TrainConfig:
        """The product's configuration of a row: the paper's recipe (Eq. 7 to 9), shorter and at a higher rate."""
        return TrainConfig(
            data=DataConfig(window=self.snippet(row), triplets=self.triplets, strings=self.strings),
            loss=LossConfig(margin=row.margin, regularisation=row.regularisation),
            optim=OptimConfig(
                epochs=row.epochs or self.epochs, batch=self.batch, lr=row.lr or self.lr, schedule="cosine"
            ),
            seed=self.seed,
            out=str(out),
            device=str(device),
            checkpoint_steps=1_000_000,
        )


class Words(LayerBagOfWords):
    """Codebooks by k-means in torch: the machine this runs on may have no faiss."""

    def _codebook(self, vectors: Tensor) -> Tensor:
        return kmeans(vectors, self.size, self.iterations, self.seed)


def kmeans(vectors: Tensor, size: int, iterations: int, seed: int) -> Tensor:
    """Lloyd's algorithm from random vectors; a word that nothing is nearest to stays where it is."""
    if len(vectors) <= size:
        return vectors.clone()
    chosen = np.random.default_rng(seed).choice(len(vectors), size, replace=False)
    words = vectors[torch.from_numpy(chosen)]
    for _ in range(iterations):
        nearest = torch.cdist(vectors, words).argmin(dim=1)
        counts = torch.bincount(nearest, minlength=size)
        sums = torch.zeros_like(words).index_add_(0, nearest, vectors)
        words = torch.where((counts > 0)[:, None], sums / counts.clamp(min=1)[:, None], words)
    return words


class SharedEmbedder(SnippetEmbedder):
    """A row's own attention over vectors that all rows share: ``source`` has those of videos, ``made`` of positives."""

    def __init__(self, model: ViSiL, source: SnippetEmbedder, made: dict[Snippet, Tensor]) -> None:
        super().__init__(model, source.footage, source.transform)
        self._source, self._made = source, made

    def pictures(self, snippet: Snippet) -> Tensor | None:
        """None are needed."""

    def frozen(self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]) -> list[Tensor]:
        """Up to the whitening."""
        return [
            self._made[s].float() if s.seed is not None else self._source.frozen([s], [p])[0]
            for s, p in zip(snippets, pictures, strict=True)
        ]


@torch.no_grad()
def made(embedder: SnippetEmbedder, snippets: Sequence[Snippet]) -> dict[Snippet, Tensor]:
    """Vectors of transformed snippets up to the whitening, in half precision."""
    vectors: dict[Snippet, Tensor] = {}
    for start in range(0, len(snippets), CLIPS):
        some = snippets[start : start + CLIPS]
        found = embedder.frozen(some, [embedder.pictures(snippet) for snippet in some])
        vectors |= {snippet: v.half() for snippet, v in zip(some, found, strict=True)}
    return vectors


@dataclass(frozen=True)
class Epochs:
    """Triplets drawn ahead of time, and the vectors of their positives."""

    triplets: list[list[Triplet]]
    made: dict[Snippet, Tensor]

    def epoch(self, number: int) -> list[Triplet]:
        """Those of epoch ``number``, from the front again when all were seen."""
        return self.triplets[(number - 1) % len(self.triplets)]


class Prepared:
    """What all rows start from: backbone and whitening, footage on the device, mined negatives, frozen vectors."""

    def __init__(self, data: Split, settings: Settings, weights: Path | None, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.data = Split(on_device(data.training, device), on_device(data.validation, device), [], [])
        self.base = started(
            VARIANTS["f+W"].config(BACKBONE, settings.dim), self.data.training, weights, device
        )
        self.negatives, self.related = mined(self.base, self.data.training, settings.seed)
        self.source = SnippetEmbedder(self.base, self.data.training, PaperPositive())
        self.judge = SnippetEmbedder(self.base, self.data.validation, PaperPositive())
        self.queries, self.database = edited_copies(self.data.validation, 64, 1, strung=True)
        self.judged = made(self.judge, [query.snippet for query in self.queries])
        self._epochs: dict[tuple[int, bool], Epochs] = {}

    def model(self, row: Variant) -> ViSiL:
        """A row's model: the same backbone, the same whitening, untrained parts from the row's seed."""
        config = row.config(BACKBONE, self.settings.dim)
        model = ViSiL(config, with_backbone=False)
        if row.seed:
            torch.manual_seed(row.seed)
            model.attention = ContextAttention(model.dim) if config.attention is not None else None
            model.comparator = Comparator(config.comparator) if config.comparator is not None else None
        model.backbone = self.base.backbone
        if config.dim is not None:
            model.whitening = self.base.whitening
        return model.to(self.device)

    def epochs(self, row: Variant) -> Epochs:
        """Triplets of a row's snippets; drawn and embedded when first asked for."""
        window = self.settings.snippet(row)
        key = (window, row.joined)
        if key not in self._epochs:
            footage, negatives, related = self.data.training, self.negatives, self.related
            drawn = []
            for number in range(1, self.settings.distinct + 1):
                if row.joined:
                    drawn.append(
                        joined_epoch(
                            footage,
                            negatives,
                            related,
                            number,
                            triplets=self.settings.triplets,
                            window=window,
                            seed=self.settings.seed,
                        )
                    )
                else:
                    sampler = triplet_sampler(self.settings, window, footage, negatives, related)
                    drawn.append(sampler.epoch(number))
            changed = list(dict.fromkeys(t.positive for epoch in drawn for t in epoch))
            self._epochs[key] = Epochs(drawn, made(self.source, changed))
        return self._epochs[key]


def triplet_sampler(
    settings: Settings, window: int, footage: Footage, negatives: Sequence[Sequence[int]], related: Related
) -> TripletSampler:
    """The product's sampler over the second pool; our clips are short, so they are strung together."""
    videos = range(len(footage))
    return TripletSampler(
        [ArtificialPool(videos, negatives)],
        [footage.times(video) for video in videos],
        settings.triplets,
        window,
        seed=settings.seed,
        strings=settings.strings,
        related=related,
    )


def on_device(footage: Footage, device: torch.device) -> ArrayFootage:
    """All frames in the device's memory, where snippets are put together without a copy from the host."""
    videos = range(len(footage))

    def read(video: int) -> Tensor:
        return footage.images(video, range(len(footage.times(video))))

    with ThreadPoolExecutor(THREADS) as pool:
        images = [part.to(device) for part in pool.map(read, videos)]
    return ArrayFootage(images, [footage.times(video) for video in videos], footage.names)


def started(config: ViSiLConfig, footage: Footage, weights: Path | None, device: torch.device) -> ViSiL:
    """ImageNet's backbone, and a whitening fitted on the training frames."""
    file = None if weights is None else next(weights.glob(f"{config.backbone}-*"), None)
    if weights is not None and file is None:
        raise UsageError(f"{weights}: holds no weights of {config.backbone}")
    model = ViSiL(config, with_backbone=False).load_backbone(file).to(device)
    fit_on_footage(model, footage)
    return model


def mined(model: ViSiL, footage: Footage, seed: int) -> tuple[list[tuple[int, ...]], list[frozenset[int]]]:
    """Hard negatives of every clip by the product's miner, and which clips may show the same."""
    counts = [len(footage.times(video)) for video in range(len(footage))]
    frames = torch.cat([footage.images(video, range(count)) for video, count in enumerate(counts)])
    layers = layer_vectors(model, frames, batch=128)
    bags = Words(suitable_size(len(footage)), seed=seed).fit(layers)
    words = np.split(bags.frame_words(layers), np.cumsum(counts)[:-1])
    times = [footage.times(video) for video in range(len(footage))]
    miner = Miner(words, times, bags.vocabulary, fallback="nearest")
    return miner.artificial(range(len(footage))), miner.related()
