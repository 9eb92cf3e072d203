"""A collection of videos, search in it, and duplicates in it; imported on first use, as :mod:`visil` is."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME = {
    "AddProgress": "intake",
    "AddReport": "intake",
    "Background": "background",
    "Duplicates": "duplicates",
    "Failure": "catalogue",
    "Gone": "presence",
    "Group": "duplicates",
    "Hit": "search",
    "Hits": "search",
    "Index": "index",
    "IndexInfo": "state",
    "Pair": "duplicates",
    "PlannedFile": "plan",
    "Problem": "state",
    "Selection": "selection",
    "Video": "catalogue",
}

__all__ = [
    "AddProgress",
    "AddReport",
    "Background",
    "Duplicates",
    "Failure",
    "Gone",
    "Group",
    "Hit",
    "Hits",
    "Index",
    "IndexInfo",
    "Pair",
    "PlannedFile",
    "Problem",
    "Selection",
    "Video",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"visil.collection.{_HOME[name]}"), name)
    raise AttributeError(f"module 'visil.collection' has no attribute {name!r}")
