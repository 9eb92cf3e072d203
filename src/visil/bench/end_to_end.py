"""From files to answers: what ``visil bench --end-to-end FOLDER`` measures, each figure in a fresh process.

Decoding alone, then ``add`` by 1, 2, 4, ... workers, on the processor and, where there is one, with a GPU; then a
search with many queries, and duplicates. Seconds of adding begin when the network is loaded and include that workers
are started; those of the commands are all that a user waits.
"""

from __future__ import annotations

import json
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
from typing import Any

import torch

from visil.bench.results import machine
from visil.collection.adding import AddRecipe, decode_here, largest_first
from visil.collection.discover import discover
from visil.collection.extraction import extract
from visil.collection.feature_writer import FeatureWriter
from visil.collection.recipe import ByKind
from visil.errors import FileError, VideoError, VisilError
from visil.kernels.cores import usable_cores
from visil.processes import NEUTRAL, environment, python
from visil.video import Frames

QUERIES = 100
"""Videos of the folder that are searched for, at most."""

SAMPLE_S = 0.5
"""Seconds between two looks at the memory of all processes."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Row:
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
        """Samples a second."""
        return self.samples / self.seconds


def measured(folder: Path, *, devices: Sequence[str], tell: Tell) -> dict[str, Any]:
    """All of it, as ``visil bench`` keeps it; ``devices`` are cpu, gpu or both."""
    root = Path(os.path.abspath(folder))
    files = [file for file in discover([folder]) if file != root]
    if not files:
        raise FileError(folder, "holds no videos to measure with")
    tell("reading all files once, so that none comes from the disk")
    for file in files:
        _read_through(file)
    cores = usable_cores()
    counts = sorted({cores, *(1 << n for n in range(cores.bit_length()) if 1 << n <= cores)})
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="visil-bench-") as made:
        index = Path(made) / "all.visil"
        for count in counts:
            tell(f"decoding alone, {count} of {cores} workers")
            rows.append(_row("decode", "cpu", count, rows, _step("decode", root, count)))
        for device in devices:
            for count in counts:
                tell(f"adding on the {device}, {count} of {cores} workers")
                shutil.rmtree(index, ignore_errors=True)
                rows.append(_row("add", device, count, rows, _step("add", root, count, index, device)))
        queries = [os.fspath(file) for file in files[:: max(1, len(files) // QUERIES)]][:QUERIES]
        for device in devices:
            tell(f"searching on the {device}")
            seconds = _command(device, "search", index, *queries, "--json")
            rows.append(Row("search", device, cores, seconds, queries=len(queries)))
            tell(f"duplicates on the {device}")
            seconds = _command(device, "duplicates", index, "--json")
            rows.append(Row("duplicates", device, cores, seconds))
    samples = max(row.samples for row in rows)
    found = {"videos": len(files), "samples": samples, "rows": [asdict(row) for row in rows]}
    return {"machine": machine(), "end to end": found}


def _row(what: str, device: str, workers: int, before: Sequence[Row], found: dict[str, Any]) -> Row:
    row = Row(what, device, workers, **found)
    one = next((r for r in before if (r.what, r.device, r.workers) == (what, device, 1)), row)
    decoded = next((r for r in before if (r.what, r.workers) == ("decode", workers)), None)
    return Row(
        **asdict(row)
        | {
            "efficiency": row.speed / (workers * one.speed),
            "of_decoding": row.speed / decoded.speed if decoded is not None else None,
        }
    )


def _read_through(file: Path) -> None:
    if file.is_file():
        with file.open("rb") as opened:
            while opened.read(1 << 24):
                pass


# ---------------------------------------------------------------------- fresh processes


def _step(*arguments: object) -> dict[str, Any]:
    """A step that is measured from inside, in a process of its own."""
    code = "from visil.bench.end_to_end import step; step()"
    said = _run(python("-c", code, *map(str, arguments)), environment())
    found: dict[str, Any] = json.loads(said)
    if not found["samples"]:
        raise FileError(str(arguments[1]), "holds no video that can be read")
    return found


def _command(device: str, *arguments: object) -> float:
    """Seconds of a command of ``visil``, from start to end."""
    chosen = {"VISIL_DEVICE": "cuda" if device == "gpu" else "cpu"}
    start = time.perf_counter()
    _run(python("-m", "visil", *map(str, arguments)), environment(chosen))
    return time.perf_counter() - start


def _run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=NEUTRAL, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        line = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise VisilError(f"the measured process ended with status {done.returncode}: {line}")
    return done.stdout


def step() -> None:
    """``decode FOLDER WORKERS`` or ``add FOLDER WORKERS INDEX DEVICE``: prints what it took as JSON."""
    what, folder, workers, *more = sys.argv[1:]
    with most_memory() as memory:
        if what == "decode":
            seconds, samples = decoded(Path(folder), int(workers))
        else:
            seconds, samples = added(Path(folder), int(workers), Path(more[0]), more[1])
    print(json.dumps({"seconds": seconds, "samples": samples, "memory": memory[0] or None}))


def added(folder: Path, workers: int, index: Path, device: str) -> tuple[float, int]:
    """Seconds and samples of adding a folder to a new collection."""
    import visil

    model = visil.load(device="cuda" if device == "gpu" else "cpu")
    if device == "gpu":
        model.embed_frames(torch.zeros(1, *[model.config.sampling.crop] * 2, 3, dtype=torch.uint8))
    with visil.Index(index, model=model) as collection:
        start = time.perf_counter()
        collection.add(discover([folder]), workers=workers)
        return time.perf_counter() - start, collection.info().frames


def decoded(folder: Path, workers: int) -> tuple[float, int]:
    """Seconds and samples of decoding alone, by as many worker processes."""
    from visil.compare.loading import default_folder
    from visil.model.config import read_config

    work = _Decoding(AddRecipe(_Nothing(), read_config(default_folder()).sampling, decode_here))
    files = largest_first(list(discover([folder])))
    start = time.perf_counter()
    extract(work, files, workers=workers)
    return time.perf_counter() - start, work.samples


@dataclass(frozen=True)
class _File:
    """:class:`visil.collection.recipe.Task` of which nothing is kept."""

    path: Path
    writers: dict[str, FeatureWriter] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return os.fspath(self.path)


class _Nothing:
    """:class:`visil.collection.recipe.Embedder` that makes no features."""

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
    """:class:`visil.collection.recipe.Work` that counts samples."""

    recipe: AddRecipe
    samples: int = 0

    def claim(self, path: Path) -> _File:
        return _File(path)

    def embedded(self, frames: int) -> None:
        self.samples += frames

    def keep(self, file: _File, facts: object) -> None:
        """Nothing to keep."""

    def fail(self, path: Path, file: _File | None, error: VideoError) -> None:
        """It costs what it costs."""


# ---------------------------------------------------------------------- memory


@contextmanager
def most_memory() -> Iterator[list[float]]:
    """MB of this process and those it started at the most, what they share counted once; 0 where that is not known."""
    most, ended = [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            most[0] = max(most[0], memory_of(os.getpid()))

    thread = threading.Thread(target=watch, daemon=True)
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
