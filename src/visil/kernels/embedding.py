"""Which arithmetic the backbone works in on a processor: float32, or bfloat16 where the processor multiplies that.

Features of one and the other are compared as they are: their vectors have a cosine of 0.999 (docs/performance-cpu.md).
A GPU has kernels of its own, in half precision, and is not asked.
"""

from __future__ import annotations

import os
from typing import Literal, get_args

from visil import processor
from visil.errors import UsageError

EmbedsIn = Literal["fp32", "bf16"]
Embedding = Literal["auto", "fp32", "bf16"]
KNOWN: tuple[EmbedsIn, ...] = get_args(EmbedsIn)

VARIABLE = "VISIL_EMBEDDING"
"""The environment variable by which a user chooses for a whole process, and those it starts."""


def of_collections(backbone: str) -> Embedding | None:
    """What a collection's model is to embed in unless :data:`VARIABLE` says otherwise: the faster one, where that was
    seen to change no answers."""
    if os.environ.get(VARIABLE):
        embedding()
        return None
    return "auto" if backbone.startswith("efficientnet") else "fp32"


def embedding(wanted: Embedding | None = None) -> EmbedsIn:
    """What to embed in: as asked; None: as :data:`VARIABLE` says, else fp32. ``auto`` is the faster one."""
    chosen = wanted or os.environ.get(VARIABLE) or "fp32"
    if chosen == "auto":
        return "bf16" if processor.has("avx512_bf16") or processor.has("amx_bf16") else "fp32"
    for known in KNOWN:
        if chosen == known:
            return known
    raise UsageError(f"{'embedding' if wanted else VARIABLE} must be auto, fp32 or bf16, not {chosen!r}")
