"""Features of every video of a benchmark on disk, in half precision: made once, whatever tables follow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch

from visil.compare.visil import ViSiL
from visil.errors import FileError, UsageError, VideoError
from visil.files import replacing
from visil.model.features import VideoFeatures
from visil.model.whitening import PCA, Whitening
from visil.paper.features import SUFFIXES, WIDTHS, FeatureMaker, fitted, split_kind
from visil.paper.sources import Videos

FITTED_ON = 1_000_000
"""Vectors that a PCA is fitted on, at most about."""

LEARNED_FRAMES = 1 << 16
"""Frames that a system learns from, at most."""

OnVideos = Callable[[int, int, str], None]
"""Called with the videos done, those there are, and the last one's id."""


@dataclass(frozen=True)
class Networks:
    """Which networks features come from."""

    backbone: str = "efficientnet-lite0"
    backbone_weights: str | None = None
    model: ViSiL | None = None
    """For features of the kind "model"."""
    i3d_weights: str | None = None
    device: str | torch.device = "cpu"
    _keys: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def maker(self, bases: Iterable[str]) -> FeatureMaker:
        """What makes these kinds."""
        return FeatureMaker(
            bases,
            backbone=self.backbone,
            backbone_weights=self.backbone_weights,
            model=self.model,
            i3d_weights=self.i3d_weights,
            half=True,
            device=self.device,
        )

    def key(self, base: str) -> str:
        """Changes whenever features of this kind would."""
        if base not in self._keys:
            if base == "model":
                assert self.model is not None
                self._keys[base] = self.model.fingerprint()
            else:
                file = self.i3d_weights if base == "i3d" else self.backbone_weights
                size = os.path.getsize(file) if file else 0
                self._keys[base] = repr(("i3d" if base == "i3d" else self.backbone, file, size))
        return self._keys[base]


class FeatureBank:
    """Features of any kind of any id of ``videos``, kept in ``folder``."""

    def __init__(
        self, videos: Videos, folder: Path, networks: Networks, progress: OnVideos | None = None
    ) -> None:
        self.videos, self.folder, self.networks, self.progress = videos, folder, networks, progress
        self.unreadable: set[str] = set()
        self._fitted: dict[str, Whitening] = {}
        _make(folder)

    @cached_property
    def ids(self) -> list[str]:
        """Every id that a table needs and that is there: to learn from, queries, database."""
        benchmark, present = self.videos.benchmark, self.videos.present
        evaluated = (*benchmark.queries, *sorted(benchmark.database))
        here = (name for name in evaluated if present is None or name in present)
        return list(dict.fromkeys([*self.videos.learning, *here]))

    def prepare(self, kinds: Iterable[str]) -> None:
        """Make what is missing of these kinds, all of them from one pass over each video."""
        bases = list(dict.fromkeys(split_kind(kind)[0] for kind in kinds))
        missing = {
            name: [base for base in bases if not self._file(name, base).exists()]
            for name in self.ids
            if name not in self.unreadable
        }
        missing = {name: own for name, own in missing.items() if own}
        if not missing:
            return
        maker = self.networks.maker([base for base in bases if any(base in own for own in missing.values())])
        for done, name in enumerate(missing, 1):
            try:
                found = self.videos.raw(name, maker)
            except VideoError as error:
                self.unreadable.add(name)
                self.videos.failed.append((error.path, error.reason))
            else:
                for base, features in found.items():
                    _write(self._file(name, base), features)
            if self.progress is not None:
                self.progress(done, len(missing), name)

    def features(self, name: str, kind: str) -> VideoFeatures:
        """Features of an id, in single precision; :meth:`prepare` was called for the kind."""
        base, suffix = split_kind(kind)
        found = _read(self._file(name, base), name)
        if not suffix:
            return found
        if kind not in self._fitted:
            self._fitted[kind] = self._fit(base, whiten=SUFFIXES[suffix])
        vectors = self._fitted[kind](found.vectors)
        return VideoFeatures(vectors, found.timestamps, found.duration, found.path, found.blank)

    def readable(self, names: Iterable[str]) -> list[str]:
        """Those of some ids that have features."""
        here = set(self.ids) - self.unreadable
        return [name for name in names if name in here]

    def to_learn(self, kind: str) -> list[VideoFeatures]:
        """Videos to learn from: all, or evenly spaced ones where there are very many frames."""
        names = self.readable(self.videos.learning)
        if len(names) < 2:
            raise UsageError(
                f"at least two readable videos are needed to learn from, found {len(names)}: give --training"
            )
        first = [self.features(name, kind) for name in names[:8]]
        frames = sum(map(len, first)) / len(first) * len(names)
        step = max(1, round(frames / LEARNED_FRAMES))
        return first if len(names) <= 8 else [self.features(name, kind) for name in names[::step]]

    def whitening(self, base: str, width: int | None = None) -> Whitening:
        """PCA whitening of a kind, learned from the videos to learn from."""
        return self._fit(base, width=width, whiten=True)

    def _fit(self, base: str, width: int | None = None, *, whiten: bool) -> Whitening:
        pca = PCA()
        for vectors in self._learned(base):
            pca.partial_fit(vectors.vectors)
            if pca.count_ >= FITTED_ON:
                break
        return fitted(pca, width or WIDTHS.get(base), whiten=whiten)

    def _learned(self, base: str) -> Iterator[VideoFeatures]:
        names: Sequence[str] = self.readable(self.videos.learning)
        if not names:
            raise UsageError("there are no videos to learn from: give --training")
        yield from (self.features(name, base) for name in names)

    def _file(self, name: str, base: str) -> Path:
        text = "\n".join((base, self.networks.key(base), self.videos.key(name)))
        return (
            self.folder
            / f"{hashlib.sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.safetensors"
        )


def _write(path: Path, features: VideoFeatures) -> None:
    from safetensors.torch import save_file

    tensors = {"vectors": features.vectors.half().contiguous(), "times": features.timestamps.contiguous()}
    if features.blank is not None:
        tensors["blank"] = features.blank.contiguous()
    with replacing(path) as fresh:
        save_file(tensors, fresh)


def _read(path: Path, name: str) -> VideoFeatures:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
        return VideoFeatures(tensors["vectors"].float(), tensors["times"], None, name, tensors.get("blank"))
    except (OSError, SafetensorError, KeyError) as error:
        raise FileError(path, "is missing or damaged: delete it and run again") from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(folder, f"cannot be made: {(error.strerror or str(error)).lower()}") from error
