"""Everything a training run can be told, as data; the defaults are the paper's (Sec. 5.2)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from visil.errors import UsageError
from visil.model.config import Attention
from visil.model.reader import ReaderConfig
from visil.model.similarity import Reduction

Part = Literal["attention", "comparator", "whitening", "backbone"]
Precision = Literal["fp32", "bf16", "fp16"]
Augmentation = Literal["paper", "heavy", "mild"]


@dataclass(frozen=True)
class DataConfig:
    """The data to learn from."""

    videos: tuple[str, ...] = ()
    """Files and folders."""
    pictures: tuple[str, ...] = ()
    """Folders of pictures that frames and the reader learn from beside the videos; sub-folders are kinds."""
    annotations: str | None = None
    """Which stretches of which videos show the same: the paper's first pool. None: made positives alone."""
    validation: tuple[str, ...] = ()
    """Files and folders to validate on; empty: a share of the training videos is held out."""
    held_out: float = 0.1
    """That share."""
    held_out_most: int = 500
    """Videos held out at most: each epoch compares a copy of every one with every other."""
    fps: float | None = None
    """Frames a second; None: as the model samples."""
    window: int = 64
    """W, frames of a snippet."""
    triplets: int = 1000
    """T, triplets a pool gives each epoch."""
    strings: int = 0
    """Above 0, beyond the paper: snippets are strung together from so many clips; for collections of short ones."""
    words: int | None = None
    """Words of each layer's codebook, by which hard negatives are found; None: as many as suit the collection."""
    without_hard: Literal["nearest", "skip"] = "nearest"
    """A video without hard negatives: has the most similar ones instead, or is left out as in the paper."""
    negatives: Literal["hard", "batch"] = "hard"
    """``batch``: nothing is mined, the other videos of a batch are the negatives (infonce alone), as in S2VS."""
    cache: str | None = None
    """Where decoded frames are kept; None: in the output folder."""


@dataclass(frozen=True)
class ModelConfig:
    """The model to train: one to start from, and changes to it. None: as it is there."""

    start: str = "default"
    """The default model, a preset of the paper, a model folder or a hub id."""
    name: str | None = None
    backbone: str | None = None
    backbone_weights: str | None = None
    stages: tuple[int, ...] | None = None
    levels: tuple[int, ...] | None = None
    dim: int | None = None
    attention: Attention | Literal["none"] | None = "context"
    comparator: Literal["replicate", "zeros", "none"] | None = "replicate"
    symmetric: bool | None = None
    frame_pool: tuple[Reduction, Reduction] | None = None
    """How regions become the similarity of two frames; ("max", "top3"): by the best three."""
    video_pool: tuple[Reduction, Reduction] | None = None
    """How frames become the similarity of two videos."""
    side: int | None = None
    """Pixels of the square frames."""
    fit: Literal["crop", "whole"] | None = None
    """Their centre, or all of them pressed into the square."""


@dataclass(frozen=True)
class LossConfig:
    """Eq. 7 to 9, the contrastive losses of S2VS, or distillation as in DnS."""

    kind: Literal["triplet", "infonce", "distillation"] = "triplet"
    """``infonce`` sets each pair against all others in the batch; with several processes, of the same process.
    ``distillation``: the pairs of triplets are to have the similarities that a teacher gives them."""
    teacher: str | None = None
    """Of ``distillation``: the default model, a model folder or a hub id; the student sees frames as it does."""
    margin: float = 0.5
    """γ of Eq. 7."""
    regularisation: float = 0.1
    """r of Eq. 9."""
    temperature: float = 0.03
    """τ of InfoNCE."""
    hard_negative: float = 3.0
    """Weight of the hardest negatives and of self-similarity beside InfoNCE."""


@dataclass(frozen=True)
class OptimConfig:
    """How to learn. Adam; weight decay, where there is any, is decoupled (AdamW)."""

    epochs: int = 100
    """0: the frame stage alone."""
    batch: int = 1
    """Triplets of one step, over all processes together."""
    lr: float = 1e-5
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: int = 0
    """Steps in which the rate rises to ``lr``."""
    weight_decay: float = 0.0
    precision: Precision = "fp32"
    trainable: tuple[Part, ...] = ("attention", "comparator")


