"""From files to answers: what ``visil bench --end-to-end FOLDER`` measures, each figure in a fresh process.

Decoding alone, then ``add``, a search with many queries, and duplicates, by 1, 2, 4, ... workers on the processor and,
where there is one, by all of them with a GPU. Fewer workers are given fewer files and queries, so that all rows
take as long, and one worker does not take all day. Seconds begin when the network is loaded, and include that workers
are started.
"""

from __future__ import annotations

import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from visil.bench.results import machine
from visil.collection.discover import discover
from visil.collection.extraction import extract
from visil.collection.extraction_work import ByKind
from visil.collection.feature_writer import FeatureWriter
from visil.collection.local_engine import AddMethod, decode_here, largest_first
from visil.errors import FileError, UsageError, VideoError, VisilError
from visil.machine.ours import be_ours
from visil.machine.processes import NEUTRAL, environment, python, start_ahead
from visil.machine.processor import usable_cores
from visil.video import Frames

if TYPE_CHECKING:
    from visil.collection.index import Index

logger = logging.getLogger("visil")

QUERIES = 100
"""Videos of the folder that are searched for, at most."""

STEPS = ("decode", "add", "search", "duplicates")

FEWEST = 2
"""Files or queries that a row is measured with, at least."""

SAMPLE_S = 0.5
"""Seconds between two looks at the memory of all processes."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement."""

    what: str
    """decode, add, search or duplicates."""
    device: str
    """cpu or gpu: where frames are embedded, or videos compared."""
    workers: int
    seconds: float
    samples: int = 0
    """Frames that were sampled."""
    efficiency: float | None = None
    """Speed, as a share of ``workers`` times that of one worker."""
    of_decoding: float | None = None
    """Speed, as a share of decoding alone by as many workers."""
    memory: float | None = None
    """MB of all processes at the most; what they share counts once."""
    queries: int = 0

    @property
    def speed(self) -> float:
        """Samples a second; of a search, queries, and of duplicates, videos that others were looked for."""
        return (self.samples or self.queries) / self.seconds


def measured(
    folder: Path, *, devices: Sequence[str], tell: Tell, workers: Sequence[int] = (), only: Sequence[str] = ()
) -> dict[str, Any]:
    """All of it, as ``visil bench`` keeps it.

    ``devices`` are cpu, gpu or both, ``workers`` other numbers of them, ``only`` some of the :data:`STEPS`.
    """
    wanted = _steps(only)
    root = Path(os.path.abspath(folder))
    files = largest_first([file for file in discover([folder]) if file != root])
    if not files:
        raise FileError(folder, "holds no videos to measure with")
    tell("reading all files once, so that none comes from the disk")
    for file in files:
        _read_through(file)
    cores = usable_cores()
    counts = sorted(set(workers) or {cores, *(1 << n for n in range(cores.bit_length()) if 1 << n <= cores)})
    most = counts[-1]
    asked = {"search": share(files, QUERIES / len(files)), "duplicates": []}
    rows: list[MeasuredRow] = []
    with tempfile.TemporaryDirectory(prefix="visil-bench-") as made:
        index = Path(made) / "all.visil"
        for what in wanted:
            for device in devices if what != "decode" else ("cpu",):
                for count in counts if device == "cpu" else counts[-1:]:
                    if what == "add":
                        shutil.rmtree(index, ignore_errors=True)
                    given = share(asked.get(what, files), count / most)
                    tell(f"{what} on the {device}, {count} of {cores} workers, {len(given)} files")
                    rows.append(_row(what, device, count, rows, _step(what, device, count, index, given)))
                    logger.info("%s", rows[-1])
    samples = max(row.samples for row in rows)
    found = {"videos": len(files), "samples": samples, "rows": [asdict(row) for row in rows]}
    return {"machine": machine(), "end to end": found}


def _steps(only: Sequence[str]) -> list[str]:
    for name in only:
        if name not in STEPS:
            raise UsageError(f"no step is called {name}: there are {', '.join(STEPS)}")
    wanted = [step for step in STEPS if step in (only or STEPS)]
    if "add" not in wanted and set(wanted) & {"search", "duplicates"}:
        raise UsageError("nothing can be searched that was not added: name add, too")
    return wanted


