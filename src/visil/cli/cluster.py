"""``--ray ADDRESS``: the option of every command that can use a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from visil.cluster.ray_session import Cluster
    from visil.collection import Index

RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Use the Ray cluster at host:port, or auto for the one that this machine is in, or local to start one.",
    ),
]

GpusPerActor = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="With --ray: GPUs, or the share of one, that each embedding process has; 0 embeds on CPUs.",
    ),
]


@contextmanager
def joined(address: str | None, *, workers: int | None = None, gpus: float = 0.0) -> Iterator[Cluster | None]:
    """In the cluster at ``address``; None where none was named. What is wrong with it is said before any work."""
    if address is None:
        if gpus:
            from visil.errors import UsageError

            raise UsageError("--gpus-per-actor goes with --ray")
        yield None
        return
    from visil.cluster.ray_session import ray_session

    with ray_session(address, workers=workers, gpus=gpus) as cluster:
        yield cluster


@contextmanager
def opened_over(index: str, address: str | None, *, model: str | None = None) -> Iterator[Index]:
    """The collection, for questions: opened here, or its shards by actors of the cluster at ``address``."""
    from visil.collection.opening import opened

    if address is None:
        with opened(index, model=model, create=False) as collection:
            yield collection
        return
    from visil.cluster.manifest import is_sharded
    from visil.errors import IndexFolderError

    if not is_sharded(index):
        raise IndexFolderError(index, "is not in shards, so there is nothing to spread; leave --ray out")
    with joined(address):
        from functools import partial

        from visil.cluster.actors import RayShards
        from visil.cluster.sharded import ShardedIndex

        with ShardedIndex(index, model=model, connect=partial(RayShards, model=model)) as sharded:
            yield sharded
