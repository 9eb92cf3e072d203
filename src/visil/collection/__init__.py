"""A collection of videos: what is in it, what it shares, and where."""

from visil.collection.background import Background
from visil.collection.catalogue import Failure, Video
from visil.collection.duplicates import Duplicates, Group, Pair
from visil.collection.index import Index
from visil.collection.intake import AddProgress, AddReport
from visil.collection.search import Hit
from visil.collection.state import IndexInfo, Problem

__all__ = [
    "AddProgress",
    "AddReport",
    "Background",
    "Duplicates",
    "Failure",
    "Group",
    "Hit",
    "Index",
    "IndexInfo",
    "Pair",
    "Problem",
    "Video",
]
