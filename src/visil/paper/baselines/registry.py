"""Every compared system by the name that the paper's tables give it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from visil.errors import UsageError
from visil.paper.baselines.frame_features import FRAME_SYSTEMS
from visil.paper.baselines.lamv import LamvTraining
from visil.paper.baselines.system import ComparedSystem
from visil.paper.baselines.visil_systems import NAMES as VISIL_NAMES
from visil.paper.baselines.visil_systems import ViSiLSystem, visil_system

Factory = Callable[..., ComparedSystem[Any]]

MODULES: dict[str, str] = {
    "DP": "dp",
    "TN": "tn",
    "Hough": "hough",
    "LBoW": "lbow",
    "DML": "dml",
    "CTE": "cte",
    "TMK": "tmk",
    "LAMV": "lamv",
    "VReL": "vrel",
}
"""Methods of other papers, and the module that each is in, as a class of the same name."""

QUICK: dict[str, dict[str, Any]] = {
    "DML": {"triplets": 200, "epochs": 50, "batch": 64, "learning_rate": 2e-4},
    "VReL": {"steps": 200, "batch": 16},
    "LAMV": {"training": LamvTraining(steps=60, rate=0.05)},
}
"""Options of a short training, where the defaults are those of the methods' papers."""

EXPANDED = ("CTE", "TMK", "LAMV", "DML")
"""Systems that average query expansion (QE) is offered for: their descriptions have a mean."""


def system(name: str, *, reads: str | None = None, **options: Any) -> ComparedSystem[Any]:
    """The system called ``name``; ``options`` are its own, ``reads`` other features than it takes by itself.

    ``system("ViSiL_v", model=trained)`` is a row of Table 3 with a finished model; ``system("DML", reads="i3d")`` a row
    of Table 8.
    """
    try:
        factory = SYSTEMS[name]
    except KeyError:
        raise UsageError(f"unknown system {name!r}: choose one of {', '.join(SYSTEMS)}") from None
    made = factory(**options)
    if reads is not None:
        made.reads = reads
    return made


def _imported(module: str, name: str, **options: Any) -> ComparedSystem[Any]:
    """A system from its own module, imported when it is first asked for."""
    found: Factory = getattr(import_module(f"visil.paper.baselines.{module}"), name)
    return _called(found, name, options)


def _with_expansion(name: str, *, neighbours: int | None = None, **options: Any) -> ComparedSystem[Any]:
    """A system with average query expansion over its ``neighbours`` best results."""
    from visil.paper.baselines.expansion import QE

    inner = system(name, **options)
    expanded: ComparedSystem[Any] = QE(inner) if neighbours is None else QE(inner, neighbours)
    return expanded


def _plain(factory: Factory, name: str, **options: Any) -> ComparedSystem[Any]:
    return _called(factory, name, options)


def _called(factory: Factory, name: str, options: dict[str, Any]) -> ComparedSystem[Any]:
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise UsageError(f"{name}: {error}") from None
    return factory(**options)


SYSTEMS: dict[str, Factory] = {
    **{name: partial(_plain, factory, name) for name, factory in FRAME_SYSTEMS.items()},
    **{name: partial(_plain, partial(visil_system, name), name) for name in VISIL_NAMES},
    "model": partial(_plain, ViSiLSystem, "model"),
    **{name: partial(_imported, module, name) for name, module in MODULES.items()},
    **{f"{name}+QE": partial(_with_expansion, name) for name in EXPANDED},
}
"""Name to what makes the system; "model" is any model of the product, the default one where none is given."""
