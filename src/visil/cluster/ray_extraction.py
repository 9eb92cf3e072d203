"""``visil add --ray``: the same run of ``add``, with decoding and embedding spread over a cluster by Ray Data.

Two streams of Ray Data for each window of files. The first hashes them where they are read; this process then knows
which are new. The second decodes on CPUs and embeds on actors, with as little between them as the object stores' memory
allows: Ray Data holds decoding back while embedding is behind. A video is decoded by one task.

Features come back here, and this process alone writes, by the same code as without a cluster
(:mod:`visil.collection.intake`). So nothing is doubled, whatever Ray runs twice: pieces are known by their first
sample. Ray runs the work of a dead process or node again. A video whose decoding ends its process each time is
given up in that stream, with those that were decoded by the same task, and each goes into the next one, alone, up to
``TRIES`` times.
"""

from __future__ import annotations

import copy
import os
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from visil.cluster.ray_session import Cluster, ClusterError
from visil.cluster.ray_work import (
    Attempts,
    Embedder,
    Errand,
    FoundFile,
    Sampled,
    Unreadable,
    WholeVideo,
    decode,
    look,
    looked,
    notes_of,
)
from visil.collection.feature_writer import FeatureWriter
from visil.collection.identity import Stamp
from visil.collection.intake import NO_STAMP, Engine, Facts, FailedFile, Intake, Job, Known
from visil.compare.visil import BATCH
from visil.errors import VideoError

if TYPE_CHECKING:
    import ray.data

WINDOW = 4096
"""Files that are looked at before they are decoded: so many names are in memory."""

ERRAND_SECONDS = 2.0 * BATCH
"""Short videos are decoded together until they are as long as this: a task for each would cost more than its work."""

TRIES = 3
"""Streams that a video may be missing at the end of."""

IN_FLIGHT = 2
"""Blocks that wait at an actor."""


Piece = tuple[NDArray[np.float16], NDArray[np.float64], NDArray[np.bool_]]
"""Vectors, timestamps, which are blank."""


class Pieces:
    """One video's features from pieces that come in any order, some of them twice: each is written once, in turn."""

    def __init__(self, writer: FeatureWriter) -> None:
        self.writer = writer
        self.written = 0
        """Frames in the file so far."""
        self._early: dict[int, Piece] = {}

    def add(self, start: int, piece: Piece) -> int:
        """A piece that begins at sample ``start``. Returns how many frames of it are new."""
        if start < self.written or start in self._early:
            return 0
        self._early[start] = piece
        while self.written in self._early:
            vectors, timestamps, blank = self._early.pop(self.written)
            self.writer.append(torch.from_numpy(vectors.copy()), timestamps, torch.from_numpy(blank.copy()))
            self.written += len(timestamps)
        return len(piece[1])


@dataclass
class _Open:
    """A video that is to be decoded."""

    job: Job
    look: FoundFile
    lost: bool = False
    """Whether everything else that this stream says about it is dropped: it will be read anew."""
    tries: int = 0
    pieces: Pieces | None = None
    ended: WholeVideo | None = None

    def discard(self) -> None:
        """Forget the part that was read."""
        self.job.writer.discard()
        self.pieces = self.ended = None


def over(cluster: Cluster, *, workers: int | None = None, gpus_per_actor: float = 0.0) -> Engine:
    """An engine for :meth:`visil.Index.add` that decodes and embeds over a cluster.

    ``workers`` is how many CPUs of the cluster to use, all by default; ``gpus_per_actor`` is the share of a GPU that
    each embedding actor has, 0 to embed on CPUs.
    """
    return RayEngine(cluster, workers=workers, gpus_per_actor=gpus_per_actor)


