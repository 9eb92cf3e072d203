"""A collection of videos on disk: what is in it, what it shares, and where."""

from visil.collection.catalogue import Failure, Video
from visil.collection.collection import Index
from visil.collection.condition import IndexInfo, Problem
from visil.collection.duplicates import Duplicates, Group, Pair
from visil.collection.extraction import AddProgress, AddReport
from visil.collection.opening import opened
from visil.collection.search import Hit

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
