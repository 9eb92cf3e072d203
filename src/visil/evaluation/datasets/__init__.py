"""The benchmarks, one module each: annotation in, queries, database and figures out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from visil.errors import UsageError
from visil.evaluation.annotations import AnyPath
from visil.evaluation.benchmark import Benchmark
from visil.evaluation.datasets.activitynet import read_activitynet
from visil.evaluation.datasets.cc_web_video import read_cc_web_video
from visil.evaluation.datasets.dvsc import read_dvsc
from visil.evaluation.datasets.evve import read_evve
from visil.evaluation.datasets.fivr import read_fivr
from visil.evaluation.datasets.svd import read_svd
from visil.evaluation.datasets.vcdb import read_vcdb
from visil.evaluation.datasets.vcsl import read_vcsl

__all__ = ["DATASETS", "read_dataset"]

Reader = Callable[[AnyPath, AnyPath | None], Benchmark]

DATASETS: dict[str, Reader] = {
    "fivr-200k": partial(read_fivr, "200k"),
    "fivr-5k": partial(read_fivr, "5k"),
    "cc-web-video": read_cc_web_video,
    "evve": read_evve,
    "activitynet": read_activitynet,
    "vcdb": read_vcdb,
    "svd": read_svd,
    "vcsl": read_vcsl,
    "dvsc-2023": read_dvsc,
}
"""The function that reads each benchmark's annotation, and the list of ids or pairs that some have beside it."""

LISTS = frozenset({"fivr-200k", "fivr-5k", "vcdb", "svd", "vcsl", "dvsc-2023"})
"""Benchmarks that such a list means something for."""


def read_dataset(name: str, annotations: AnyPath, ids: AnyPath | None = None) -> Benchmark:
    """A benchmark by name, with its annotation and, where it has one, its list of ids or pairs."""
    if name not in DATASETS:
        raise UsageError(f"no benchmark {name!r}; there are {', '.join(DATASETS)}")
    if ids is not None and name not in LISTS:
        raise UsageError(f"{name} has no list beside its annotation: leave --ids out")
    return DATASETS[name](annotations, ids)