class RayEngine:
    """:class:`visil.collection.intake.Engine` over a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        workers: int | None = None,
        gpus_per_actor: float = 0.0,
        window: int = WINDOW,
    ) -> None:
        self.cluster = cluster
        self.workers = min(workers or cluster.cpus, cluster.cpus)
        self.gpus_per_actor = gpus_per_actor
        self.window = window

    def __call__(self, intake: Intake, files: list[Path]) -> None:
        """All files, once."""
        _Run(self, intake).run(files)


class _Run:
    """The work that one run has under way."""

    def __init__(self, engine: RayEngine, intake: Intake) -> None:
        self.engine = engine
        self.cluster = engine.cluster
        self.intake = intake
        self.sampling = intake.model.config.sampling
        self._under_way: dict[int, _Open] = {}
        self._streams = 0

    @cached_property
    def _model_there(self) -> Any:
        """The network in the cluster's memory."""
        import ray

        model = self.intake.model
        return ray.put(model if model.device.type == "cpu" else copy.deepcopy(model).cpu())

    @cached_property
    def _attempts(self) -> Any:
        import ray

        return ray.remote(Attempts).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()

    def run(self, files: list[Path]) -> None:
        window = self.engine.window
        try:
            with _data_settings(self.sampling.crop):
                for start in range(0, len(files), window):
                    self._take_in(files[start : start + window])
        finally:
            for held in self._under_way.values():
                held.discard()

    def _take_in(self, paths: list[Path]) -> None:
        fresh: list[tuple[Path, Stamp]] = []
        for path in paths:
            try:
                found = self.intake.look(path)
            except VideoError as error:
                found = FailedFile.of(path, error.reason, None)
            if isinstance(found, Stamp):
                fresh.append((path, found))
            else:
                self.intake.settle(found)
        for number, looked_at in enumerate(self._looks(fresh)):
            self._settle(number, *fresh[looked_at.number], looked_at)
        while self._under_way:
            self._stream()

    # ------------------------------------------------------------------ looking

    def _looks(self, files: list[tuple[Path, Stamp]]) -> Iterator[FoundFile]:
        """The nodes' findings at each path, in any order; a look that Ray lost is taken here."""
        self._streams += 1
        rows = [
            {"number": number, "path": os.fsencode(path), "key": f"{self._streams} {number}"}
            for number, (path, _) in enumerate(files)
        ]
        seen: set[int] = set()
        if rows:
            data = self._dataset(rows, -(-len(rows) // 64)).map(
                partial(look, attempts=self._attempts), num_cpus=1, concurrency=self._decoders(len(rows))
            )
            for row in self._rows(data):
                found = looked(row)
                if found.number not in seen:
                    seen.add(found.number)
                    yield found
        for row in rows:
            if row["number"] not in seen:
                yield looked(look(row))

    def _settle(self, number: int, path: Path, stamp: Stamp, found: FoundFile) -> None:
        if found.id is None:
            if not found.there and os.path.lexists(path):
                raise ClusterError(
                    f"{path}: the node {found.node} of the cluster does not see this file: videos must lie "
                    "on a file system that all nodes have at the same place"
                )
            self.intake.settle(FailedFile.of(path, found.reason or "could not be read", None))
            return
        claimed = self.intake.claim(path, stamp, found.id)
        if isinstance(claimed, Job):
            self._under_way[number] = _Open(claimed, found)
        elif isinstance(claimed, Known):
            self.intake.settle(claimed)

    # ------------------------------------------------------------------ decoding and embedding

    def _stream(self) -> None:
        """All videos under way, once; those that are still under way after it were lost on the way."""
        import ray.data

        errands = list(self._errands())
        gpus = self.engine.gpus_per_actor
        actors = min(self.cluster.actors(self.engine.workers, gpus), len(errands))
        self._streams += 1
        rows = [
            {"errands": pickle.dumps(errand), "key": f"{self._streams} {number}"}
            for number, errand in enumerate(errands)
        ]
        # Actors claim no CPU: one that dies with its node must find a place on any other, however full.
        data = (
            self._dataset(rows, len(rows))
            .flat_map(
                partial(decode, sampling=self.sampling, batch=BATCH, attempts=self._attempts),
                num_cpus=1,
                concurrency=self._decoders(len(errands)),
            )
            .map_batches(
                Embedder,
                fn_constructor_args=(self._model_there, gpus),
                batch_size=1,
                num_cpus=0,
                num_gpus=gpus or None,
                compute=ray.data.ActorPoolStrategy(
                    min_size=1,
                    max_size=actors,
                    initial_size=actors,
                    max_tasks_in_flight_per_actor=IN_FLIGHT,
                ),
            )
        )
        for row in self._rows(data):
            if row["error"]:
                raise ClusterError(f"embedding failed on the cluster ({row['error']})")
            for note, vectors, blank in notes_of(row):
                held = self._under_way.get(note.number)
                if held is None or held.lost:
                    continue  # it has ended already, or is to be read anew
                if isinstance(note, Sampled):
                    assert vectors is not None
                    assert blank is not None
                    if held.pieces is None:
                        held.pieces = Pieces(held.job.writer)
                    self.intake.embedded(held.pieces.add(note.start, (vectors, note.timestamps, blank)))
                elif isinstance(note, WholeVideo):
                    held.ended = note
                elif isinstance(note, Unreadable):
                    held.discard()
                    del self._under_way[note.number]
                    self.intake.settle(FailedFile.of(held.job.path, note.reason, held.job))
                else:
                    held.discard()
                    held.lost = True
                self._end_if_complete(note.number, held)
        self._count_the_lost()

    def _end_if_complete(self, number: int, held: _Open) -> None:
        if held.ended is None or held.pieces is None or held.pieces.written < held.ended.samples:
            return
        del self._under_way[number]
        held.job.writer.seal(held.ended.duration)
        self.intake.finish(held.job, Facts(held.ended.info, held.ended.duration, held.ended.damaged))

    def _count_the_lost(self) -> None:
        for number, held in list(self._under_way.items()):
            held.discard()
            held.tries += 1
            held.lost = False
            if held.tries >= TRIES:
                del self._under_way[number]
                reason = f"its decoding ended its process {TRIES} times: damaged, or too large for the memory"
                self.intake.settle(FailedFile(held.job.path, NO_STAMP, reason, held.job))

    def _errands(self) -> Iterator[list[Errand]]:
        """The jobs of each decoding task: the long ones first, one each; then short ones, some together."""
        together: list[Errand] = []
        seconds = 0.0
        for number, held in sorted(self._under_way.items(), key=lambda item: -(item[1].look.seconds or 0)):
            path, own = held.job.path, held.look.seconds
            if own is None or own >= ERRAND_SECONDS or held.tries:
                yield [Errand(number, path)]
            else:
                together.append(Errand(number, path))
                seconds += max(1.0, own)
                if seconds >= ERRAND_SECONDS:
                    yield together
                    together, seconds = [], 0.0
        if together:
            yield together

    # ------------------------------------------------------------------ Ray Data

    def _decoders(self, tasks: int) -> int:
        return max(1, min(self.engine.workers, tasks))

    def _dataset(self, rows: list[dict[str, Any]], blocks: int) -> ray.data.Dataset:
        import ray.data

        return ray.data.from_items(rows, override_num_blocks=max(1, blocks))

    def _rows(self, data: ray.data.Dataset) -> Iterator[dict[str, Any]]:
        """The rows of a dataset as they are ready; a cluster that is lost altogether is one clear line."""
        import ray.exceptions

        try:
            for batch in data.iter_batches(batch_size=None, prefetch_batches=0, batch_format="numpy"):
                names = list(batch)
                for values in zip(*batch.values(), strict=True):
                    yield dict(zip(names, values, strict=True))
        except (ray.exceptions.RayError, ConnectionError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
            raise ClusterError(
                f"the cluster {self.cluster.address} was lost ({reason}); what was finished is kept: run it again"
            ) from error


@contextmanager
def _data_settings(side: int) -> Iterator[None]:
    """Ray Data with a batch of frames to a block, no bars of its own, and lost blocks left to this module."""
    import ray.data

    context = ray.data.DataContext.get_current()
    wanted = {
        "target_max_block_size": BATCH * side * side * 3 + (1 << 16),
        "target_min_block_size": 1,
        "enable_progress_bars": False,
        "max_errored_blocks": -1,
        "print_on_execution_start": False,
    }
    before = {name: getattr(context, name) for name in wanted if hasattr(context, name)}
    for name in before:
        setattr(context, name, wanted[name])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"ray\.")  # how few tasks there are, and the like
            yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
