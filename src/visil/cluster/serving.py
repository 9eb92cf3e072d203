"""``visil serve --ray``: the engine's collection, with its shards in actors for as long as the engine lives."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from visil.collection.opening import opened

if TYPE_CHECKING:
    from visil.collection import Index

ADDRESS = "VISIL_RAY"
"""The variable by which the server tells its engines of a cluster."""


def opened_for_serving(folder: str | os.PathLike[str]) -> Index:
    """The collection opened here; or, where the server was given a cluster, its shards by actors there."""
    address = os.environ.get(ADDRESS)
    if not address:
        return opened(folder)
    from visil.cluster.actors import RayShards
    from visil.cluster.ray_session import ray_session
    from visil.cluster.sharded import ShardedIndex

    joined = ExitStack()
    joined.enter_context(ray_session(address))
    atexit.register(joined.close)
    return ShardedIndex(folder, connect=RayShards)
