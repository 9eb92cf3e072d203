"""visil: how two videos relate, which share footage, where, and how sure it is.

>>> import visil                                # doctest: +SKIP
>>> model = visil.load()
>>> match = model.compare("a.mp4", "b.mp4")
>>> match.score, match.confidence, match.segments

Everything public is listed here. Heavy imports (torch, PyAV, Matplotlib) happen on first use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # that of ``typing``, which ``python -m visil`` would look for in the working folder
if TYPE_CHECKING:
    from typing import Any

    from visil.collection.background import Background
    from visil.collection.catalogue import Failure, Video
    from visil.collection.duplicates import Duplicates, Group, Pair
    from visil.collection.index import Index
    from visil.collection.intake import AddProgress, AddReport
    from visil.collection.plan import PlannedFile
    from visil.collection.presence import Gone
    from visil.collection.search import Hit, Hits
    from visil.collection.selection import Selection
    from visil.collection.state import IndexInfo, Problem
    from visil.compare.loading import load
    from visil.compare.visil import ViSiL
    from visil.errors import IndexFolderError, ModelError, UsageError, VideoError, VisilError
    from visil.footage.containment import Containment
    from visil.footage.detail import Finer
    from visil.footage.proof import Proof, Prover
    from visil.kernels.scoring import Best, Scorer
    from visil.matching.calibration import Calibration
    from visil.matching.localize import LocalizeConfig, Segment
    from visil.matching.match import Match
    from visil.model.comparator import Comparator
    from visil.model.config import ViSiLConfig
    from visil.model.features import VideoFeatures
    from visil.model.formula import Formula
    from visil.model.reader import ReaderConfig
    from visil.video import Frames, Sampling

__version__ = "0.2.0"

_HOME = {
    name: module
    for module, names in {
        "visil.collection.background": ("Background",),
        "visil.collection.catalogue": ("Failure", "Video"),
        "visil.collection.duplicates": ("Duplicates", "Group", "Pair"),
        "visil.collection.index": ("Index",),
        "visil.collection.intake": ("AddProgress", "AddReport"),
        "visil.collection.plan": ("PlannedFile",),
        "visil.collection.presence": ("Gone",),
        "visil.collection.search": ("Hit", "Hits"),
        "visil.collection.selection": ("Selection",),
        "visil.collection.state": ("IndexInfo", "Problem"),
        "visil.compare.loading": ("load",),
        "visil.compare.visil": ("ViSiL",),
        "visil.errors": ("IndexFolderError", "ModelError", "UsageError", "VideoError", "VisilError"),
        "visil.footage.containment": ("Containment",),
        "visil.footage.detail": ("Finer",),
        "visil.footage.proof": ("Proof", "Prover"),
        "visil.kernels.scoring": ("Best", "Scorer"),
        "visil.matching.calibration": ("Calibration",),
        "visil.matching.localize": ("LocalizeConfig", "Segment"),
        "visil.matching.match": ("Match",),
        "visil.model.comparator": ("Comparator",),
        "visil.model.config": ("ViSiLConfig",),
        "visil.model.features": ("VideoFeatures",),
        "visil.model.formula": ("Formula",),
        "visil.model.reader": ("ReaderConfig",),
        "visil.video": ("Frames", "Sampling"),
    }.items()
    for name in names
}

__all__ = [
    "AddProgress",
    "AddReport",
    "Background",
    "Best",
    "Calibration",
    "Comparator",
    "Containment",
    "Duplicates",
    "Failure",
    "Finer",
    "Formula",
    "Frames",
    "Gone",
    "Group",
    "Hit",
    "Hits",
    "Index",
    "IndexFolderError",
    "IndexInfo",
    "LocalizeConfig",
    "Match",
    "ModelError",
    "Pair",
    "PlannedFile",
    "Problem",
    "Proof",
    "Prover",
    "ReaderConfig",
    "Sampling",
    "Scorer",
    "Segment",
    "Selection",
    "UsageError",
    "ViSiL",
    "ViSiLConfig",
    "Video",
    "VideoError",
    "VideoFeatures",
    "VisilError",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'visil' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