def share(files: Sequence[Path], part: float) -> list[Path]:
    """So great a part of some files, evenly from all of them."""
    count = min(len(files), max(FEWEST, math.ceil(part * len(files))))
    return [files[number * len(files) // count] for number in range(count)]


def _row(
    what: str, device: str, workers: int, before: Sequence[MeasuredRow], found: dict[str, Any]
) -> MeasuredRow:
    row = MeasuredRow(what, device, workers, **found)
    one = next((r for r in before if (r.what, r.device, r.workers) == (what, device, 1)), row)
    decoded = next((r for r in before if (r.what, r.workers) == ("decode", workers)), None)
    return MeasuredRow(
        **asdict(row)
        | {
            "efficiency": row.speed / one.speed * one.workers / workers,
            "of_decoding": row.speed / decoded.speed if decoded is not None and row.samples else None,
        }
    )


def _read_through(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass


# ---------------------------------------------------------------------- fresh processes


def _step(what: str, device: str, workers: int, index: Path, files: Sequence[Path]) -> dict[str, Any]:
    """A step that is measured from inside, in a process of its own."""
    code = "from visil.bench.end_to_end import step; step()"
    told = json.dumps([os.fspath(file) for file in files])
    chosen = {"VISIL_DEVICE": "cuda" if device == "gpu" else "cpu"}
    command = python("-c", code, what, str(workers), os.fspath(index))
    done = subprocess.run(
        command, cwd=NEUTRAL, env=environment(chosen), input=told, capture_output=True, text=True, check=False
    )
    if done.returncode:
        line = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise VisilError(f"the measured process ended with status {done.returncode}: {line}")
    found: dict[str, Any] = json.loads(done.stdout)
    if what in ("decode", "add") and not found["samples"]:
        raise FileError(files[0].parent, "holds no video that can be read")
    return found


def step() -> None:
    """Of ``STEP WORKERS INDEX``, and files as JSON on standard input: prints time and memory as JSON."""
    be_ours()
    if os.environ.get("VISIL_DEVICE", "cpu") != "cpu":
        start_ahead()
    what, workers, index = sys.argv[1:]
    files = [Path(file) for file in json.load(sys.stdin)]
    with most_memory() as memory:
        found = {"decode": decoded, "add": added, "search": searched, "duplicates": grouped}[what](
            files, int(workers), Path(index)
        )
    print(json.dumps(found | {"memory": memory[0] or None}))


Found = dict[str, float]


def added(files: Sequence[Path], workers: int, index: Path) -> Found:
    """Seconds and samples of adding files to a new collection."""
    with _opened(index) as collection:
        start = time.perf_counter()
        collection.add(files, workers=workers)
        return {"seconds": time.perf_counter() - start, "samples": collection.info().frames}


def searched(files: Sequence[Path], workers: int, index: Path) -> Found:
    """Seconds of searching a collection for files."""
    with _opened(index) as collection:
        start = time.perf_counter()
        answers = list(collection.search_many(files, workers=workers))
        return {"seconds": time.perf_counter() - start, "queries": len(answers)}


def grouped(_: Sequence[Path], workers: int, index: Path) -> Found:
    """Seconds of looking for duplicates."""
    with _opened(index) as collection:
        start = time.perf_counter()
        collection.find_duplicates(workers=workers)
        return {"seconds": time.perf_counter() - start, "queries": len(collection)}


@contextmanager
def _opened(index: Path) -> Iterator[Index]:
    """A collection, and its network loaded: kernels that a GPU has to compile are a matter of its first start."""
    import visil

    model = visil.load()
    if model.device.type == "cuda":
        model.embed_frames(torch.zeros(1, *[model.config.sampling.crop] * 2, 3, dtype=torch.uint8))
    with visil.Index(index, model=model) as collection:
        yield collection


def decoded(files: Sequence[Path], workers: int, _: Path) -> Found:
    """Seconds and samples of decoding alone, by as many worker processes."""
    from visil.compare.loading import default_folder
    from visil.model.config import read_config

    work = _Decoding(AddMethod(_Nothing(), read_config(default_folder()).sampling, decode_here))
    start = time.perf_counter()
    extract(work, files, workers=workers)
    return {"seconds": time.perf_counter() - start, "samples": work.samples}


@dataclass(frozen=True)
class _File:
    """:class:`visil.collection.extraction_work.Task` of which nothing is kept."""

    path: Path
    writers: dict[str, FeatureWriter] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return os.fspath(self.path)


class _Nothing:
    """:class:`visil.collection.extraction_work.Embedder` that makes no features."""

    device = torch.device("cpu")

    def prepare(self) -> None:
        """Nothing to make."""

    def begin(self) -> None:
        """Nothing to keep in mind."""

    def embed(self, pieces: Sequence[tuple[None, Frames]]) -> list[ByKind]:
        return [{} for _ in pieces]

    def end(self, _: None) -> ByKind:
        return {}


@dataclass
class _Decoding:
    """:class:`visil.collection.extraction_work.Work` that counts samples."""

    method: AddMethod
    samples: int = 0

    def claim(self, path: Path) -> _File:
        return _File(path)

    def embedded(self, frames: int) -> None:
        self.samples += frames

    def keep(self, file: _File, facts: object) -> None:
        """Nothing to keep."""

    def fail(self, path: Path, file: _File | None, error: VideoError) -> None:
        """Nothing is kept of it."""


# ---------------------------------------------------------------------- memory


@contextmanager
def most_memory() -> Iterator[list[float]]:
    """MB of this process and those it started at the most, what they share counted once; 0 where that is not known."""
    most, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            most[0] = max(most[0], memory_of(os.getpid()))

    # Named as one that holds nothing, or it would keep workers from being forked: then other steps would be measured.
    thread = threading.Thread(target=watch, name="visil_memory", daemon=True)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def memory_of(process: int) -> float:
    """MB of a process and those it started, what they share counted once; 0 where that is not known."""
    parents: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(status.parent.name))
    ours = [process]
    for one in ours:
        ours += parents.get(one, [])
    return sum(map(_proportional, ours)) / 1e6


def _proportional(process: int) -> float:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return 0.0
