"""``--device``, of every command that computes with a model."""

from __future__ import annotations

import os
from typing import Annotated

import typer

VARIABLE = "VISIL_DEVICE"
"""As in :mod:`visil.kernels.devices`, which would load torch before it is known that anything is to be computed."""

Device = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        envvar=VARIABLE,
        help="cpu, cuda, cuda:1 or auto, which is a GPU where there is one; cpu if not given.",
    ),
]


def choose(device: str | None) -> None:
    """Wherever the model is loaded, in this process or in one that it starts, it will be on ``device``."""
    if device is not None:
        os.environ[VARIABLE] = device
