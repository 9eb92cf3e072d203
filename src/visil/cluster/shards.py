"""How a sharded collection reaches its shards: one call to one of them, or to all at once.

A shard is a :class:`visil.cluster.shard.Shard`: an ordinary collection behind methods whose arguments and answers are
plain data (tensors, arrays, frozen dataclasses of numbers and strings), so that they can be in this process, or in
another on another machine. :class:`Shards` is all that :class:`visil.cluster.sharded.ShardedIndex` knows of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from visil.cluster.shard import Shard
    from visil.compare.visil import ViSiL


class Shards(Protocol):
    """The shards of one collection, by place (0, 1, ...: their order in ``shards.json``).

    Whoever implements it keeps each shard open between calls: its catalogue, the candidate index mapped into memory,
    and the network. A :class:`visil.errors.VisilError` that a shard raises comes out of the call as it is; a shard
    that cannot be reached is an :class:`visil.errors.IndexFolderError` that names its location.
    """

    @property
    def locations(self) -> Sequence[str]:
        """Where each shard is: an absolute folder, or a URL."""

    @property
    def at_once(self) -> int:
        """How many calls are worth having under way at the same time, from as many threads; 1: no more than one."""

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        """``getattr(shard, method)(*arguments)`` of one shard. May be called from several threads."""

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        """The same call to all shards at once; answers by place. The first error ends it."""

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        """Calls to some shards at once, each with arguments of its own; answers by place."""

    def close(self) -> None:
        """Let go of all of them; a second time does nothing."""


class LocalShards:
    """Shards in this process, asked one after another.

    One after another, since on one machine the work is the same however it is cut, and each step of it (the network,
    the products, FAISS) uses all cores already.
    """

    at_once = 1

    def __init__(self, locations: Sequence[str], *, model: ViSiL | str | None = None) -> None:
        from visil.cluster.shard import Shard

        self.locations: Sequence[str] = list(locations)
        self.shards: list[Shard] = []
        try:
            for location in self.locations:
                self.shards.append(Shard(location, model=model))
        except BaseException:
            self.close()
            raise

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        """See :meth:`Shards.call`."""
        return getattr(self.shards[place], method)(*arguments)

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        """See :meth:`Shards.each`."""
        return [getattr(shard, method)(*arguments) for shard in self.shards]

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        """See :meth:`Shards.some`."""
        return {place: self.call(place, method, *those) for place, those in arguments.items()}

    def close(self) -> None:
        """See :meth:`Shards.close`."""
        for shard in self.shards:
            shard.close()