@dataclass(frozen=True)
class FrameStage:
    """How frames are learned from."""

    steps: int = 0
    """Steps; 0: no such stage."""
    batch: int = 192
    """Frames of one step, mostly each from another video."""
    fps: float = 4.0
    """Frames a second that are learned from; more than videos are compared at, since every frame teaches."""
    lr: float = 3e-4
    """Of the backbone; the projection learns at the same rate."""
    weight_decay: float = 1e-4
    warmup: int = 100
    temperature: float = 0.05
    """τ of InfoNCE over frame similarities."""
    margin: float = 0.0
    """Above 0: Eq. 7 with the hardest stranger of the batch, in place of InfoNCE."""
    learn: tuple[Part, ...] = ("backbone", "whitening")
    """The parts that learn: all of the backbone and the projection, or the projection alone."""
    composite: float = 0.5
    """Share of edited views that are a picture in a picture or a split screen."""
    scale: tuple[float, float] = (0.3, 0.7)
    """Side of the small picture, as a share of the large one's."""
    pictures: float = 0.6
    """Share of the batch that are pictures (``data.pictures``), where there are any."""
    twice: float = 0.0
    """Share of the batch's frames of videos that is a second moment of a video that is there already."""
    apart: float = 1.5
    """Seconds between two such moments, at least."""
    shift: float = 0.0
    """Seconds between the two views of a frame, at most."""
    strength: float = 1.0
    """Of the heavy edits."""
    spread: float = 0.0
    """Weight of a term that pushes each region away from its nearest stranger (the entropy term of SSCD)."""
    keep: float = 0.0
    """Decay of a running mean of all weights, which is what comes out in the end; 0: the weights as they are."""

    def __post_init__(self) -> None:
        if self.steps < 0 or self.batch < 2 or self.lr <= 0 or self.temperature <= 0:
            raise UsageError("frames: steps must be 0 or more, batch 2 or more, lr and temperature above 0")
        if not (0 <= self.composite <= 1 and 0 <= self.keep < 1 and 0 <= self.twice <= 0.5):
            raise UsageError("frames: composite lies in [0, 1], keep in [0, 1), twice in [0, 0.5]")
        if not 0 <= self.pictures < 1:
            raise UsageError("frames: pictures lies in [0, 1)")
        if min(self.spread, self.shift, self.apart, self.strength, self.margin) < 0 or self.fps <= 0:
            raise UsageError("frames: spread, shift, apart, strength and margin are 0 or more, fps above 0")
        if not self.learn or not set(self.learn) <= {"backbone", "whitening"}:
            raise UsageError("frames: learn names backbone, whitening or both")
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1] < 1:
            raise UsageError("frames: scale must be two rising shares between 0 and 1")


@dataclass(frozen=True)
class ReaderStage:
    """How the reader is learned, on features that stay as they are."""

    pieces: int = 0
    """Copied stretches that pairs are made of; 0, and no file of pairs: no such stage."""
    pairs: str | None = None
    """A file of pairs made before: nothing else is needed to learn from."""
    uses: int = 2
    """Queries that each copy is part of."""
    strangers: int = 3
    """Targets without the original that each query meets beside the one with it."""
    shows: int = 300
    """Videos made of pictures, where there are any: at most so many."""
    background: int = 512
    """Region vectors of the fixed background."""
    shape: ReaderConfig = field(default_factory=ReaderConfig)
    epochs: int = 12
    """0: pairs are made and written, nothing is learned."""
    batch: int = 16
    """Queries of one step, each with all of its pairs."""
    lr: float = 3e-3
    weight_decay: float = 1e-4
    warmup: int = 50
    hardest: float = 0.05
    """Share of a pair's other cells that count: its worst ones."""
    ranking: float = 1.0
    """Weight of Eq. 7 over scores of the map."""
    margin: float = 0.5
    """γ of Eq. 7."""
    regularisation: float = 0.01
    """r of Eq. 9: weight of Eq. 8, which sums over all cells."""

    def __post_init__(self) -> None:
        least = {"pieces": 0, "uses": 1, "strangers": 1, "shows": 0, "background": 1, "epochs": 0, "batch": 1}
        for name, value in least.items():
            _at_least(f"reader.{name}", getattr(self, name), value)
        if self.lr <= 0 or min(self.weight_decay, self.warmup, self.ranking, self.margin) < 0:
            raise UsageError("reader: lr is above 0; weight_decay, warmup, ranking and margin are 0 or more")
        if not 0 < self.hardest <= 1 or self.regularisation < 0:
            raise UsageError("reader: hardest lies in (0, 1], regularisation is 0 or more")

    @property
    def wanted(self) -> bool:
        """Whether there is such a stage."""
        return self.pieces > 0 or self.pairs is not None


