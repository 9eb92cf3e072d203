"""A collection of videos on disk: what is in it, what it shares, and where."""

from visil.index.catalogue import Failure, Video
from visil.index.collection import Index
from visil.index.condition import IndexInfo, Problem
from visil.index.duplicates import Duplicates, Group, Pair
from visil.index.extraction import AddProgress, AddReport
from visil.index.opening import opened
from visil.index.search import Hit

__all__ = [
    "AddProgress",
    "AddReport",
    "Duplicates",
    "Failure",
    "Group",
    "Hit",
    "Index",
    "IndexInfo",
    "Pair",
    "Problem",
    "Video",
    "opened",
]
