"""Features of every video of a benchmark, in files such as collections have: made once, whatever tables follow.

Several videos are read and embedded at once, and one file is written for each video and kind of features; a run that
was stopped goes on with missing ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch

from visil.collection.extraction import extract
from visil.collection.feature_writer import FeatureWriter
from visil.collection.store import FeatureStore
from visil.compare.visil import ViSiL
from visil.errors import FileError, IndexFolderError, UsageError, VideoError
from visil.evaluation.annotations import sha256_of
from visil.files import make_folder
from visil.machine.processor import usable_cores
from visil.model.backbones import backbone_spec
from visil.model.features import VideoFeatures
from visil.model.whitening import PCA, Whitening
from visil.paper.feature_kinds import (
    I3D_KIND,
    LEVELS,
    SUFFIXES,
    VGG,
    WIDTHS,
    FeatureMaker,
    fitted,
    split_kind,
)
from visil.paper.videos import Videos
from visil.progress import Counted
from visil.training.sampled_frames import SampledFrames
from visil.video import Frames, probe

FITTED_ON = 1_000_000
"""Vectors that a PCA is fitted on, at most about, spread evenly over all videos to learn from."""

LEARNED_FRAMES = 1 << 16
"""Frames that a system learns from, at most about."""

LOOKED_AT = 100
"""Videos to learn from whose length is looked up, to tell how many frames all of them have."""


@dataclass(frozen=True)
class Networks:
    """Which networks features come from."""

    backbone: str = "efficientnet-lite0"
    backbone_weights: str | None = None
    model: ViSiL | None = None
    """For features of the kind "model"."""
    i3d_weights: str | None = None
    vgg_weights: str | None = None
    device: str | torch.device = "cpu"
    _keys: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def maker(self, bases: Iterable[str]) -> FeatureMaker:
        """A maker of these kinds."""
        return FeatureMaker(
            bases,
            backbone=self.backbone,
            backbone_weights=self.backbone_weights,
            model=self.model,
            i3d_weights=self.i3d_weights,
            vgg_weights=self.vgg_weights,
            device=self.device,
        )

    def check(self) -> None:
        """Refuse weights that do not fit their network: now, and not after the days that a row before takes."""
        files = {"imac": self.backbone_weights, I3D_KIND: self.i3d_weights, VGG: self.vgg_weights}
        self.maker(base for base, file in files.items() if file is not None)

    def backbone_at_hand(self) -> bool:
        """Whether the backbone's weights are on this machine."""
        return self.backbone_weights is not None or backbone_spec(self.backbone).weights.find() is not None

    def key(self, base: str) -> str:
        """Changes whenever features of this kind would."""
        if base not in self._keys:
            if base == "model":
                assert self.model is not None
                self._keys[base] = self.model.fingerprint()
            else:
                own = {I3D_KIND: self.i3d_weights, VGG: self.vgg_weights}
                file = own.get(base, self.backbone_weights)
                network = {I3D_KIND: "i3d, 25 frames a second", VGG: VGG}.get(base, self.backbone)
                self._keys[base] = f"{network} {sha256_of(file) if file else ''}"
        return self._keys[base]