@dataclass(frozen=True)
class TrainConfig:
    """A training run."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    frames: FrameStage = field(default_factory=FrameStage)
    """A stage before: the backbone and the projection learn from single frames."""
    reader: ReaderStage = field(default_factory=ReaderStage)
    """A stage after the frames, in place of that on videos: the reader learns from pairs with known truth."""
    augmentation: Augmentation = "paper"
    """Transforms of made positives: one of each kind as in the paper, or the stronger mixtures of its successors."""
    seed: int = 0
    out: str = "trained"
    """Folder of the best model, the checkpoints and the log."""
    device: str = "auto"
    """Torch's name of the device; auto: CUDA where there is one."""
    checkpoint_steps: int = 500
    """Steps between checkpoints; there is one after each epoch besides."""
    tensorboard: bool = False
    """Write TensorBoard scalars beside the log."""
    recipe: str | None = None
    """The named recipe that this is, or that it changes (:mod:`visil.training.recipes`)."""

    def __post_init__(self) -> None:
        data, loss, optim = self.data, self.loss, self.optim
        _at_least("data.window", data.window, 4)
        _at_least("data.triplets", data.triplets, 1)
        _at_least("data.strings", data.strings, 0)
        _at_least("data.held_out_most", data.held_out_most, 2)
        if data.words is not None:
            _at_least("data.words", data.words, 1)
        _require(0 < data.held_out < 1, "data.held_out must lie between 0 and 1", data.held_out)
        _require(data.fps is None or 0 < data.fps <= 1000, "data.fps must be above 0", data.fps)
        for name, value in (("margin", loss.margin), ("regularisation", loss.regularisation)):
            _require(0 <= value < math.inf, f"loss.{name} must be 0 or more", value)
        _require(0 < loss.temperature < math.inf, "loss.temperature must be above 0", loss.temperature)
        _require(
            0 <= loss.hard_negative < math.inf, "loss.hard_negative must be 0 or more", loss.hard_negative
        )
        _require(
            data.negatives == "hard" or loss.kind == "infonce",
            "data.negatives: batch goes with loss.kind: infonce",
            loss.kind,
        )
        _require(
            (loss.kind == "distillation") == (loss.teacher is not None),
            "loss.teacher and loss.kind: distillation go together",
            loss.teacher,
        )
        if data.pictures and not self.frames.steps and not self.reader.pieces:
            raise UsageError(
                "pictures teach the frame stage and the reader: set frames.steps or reader.pieces"
            )
        _at_least("optim.epochs", optim.epochs, 0 if self.frames.steps or self.reader.wanted else 1)
        _at_least("optim.batch", optim.batch, 2 if data.negatives == "batch" else 1)
        _at_least("optim.warmup", optim.warmup, 0)
        _require(0 < optim.lr < math.inf, "optim.lr must be above 0", optim.lr)
        _require(
            0 <= optim.weight_decay < math.inf, "optim.weight_decay must be 0 or more", optim.weight_decay
        )
        _require(bool(optim.trainable), "optim.trainable must name a part", optim.trainable)
        _at_least("checkpoint_steps", self.checkpoint_steps, 1)
        _at_least("seed", self.seed, 0)

    def to_dict(self) -> dict[str, Any]:
        """As a configuration file would hold it."""
        return asdict(self)

    def decisive(self) -> dict[str, Any]:
        """The settings that results depend on, flat (``loss.margin``): a run is resumed only under the same."""
        aside = {"out", "device", "checkpoint_steps", "tensorboard", "data.cache", "recipe"}
        flat: dict[str, Any] = {}
        for name, value in self.to_dict().items():
            if isinstance(value, dict):
                flat |= {f"{name}.{inner}": v for inner, v in value.items()}
            else:
                flat[name] = value
        return {k: list(v) if isinstance(v, tuple) else v for k, v in flat.items() if k not in aside}


def _at_least(name: str, value: int, least: int) -> None:
    _require(value >= least, f"{name} must be {least} or more", value)


def _require(condition: bool, message: str, value: object) -> None:
    if not condition:
        raise UsageError(f"{message}, not {value!r}")
