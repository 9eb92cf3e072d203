"""Shards in a cluster: one Ray actor each, which keeps its part open and its network loaded between calls.

An actor whose process or node dies is started again on a node that lives. Questions are asked again there; a change
that was under way is not repeated, since it may have been made: whoever asked for it is told.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from visil.cluster.ray_session import ray_session
from visil.collection.connection import CHANGES, called
from visil.collection.index import Index
from visil.collection.part import Part
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, VisilError

ADDRESS = "VISIL_RAY"
"""The variable by which `visil serve --ray` tells its engines of a cluster."""

RESTART_SECONDS = 60.0
"""How long a question is asked again of an actor that died, and is being started elsewhere."""

PAUSE_SECONDS = 0.2


class ShardActor:
    """Runs in a process of the cluster. The shard is opened at the first call, so that errors can be told."""

    def __init__(self, location: str, model: str | None, threads: int) -> None:
        self.location = location
        self.model = model
        self.threads = threads
        self.shard: Part | None = None

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """A method of the shard: see :func:`visil.collection.connection.called`."""
        if self.shard is None:
            import torch

            torch.set_num_threads(self.threads)
            self.shard = Part.shard(self.location, model=self.model)
        return called(self.shard, method, arguments)

    def process(self) -> int:
        """The number of its process."""
        return os.getpid()


class RayConnection:
    """:class:`visil.collection.connection.Connection` over the cluster that this process has joined.

    Shards in folders must lie on a file system that all nodes have at the same place; those on a store need not.
    """

    def __init__(
        self, locations: Sequence[str], *, model: str | None = None, threads: int = 1, cpus: float = 0.0
    ) -> None:
        """``threads`` compute in each actor; ``cpus`` are those that it claims of its node, which then must be free."""
        import ray

        self.locations: Sequence[str] = list(locations)
        self.parts: Sequence[Part] | None = None
        self._actors: list[Any] = []
        kind = ray.remote(ShardActor)
        for location in self.locations:
            options = kind.options(num_cpus=cpus, max_restarts=-1, scheduling_strategy="SPREAD")
            self._actors.append(options.remote(location, model, threads))

    @property
    def at_once(self) -> int:
        """Each actor takes one call while another waits."""
        return 2 * len(self._actors)

    @property
    def processes(self) -> list[int]:
        """The actors' processes, by place."""
        import ray

        return [int(pid) for pid in ray.get([actor.process.remote() for actor in self._actors])]

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        """See :meth:`visil.collection.connection.Connection.call`."""
        return self._answer(self._asked(place, method, arguments))

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        """See :meth:`visil.collection.connection.Connection.each`."""
        import ray

        # A query's features go into the cluster's memory once, and not to each actor anew.
        shared = ray.put(arguments) if arguments else ()
        again = method not in CHANGES
        asked = [self._sent(place, method, shared, again) for place in range(len(self._actors))]
        return [self._answer(one) for one in asked]

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        """See :meth:`visil.collection.connection.Connection.some`."""
        asked = {place: self._asked(place, method, those) for place, those in arguments.items()}
        return {place: self._answer(one) for place, one in asked.items()}

    def use(self, model: ViSiL) -> None:
        """See :meth:`visil.collection.connection.Connection.use`: actors load their own."""

    def close(self, *, keep: bool = True) -> None:  # noqa: ARG002
        """See :meth:`visil.collection.connection.Connection.close`."""
        import ray

        actors, self._actors = self._actors, []
        for actor in actors:
            if ray.is_initialized():
                ray.kill(actor)

    def _asked(self, place: int, method: str, arguments: tuple[Any, ...]) -> _Asked:
        return self._sent(place, method, arguments, method not in CHANGES)

    def _sent(self, place: int, method: str, arguments: Any, again: bool) -> _Asked:
        if not self._actors:
            raise IndexFolderError(self.locations[place], "was closed")
        return _Asked(place, method, arguments, self._actors[place].call.remote(method, arguments), again)

    def _answer(self, asked: _Asked) -> Any:
        import ray
        import ray.exceptions

        until = time.monotonic() + RESTART_SECONDS
        while True:
            try:
                return ray.get(asked.answer)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, VisilError):
                    raise error.cause from None
                raise
            except ray.exceptions.RayError as error:
                if not asked.again or time.monotonic() > until:
                    raise IndexFolderError(
                        self.locations[asked.place],
                        "this shard's process in the cluster ended; what was asked of it may not be done: try again",
                    ) from error
            time.sleep(PAUSE_SECONDS)
            asked = self._sent(asked.place, asked.method, asked.arguments, asked.again)


def opened_for_serving(folder: str | os.PathLike[str]) -> Index:
    """The collection opened here; or, where the server was given a cluster, its shards by actors there.

    The cluster is left when this process ends.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return Index(folder)
    joined = ExitStack()
    joined.enter_context(ray_session(address))
    atexit.register(joined.close)
    return Index(folder, connect=RayConnection)


@dataclass(frozen=True)
class _Asked:
    """A call under way."""

    place: int
    method: str
    arguments: Any
    """As they were sent: themselves, or where they are in the cluster's memory."""
    answer: Any
    again: bool
    """Whether it may be repeated."""
