"""Options and arguments that several commands share, their checks, and what choosing them does."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from visil.errors import IndexFolderError, UsageError, printable

if TYPE_CHECKING:
    from visil.cluster.ray_session import Cluster
    from visil.collection.index import Index


Number = TypeVar("Number", int, float)

DEVICE_VARIABLE = "VISIL_DEVICE"
"""As in :mod:`visil.kernels.devices`, which would load torch before it is known that anything is to be computed."""

PRECISION_VARIABLE = "VISIL_PRECISION"
"""As in :mod:`visil.kernels.precision`."""


class VerdictName(StrEnum):
    """``visil.matching.calibration.Verdict``."""

    copy = "copy"
    related = "related"
    unrelated = "unrelated"
    unclear = "unclear"


class CodesName(StrEnum):
    """``visil.model.code_kinds.Codes`` as Typer takes them."""

    fp16 = "fp16"
    int8 = "int8"
    binary = "binary"


Verdicts = Annotated[
    list[VerdictName] | None,
    typer.Option("--verdict", help="Only hits of this verdict; may be repeated."),
]

Exports = Annotated[
    list[Path] | None,
    typer.Option(
        "--export",
        metavar="FILE",
        help="Write the result as .jsonl, .csv (a row a stretch), .edl, .otio or .srt; may be repeated.",
    ),
]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]

Location = Annotated[str, typer.Argument(metavar="INDEX", help="The collection's folder or URL.")]

Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        envvar=DEVICE_VARIABLE,
        help="cpu, cuda, cuda:1 or auto, which is a GPU where there is one; cpu if not given.",
    ),
]

Precision = Annotated[
    str | None,
    typer.Option(
        "--precision",
        metavar="PRECISION",
        envvar=PRECISION_VARIABLE,
        help="Arithmetic to compare in: auto, fp32, bf16 or int8 on a CPU, auto, fp32, fp16, bf16 or fp8 on a GPU; "
        "fp32 on a CPU and fp16 on a GPU if not given.",
    ),
]

ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="MODEL", help="A preset, a folder or a hub id; the default model if not given."
    ),
]

RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="paper, paper-512, s2vs, dns-small, dns-binary, …; a wrong name lists all.",
    ),
]

BackboneName = Annotated[
    str | None,
    typer.Option("--backbone", metavar="NAME", help="Another network for the recipe: efficientnet-lite0, …"),
]

BackboneWeights = Annotated[
    Path | None,
    typer.Option("--backbone-weights", metavar="FILE", help="The file of the backbone's weights."),
]

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Use the Ray cluster at host:port, or auto for the one that this machine is in, or local to start one.",
    ),
]

Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Cores to use; by default all that this process may. With --ray: CPUs of the cluster.",
    ),
]

GpusPerActor = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="With --ray: GPUs, or the share of one, that each embedding process has; 0 embeds on CPUs.",
    ),
]


def choose_device(device: str | None, precision: str | None = None) -> None:
    """Wherever a model is loaded, in this process or in one it starts, it will be on ``device``, in ``precision``."""
    if device is not None:
        os.environ[DEVICE_VARIABLE] = device
    if precision is not None:
        os.environ[PRECISION_VARIABLE] = precision


def wake_gpu(device: str | None) -> None:
    """Start the GPU called ``device`` (``cuda``, ``cuda:1``), or the first (``auto``); returns at once.

    Its driver and its context take half a second, in which torch is imported. The driver's own library makes the
    context that torch finds. Where there is none, or no GPU, nothing happens; whoever needs one says so later.
    """
    named = re.fullmatch(r"auto|cuda(?::(\d+))?", device or "")
    if named is not None and os.name == "posix":
        threading.Thread(target=_wake, args=(int(named[1] or 0),), name="visil-gpu", daemon=True).start()


def begin_on_gpu() -> None:
    """For work that takes all cores beside the GPU: that is started, and the process that workers come from."""
    device = os.environ.get(DEVICE_VARIABLE, "cpu")
    wake_gpu(device)
    if sys.platform == "linux" and device != "cpu" and (glob("/dev/nvidia[0-9]*") or glob("/dev/dxg")):
        from visil.machine.processes import start_ahead

        start_ahead()


def _wake(number: int) -> None:
    import ctypes

    try:
        driver = ctypes.CDLL("libcuda.so.1")
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(handle), number) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    except (OSError, AttributeError):
        pass


def import_torch() -> None:
    """torch, once it is known that something is to be computed."""
    if "torch" in sys.modules:
        return
    from visil.machine.processes import lasting

    with lasting():
        import torch  # noqa: F401


def numbers(name: str, text: str, kind: type[Number]) -> list[Number]:
    """The value of an option that is several numbers, such as 1,2,3."""
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"{name} must be {wanted} with commas between, not {text!r}") from None


@contextmanager
def joined(address: str | None, *, workers: int | None = None, gpus: float = 0.0) -> Iterator[Cluster | None]:
    """In the cluster at ``address``; None where none was named. A cluster that cannot be used is an error at once."""
    if address is None:
        if gpus:
            raise UsageError("--gpus-per-actor goes with --ray")
        yield None
        return
    from visil.cluster.ray_session import ray_session

    with ray_session(address, workers=workers, gpus=gpus) as cluster:
        yield cluster


@contextmanager
def opened_over(
    index: str, address: str | None, *, model: str | None = None, many: bool = False
) -> Iterator[Index]:
    """The collection, to be searched: opened here, or its shards by actors of the cluster at ``address``.

    ``many``: with so many questions that workers answer them, beside a GPU as well.
    """
    from visil.collection.index import Index

    if address is None:
        if many:
            begin_on_gpu()
        with Index(index, model=model, create=False) as collection:
            import_torch()
            yield collection
        return
    from visil.collection.shards.manifest import is_sharded

    if not is_sharded(index):
        raise IndexFolderError(index, "is not in shards, so there is nothing to spread; leave --ray out")
    with joined(address):
        from functools import partial

        from visil.cluster.ray_connection import RayConnection

        with Index(index, model=model, connect=partial(RayConnection, model=model)) as sharded:
            yield sharded


def check_folder(file: Path | None) -> None:
    """Find out before the work, not after it, that a file cannot be written because its folder is not there."""
    if file is not None:
        check_name(file)
        if not file.parent.is_dir():
            raise UsageError(f"{printable(str(file))}: cannot be written: its folder does not exist")


def check_name(file: Path) -> None:
    """Write over nothing that is named like a video."""
    from visil.video.container import is_video_path

    if is_video_path(file):
        raise UsageError(f"{printable(str(file))}: is named like a video; name another file to write to")
