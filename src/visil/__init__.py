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

    from visil.collection import (
        AddProgress,
        AddReport,
        Background,
        Duplicates,
        Failure,
        Gone,
        Group,
        Hit,
        Hits,
        Index,
        IndexInfo,
        Pair,
        PlannedFile,
        Problem,
        Selection,
        Video,
    )
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
    "AddProgress": "visil.collection",
    "AddReport": "visil.collection",
    "Background": "visil.collection",
    "Best": "visil.kernels.scoring",
    "Calibration": "visil.matching.calibration",
    "Comparator": "visil.model.comparator",
    "Containment": "visil.footage.containment",
    "Duplicates": "visil.collection",
    "Failure": "visil.collection",
    "Finer": "visil.footage.detail",
    "Formula": "visil.model.formula",
    "Frames": "visil.video",
    "Gone": "visil.collection",
    "Group": "visil.collection",
    "Hit": "visil.collection",
    "Hits": "visil.collection",
    "Index": "visil.collection",
    "IndexFolderError": "visil.errors",
    "IndexInfo": "visil.collection",
    "LocalizeConfig": "visil.matching.localize",
    "Match": "visil.matching.match",
    "ModelError": "visil.errors",
    "Pair": "visil.collection",
    "PlannedFile": "visil.collection",
    "Problem": "visil.collection",
    "Proof": "visil.footage.proof",
    "Prover": "visil.footage.proof",
    "ReaderConfig": "visil.model.reader",
    "Sampling": "visil.video",
    "Scorer": "visil.kernels.scoring",
    "Segment": "visil.matching.localize",
    "Selection": "visil.collection",
    "UsageError": "visil.errors",
    "ViSiL": "visil.compare.visil",
    "ViSiLConfig": "visil.model.config",
    "Video": "visil.collection",
    "VideoError": "visil.errors",
    "VideoFeatures": "visil.model.features",
    "VisilError": "visil.errors",
    "load": "visil.compare.loading",
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
