"""Which arithmetic similarities and the backbone are computed in: the one asked for, or the one that suits the device.

Similarities on a processor:

- ``fp32``: the reference, and the default.
- ``bf16``: products and comparator in bfloat16, summed in float32.
- ``int8``: products of vectors rounded to 255 steps, summed exactly in integers; the comparator in bfloat16 where that
  is the faster one. On a processor without the instructions the same numbers come out, slowly.
- ``auto``: the fastest of the three, by a measurement of some milliseconds once in a process.

On a GPU that runs the kernels: ``fp16`` (the default, and ``auto``), ``bf16``, ``fp8`` (from compute capability 8.9 on)
are what products are taken of, summed in float32, with the comparator in fp16; ``fp32`` is plain torch. A formula that
the kernels do not know is computed in fp32 whatever was asked for.

A score read off S_f is within :data:`TOLERANCE` of the ``fp32`` one in all but fp8. A comparator may magnify what S_f
differs by, in a network of random weights some ten times.

The backbone on a processor: float32, or bfloat16 where the processor multiplies that. Features of one and the other are
compared as they are: their vectors have a cosine of 0.999 (docs/performance-cpu.md). A GPU has kernels of its own, in
half precision, and is not asked.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Literal, get_args

import torch
from torch import Tensor

from visil.errors import UsageError
from visil.kernels import devices
from visil.machine.processor import has as processor_has

Arithmetic = Literal["fp32", "fp16", "bf16", "fp8", "int8"]
Precision = Literal["auto", "fp32", "fp16", "bf16", "fp8", "int8"]

ON_CPU: tuple[Arithmetic, ...] = ("fp32", "bf16", "int8")
ON_GPU: tuple[Arithmetic, ...] = ("fp32", "fp16", "bf16", "fp8")

FP8_FROM = (8, 9)
"""Compute capability from which a GPU multiplies eight-bit floats."""

VARIABLE = "VISIL_PRECISION"
"""The environment variable by which a user chooses for a whole process."""

TOLERANCE = 2e-3
"""The most by which any of them changes a score read off S_f, for ℓ2-normalised vectors of 128 channels or more."""

FEWEST_CHANNELS = 8
"""torch 2.13 multiplies int8 matrices of one channel wrongly; so few are no work anyway."""

WORTH = 1.3
"""How many times faster than float32 another arithmetic must be to be chosen."""


def possible(device: torch.device) -> tuple[Arithmetic, ...]:
    """The arithmetics of a device."""
    if devices.has_kernels(device):
        old = device.type == "cuda" and torch.cuda.get_device_capability(device) < FP8_FROM
        return ON_GPU[:-1] if old else ON_GPU
    return ON_CPU if device.type == "cpu" else ("fp32",)


def check_precision(precision: Precision | None, device: torch.device) -> None:
    """Refuse what ``device`` does not compute in, be it asked for here or by :data:`VARIABLE`."""
    there = possible(device)
    wanted = precision or os.environ.get(VARIABLE) or "auto"
    if wanted in ("auto", *there):
        return
    origin = "precision" if precision else f"--precision or {VARIABLE}"
    why = devices.why_no_kernels(device) if device.type == "cuda" else None
    raise UsageError(
        f"{origin} must be one of {', '.join(('auto', *there))} on {device}, not {wanted!r}"
        + (f" (the GPU kernels do not run: {why})" if why else "")
    )


def arithmetic(precision: Precision | None, device: torch.device) -> Arithmetic:
    """The arithmetic to compute in: as asked; None: as :data:`VARIABLE` says, else fp16 on a GPU, fp32 elsewhere."""
    check_precision(precision, device)
    there = possible(device)
    wanted = precision or os.environ.get(VARIABLE) or None
    for known in there:
        if wanted == known:
            return known
    if "fp16" in there:
        return "fp16"
    return fastest() if wanted == "auto" and device.type == "cpu" else "fp32"


@lru_cache(maxsize=1)
def fastest() -> Arithmetic:
    """The arithmetic that pays on this machine."""
    speeds = measured()
    best = max(speeds, key=lambda name: speeds[name])
    return best if speeds[best] >= WORTH * speeds["fp32"] else "fp32"


@lru_cache(maxsize=1)
def measured() -> dict[Arithmetic, float]:
    """GFLOP/s of matrix products by arithmetic, from some milliseconds of work; only those that are right here."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(512, 256, generator=generator) for _ in range(2))
    work: dict[Arithmetic, Callable[[], Tensor]] = {"fp32": lambda: left @ right.T}
    halves = left.bfloat16(), right.bfloat16()
    work["bf16"] = lambda: halves[0] @ halves[1].T
    if has_int8():
        steps = tuple((part * 30).clamp(-127, 127).to(torch.int8) for part in (left, right))
        work["int8"] = lambda: integer_product(steps[0], steps[1])
    operations = 2 * left.shape[0] * right.shape[0] * left.shape[1]
    times = {name: _shortest(run) for name, run in work.items()}
    return {name: operations / took / 1e9 for name, took in times.items()}


@lru_cache(maxsize=1)
def has_int8() -> bool:
    """Whether torch multiplies int8 matrices into exact int32 here: older instructions may saturate halfway."""
    rows = torch.tensor([[127], [-127]], dtype=torch.int8).repeat(8, 256)
    try:
        found = torch._int_mm(rows, rows.T)
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    return bool((found == (rows.double() @ rows.double().T).int()).all())


def integer_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """int8 [M, C] · int8 [N, C] into int32 [M, N], exactly."""
    if not has_int8() or left.shape[1] < FEWEST_CHANNELS:
        # Whole numbers below 2^53 are exact in float64: slow, but never wrong.
        exact = (left.double() @ right.double().T).int()
        return exact if out is None else out.copy_(exact)
    if out is None:
        return torch._int_mm(left, right.T)
    return torch._int_mm(left, right.T, out=out)


def _shortest(run: Callable[[], Tensor], rounds: int = 5) -> float:
    """Seconds of the quickest run; on a busy machine the others are the neighbours' time."""
    run()
    took = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return max(min(took), 1e-9)


EmbedsIn = Literal["fp32", "bf16"]
Embedding = Literal["auto", "fp32", "bf16"]
KNOWN: tuple[EmbedsIn, ...] = get_args(EmbedsIn)

EMBEDDING_VARIABLE = "VISIL_EMBEDDING"
"""The environment variable by which a user chooses for a whole process, and those it starts."""


def of_collections(backbone: str) -> Embedding | None:
    """The arithmetic that a collection's model embeds in: the faster one, where that was seen to change no answers.

    None, where :data:`EMBEDDING_VARIABLE` says it.
    """
    if os.environ.get(EMBEDDING_VARIABLE):
        embedding()
        return None
    return "auto" if backbone.startswith("efficientnet") else "fp32"


def embedding(wanted: Embedding | None = None) -> EmbedsIn:
    """What to embed in: as asked; None: as :data:`EMBEDDING_VARIABLE` says, else fp32. ``auto``: the faster."""
    chosen = wanted or os.environ.get(EMBEDDING_VARIABLE) or "fp32"
    if chosen == "auto":
        return "bf16" if processor_has("avx512_bf16") or processor_has("amx_bf16") else "fp32"
    for known in KNOWN:
        if chosen == known:
            return known
    raise UsageError(
        f"{'embedding' if wanted else EMBEDDING_VARIABLE} must be auto, fp32 or bf16, not {chosen!r}"
    )
