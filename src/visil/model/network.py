"""The network of the paper, top to bottom (Sec. 4, Fig. 2): frames to features, features to one score.

::

    frames [T, H, W, 3] ─ backbone ─▶ maps ─ regions ─▶ [T, R, C] ─ whitening, attention ─▶ features [T, R, D]
    query [X, R, D], target [Y, R, D] ─ Eq. 5 ─▶ S_f [X, Y] ─ Table 1, hard tanh ─▶ S_v [X', Y'] ─ Eq. 6 ─▶ CS_v

Plain torch, differentiable, nothing tuned: :class:`visil.ViSiL` adds video files, answers and speed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import torch
from torch import Tensor, nn

from visil.errors import ModelError
from visil.model import regions
from visil.model.attention import BinaryCode, ContextAttention, HiddenAttention
from visil.model.backbones import Backbone, backbone_spec, stage_maps
from visil.model.backbones.weights import load_into, read_checkpoint
from visil.model.background import FixedBackground
from visil.model.comparator import Comparator, repeated
from visil.model.config import ViSiLConfig
from visil.model.formula import Formula
from visil.model.reader import Reader
from visil.model.whitening import Whitening

NO_FEATURES = ("comparator.", "background.", "reader.")
"""Parts that features do not depend on."""


class Network(nn.Module):
    """Backbone, regions, whitening, attention, similarity and comparator, composed as a configuration says."""

    def __init__(self, config: ViSiLConfig, *, with_backbone: bool = True) -> None:
        super().__init__()
        self.config = config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # parts that nothing is loaded into are the same on every machine
            backbone = backbone_spec(config.backbone).build()
            if max(config.stages) >= len(backbone.channels):
                raise ModelError(
                    f"{config.backbone} has stages 0 to {len(backbone.channels) - 1}, not {config.stages}"
                )
            self.channels = _channels(config, backbone)
            self.dim = config.dim or self.channels
            if self.dim > self.channels:
                raise ModelError(f"cannot whiten {self.channels} channels to {self.dim}")
            self.whitening = Whitening.unfitted(self.channels, self.dim) if config.dim else None
            self.attention = _attention(config, self.dim)
            self.comparator = Comparator(config.comparator) if config.comparator else None
            self.background = FixedBackground(config.background, self.dim) if config.background else None
            self.reader = Reader(config.reader) if config.reader else None
        self.backbone = backbone if with_backbone else None
        self.why_no_backbone = (
            "this model was loaded without a backbone: it compares features, but embeds nothing"
        )
        self.eval()

    # ------------------------------------------------------------------ frames to features

    def features(self, frames: Tensor) -> Tensor:
        """Frames uint8 [T, H, W, 3] to the vectors that are kept of a video, [T, R, D]."""
        return self.refine(self.region_vectors(frames))

    def region_vectors(self, frames: Tensor) -> Tensor:
        """L_N-iMAC (or the configured pooling) of frames uint8 [B, H, W, 3], before whitening: [B, R, C]."""
        return self.pooled(self.stage_maps(frames))

    def stage_maps(self, frames: Tensor) -> list[Tensor]:
        """The backbone's feature maps, each [B, C_k, H_k, W_k]."""
        if self.backbone is None:
            raise ModelError(self.why_no_backbone)
        return stage_maps(self.backbone, frames.to(self.device))

    def pooled(self, maps: Sequence[Tensor]) -> Tensor:
        """Region vectors from the backbone's maps: [B, R, C] (Sec. 4.1)."""
        chosen = [maps[i] for i in self.config.stages]
        if self.config.pooling == "imac":
            return regions.imac(chosen, self.config.levels)
        pool: Callable[[Sequence[Tensor]], Tensor] = getattr(regions, self.config.pooling)
        return pool(chosen)

    def refine(self, region_vectors: Tensor) -> Tensor:
        """Whitening and attention (Eq. 3), where the model has them: [..., C] to [..., D]."""
        if self.whitening is not None:
            region_vectors = self.whitening(region_vectors)
        if self.attention is not None:
            region_vectors = self.attention(region_vectors)
        return region_vectors

    # ------------------------------------------------------------------ features to a score

    @property
    def formula(self) -> Formula:
        """The formula that this model applies to two videos' features."""
        config = self.config
        binary = config.attention == "binary"
        return Formula(config.frame_pool, config.video_pool, config.symmetric, self.comparator, binary)

    def forward(self, query: Tensor, target: Tensor) -> Tensor:
        """CS_v of two videos' features, [X, R, D] and [Y, R, D], by the plain formulas: differentiable."""
        formula = self.formula
        query, target = repeated(query, self.comparator), repeated(target, self.comparator)
        frames = formula.frame_matrix(query, target)  # S_f: Eq. 4 and 5
        output = formula.output_matrix(frames)  # S_v: Table 1 and hard tanh
        return formula.video_similarity(output)  # CS_v: Eq. 6

    # ------------------------------------------------------------------ weights

    def fingerprint(self) -> str:
        """Tells models apart whose features must not be mixed: a hash of what features depend on."""
        digest = hashlib.sha256()
        names = ("backbone", "stages", "pooling", "levels", "dim", "whiten", "attention", "sampling")
        digest.update(repr([(name, getattr(self.config, name)) for name in names]).encode())
        if self.config.sampling.fit != "crop":  # younger than the format: left out where it changes nothing
            digest.update(self.config.sampling.fit.encode())
        for name, tensor in sorted(self.state_dict().items()):
            if not name.startswith(NO_FEATURES) and not name.endswith("num_batches_tracked"):
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().float().numpy().tobytes())
        return digest.hexdigest()[:32]

    @property
    def device(self) -> torch.device:
        """Where the model's tensors are."""
        return next((t.device for t in chain(self.parameters(), self.buffers())), torch.device("cpu"))

    def load_backbone(self, weights: str | os.PathLike[str] | None = None) -> Self:
        """Fill the backbone from a checkpoint file, or from where its weights are known to be."""
        spec = backbone_spec(self.config.backbone)
        path = Path(weights) if weights is not None else spec.weights.locate()
        backbone = spec.build()
        load_into(backbone, read_checkpoint(path), str(path), backbone.unused_keys)
        self.backbone = backbone.eval().to(self.device)
        return self


def _channels(config: ViSiLConfig, backbone: Backbone) -> int:
    widths = [backbone.channels[i] for i in config.stages]
    return sum(widths) if config.pooling == "imac" else widths[-1]


def _attention(config: ViSiLConfig, dim: int) -> ContextAttention | HiddenAttention | BinaryCode | None:
    match config.attention:
        case "context":
            return ContextAttention(dim)
        case "hidden":
            return HiddenAttention(dim)
        case "binary":
            return BinaryCode(dim)
    return None