class FeatureBank:
    """Features of any kind of any id of ``videos``, kept in ``folder``."""

    def __init__(
        self, videos: Videos, folder: Path, networks: Networks, progress: Counted | None = None
    ) -> None:
        self.videos, self.folder, self.networks, self.progress = videos, folder, networks, progress
        self._store = FeatureStore(folder)
        self.unreadable: dict[str, tuple[str, str]] = {}
        """Ids whose videos could not be read: their files, and why."""
        self._fitted: dict[str, Whitening] = {}
        self._pcas: dict[str, PCA] = {}
        make_folder(folder, "the folder of features")

    @cached_property
    def ids(self) -> list[str]:
        """Every id that is evaluated and that is there: queries, database."""
        benchmark, present = self.videos.benchmark, self.videos.present
        evaluated = (*benchmark.queries, *sorted(benchmark.database))
        return list(dict.fromkeys(name for name in evaluated if present is None or name in present))

    @cached_property
    def lessons(self) -> list[str]:
        """Ids of videos whose features systems learn from: all, or evenly spaced ones where there are very many."""
        names = list(self.videos.learning)
        looked_at = names[:: max(1, len(names) // LOOKED_AT)]
        seconds = [_seconds(self.videos.file(name)[0]) for name in looked_at]
        frames = self.videos.learning_fps * sum(seconds) / max(1, len(seconds)) * len(names)
        return names[:: max(1, round(frames / LEARNED_FRAMES))]

    def prepare(self, kinds: Iterable[str], names: Iterable[str] | None = None) -> None:
        """Make what is missing of these kinds, all of them from one pass over each video, I3D's from one of its own: of
        all videos that are evaluated, or of ``names``.
        """
        bases = list(dict.fromkeys(split_kind(kind)[0] for kind in kinds))
        if I3D_KIND in bases and len(bases) > 1:
            self.prepare([I3D_KIND], names)
            bases.remove(I3D_KIND)
        missing: dict[str, dict[str, FeatureWriter]] = {}
        for name in self.ids if names is None else names:
            writers = {
                base: self._store.writer(self._key(name, base))
                for base in bases
                if name not in self.unreadable
            }
            own = {base: writer for base, writer in writers.items() if not writer.target.exists()}
            if own:
                missing[name] = own
        if not missing:
            return
        self._store.clear_leftovers()
        maker = self.networks.maker([base for base in bases if any(base in own for own in missing.values())])
        work = _Preparing(self, AllKinds(maker, self.videos), missing)
        extract(work, list(missing), workers=usable_cores())

    def features(self, name: str, kind: str) -> VideoFeatures:
        """Features of an id, in single precision; :meth:`prepare` was called for the kind."""
        return self.finished(self._read(name, split_kind(kind)[0]), kind)

    def finished(self, found: VideoFeatures, kind: str) -> VideoFeatures:
        """Features of a kind from those before any PCA."""
        if not split_kind(kind)[1]:
            return found
        vectors = self.layer(kind)(found.vectors.float())
        return VideoFeatures(vectors, found.timestamps, None, found.path, found.blank)

    def layer(self, kind: str) -> Whitening:
        """Turns a kind without ``+pca`` or ``+reduced`` into one with it; fitted to the learning videos."""
        base, suffix = split_kind(kind)
        if kind not in self._fitted:
            self._fitted[kind] = fitted(self._pca(base), WIDTHS.get(base), whiten=SUFFIXES[suffix])
        return self._fitted[kind]

    def left_out(self, name: str, path: str, reason: str) -> None:
        """Note, and tell of once, that the video of an id cannot be read."""
        if name not in self.unreadable:
            self.unreadable[name] = (path, reason)
            self.videos.failed.append((path, reason))

    def readable(self, names: Iterable[str]) -> list[str]:
        """Those of some ids that have features."""
        here = {*self.ids, *self.videos.learning} - self.unreadable.keys()
        return [name for name in names if name in here]

    def to_learn(self, kind: str) -> list[VideoFeatures]:
        """Features of the videos to learn from, made now or before."""
        self.prepare([kind], self.lessons)
        names = self.readable(self.lessons)
        if len(names) < 2:
            raise UsageError(
                f"at least two readable videos are needed to learn from, found {len(names)}: give --training"
            )
        return [self.features(name, kind) for name in names]

    def _pca(self, base: str) -> PCA:
        """Of a kind's vectors, an even spread over all videos to learn from; of I3D's, over those it is made for."""
        if base not in self._pcas:
            pca = PCA()
            files = [Path(file) for file in self.videos.learning_files]
            if not files:
                raise UsageError("there are no videos to learn from: give --training")
            if base in (I3D_KIND, "model"):
                for features in self.to_learn(base):
                    pca.partial_fit(features.vectors)
            else:
                maker = self.networks.maker([base])
                sampling = replace(self.videos.sampling, fps=self.videos.learning_fps)
                most = FITTED_ON // max(1, LEVELS.get(base, 1) ** 2)
                for images in SampledFrames(files, sampling, most, self.progress):
                    pca.partial_fit(maker.embed_frames(images)[base].vectors)
            self._pcas[base] = pca
        return self._pcas[base]

    def _key(self, name: str, base: str) -> str:
        """The key that the features of an id are kept under: it changes whenever they would."""
        text = "\n".join((base, self.networks.key(base), self.videos.key(name)))
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def _read(self, name: str, base: str) -> VideoFeatures:
        key = self._key(name, base)
        try:
            found = self._store.read(key)
        except IndexFolderError as error:
            raise FileError(
                self._store.path(key), "is missing or damaged: delete it and run again"
            ) from error
        return VideoFeatures(found.vectors.float(), found.timestamps, None, name, found.blank)


@dataclass(frozen=True)
class NamedVideo:
    """:class:`visil.collection.extraction_work.Task`: an id that lacks features of some kinds."""

    name: str
    writers: dict[str, FeatureWriter]


@dataclass(frozen=True)
class AllKinds:
    """:class:`visil.collection.extraction_work.Method`: all kinds from one pass over each video."""

    embedder: FeatureMaker | None
    videos: Videos

    @property
    def side(self) -> int:
        """See :attr:`visil.collection.extraction_work.Method.side`."""
        return self.videos.sampling.crop

    def read(self, video: NamedVideo) -> AbstractContextManager[Iterator[Frames]]:
        """See :meth:`visil.collection.extraction_work.Method.read`."""
        moving = I3D_KIND in video.writers
        return nullcontext((self.videos.moving if moving else self.videos.batches)(video.name))

    def facts(self, _: object) -> None:
        """Nothing but features."""

    def duration(self, _: object) -> None:
        """Up to the last features."""


@dataclass
class _Preparing:
    """:class:`visil.collection.extraction_work.Work` on ids that lack features: {id: {kind: writer}}."""

    bank: FeatureBank
    method: AllKinds
    missing: dict[str, dict[str, FeatureWriter]]
    done: int = 0

    def claim(self, name: str) -> NamedVideo:
        return NamedVideo(name, self.missing[name])

    def embedded(self, frames: int) -> None:
        """Videos are counted, not frames."""

    def keep(self, video: NamedVideo, _: None) -> None:
        for writer in video.writers.values():
            writer.place()
        self._tell(video.name)

    def fail(self, name: str, _: NamedVideo | None, error: VideoError) -> None:
        self.bank.left_out(name, error.path, error.reason)
        self._tell(name)

    def _tell(self, name: str) -> None:
        self.done += 1
        if self.bank.progress is not None:
            self.bank.progress(self.done, len(self.missing), name)


def _seconds(file: str) -> float:
    try:
        return probe(file).duration or 0.0
    except VideoError:
        return 0.0
