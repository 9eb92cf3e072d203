"""What lies inside a collection, for tests of its files and objects."""

from __future__ import annotations

import visil
from visil.collection.candidates import CandidateIndex
from visil.collection.first_look import FirstLook
from visil.collection.part import Part
from visil.collection.parts import SinglePart
from visil.collection.remote.storage import RemoteStorage
from visil.collection.shards.parts import ShardedParts


def part(index: visil.Index) -> Part:
    """The part that a collection is."""
    assert isinstance(index.parts, SinglePart)
    return index.parts.part


def candidates(index: visil.Index) -> CandidateIndex:
    """The candidate index of a collection that is one part, up to date."""
    return part(index).candidates()


def signs(index: visil.Index) -> FirstLook:
    """The signs of a collection that is one part, up to date."""
    return part(index).signs()


def remote(index: visil.Index) -> RemoteStorage:
    """Where a collection at a URL lies."""
    storage = part(index).storage
    assert isinstance(storage, RemoteStorage)
    return storage


def shards(index: visil.Index) -> ShardedParts:
    """The shards of a sharded collection."""
    assert isinstance(index.parts, ShardedParts)
    return index.parts
