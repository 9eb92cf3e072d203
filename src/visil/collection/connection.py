"""How a collection reaches its parts: one call to one of them, or to all at once.

A :class:`visil.collection.part.Part` has methods whose arguments and answers are plain data (tensors, arrays, frozen
dataclasses of numbers and strings), so that it can be in this process, or in another on another machine. This is all
that a collection knows of where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from visil.collection.part import Part

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL

CHANGES = {
    *("clear_leftovers", "drop", "keep", "remove", "settle", "verify"),
    *("catalogue.fail", "catalogue.forget", "catalogue.judge", "catalogue.mark_reference"),
    *("transfers.add_verdicts", "transfers.drop_verdicts", "transfers.give_up", "transfers.put"),
    *("transfers.receive", "transfers.take"),
}
"""Methods that change a part, or may: not to be called again where nobody knows whether the first call was made."""


def called(part: Part, method: str, arguments: Sequence[Any]) -> Any:
    """A method of a part, or of one of its members (``catalogue.has``); its answer can travel."""
    answer = attrgetter(method)(part)(*arguments)
    return list(answer) if isinstance(answer, Iterator) else answer


class Connection(Protocol):
    """The parts of one collection, by place (0, 1, ...: their order in ``shards.json``).

    Whoever implements it keeps each part open between calls: its catalogue, the candidate index mapped into memory,
    and the network. A :class:`visil.errors.VisilError` that a part raises comes out of the call as it is; a part
    that cannot be reached is an :class:`visil.errors.IndexFolderError` that names its location.
    """

    @property
    def locations(self) -> Sequence[str]:
        """Where each part is: an absolute folder, or a URL."""

    @property
    def at_once(self) -> int:
        """How many calls are worth having under way at the same time, from as many threads; 1: no more than one."""

    @property
    def parts(self) -> Sequence[Part] | None:
        """The parts themselves, where they are in this process; None where they are elsewhere."""

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        """A method of one part (see :func:`called`). May be called from several threads."""

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        """The same call to all parts at once; answers by place. The first error ends it."""

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        """Calls to some parts at once, each with arguments of its own; answers by place."""

    def use(self, model: ViSiL) -> None:
        """Let parts that are in this process use a model that it has loaded; others load their own."""

    def close(self, *, keep: bool = True) -> None:
        """Let go of all of them, a second time does nothing; ``keep``: changes are to last."""


Connect = Callable[[Sequence[str]], Connection]
"""From the parts' locations to something that calls them."""


class LocalConnection:
    """Parts in this process, asked one after another.

    One after another, since on one machine the work is the same however it is cut, and each step of it (the network,
    the products, FAISS) uses all cores already.
    """

    at_once = 1

    def __init__(self, parts: Sequence[Part], locations: Sequence[str] | None = None) -> None:
        self.parts: Sequence[Part] = list(parts)
        self.locations: Sequence[str] = locations or [part.location for part in self.parts]

    @classmethod
    def to(cls, locations: Sequence[str]) -> LocalConnection:
        """The shards at some locations, opened."""
        opened: list[Part] = []
        try:
            for location in locations:
                opened.append(Part.shard(location))
        except BaseException:
            for part in opened:
                part.close()
            raise
        return cls(opened, list(locations))

    def call(self, place: int, method: str, /, *arguments: Any) -> Any:
        """See :meth:`Connection.call`."""
        return called(self.parts[place], method, arguments)

    def each(self, method: str, /, *arguments: Any) -> list[Any]:
        """See :meth:`Connection.each`."""
        return [called(part, method, arguments) for part in self.parts]

    def some(self, method: str, arguments: dict[int, tuple[Any, ...]], /) -> dict[int, Any]:
        """See :meth:`Connection.some`."""
        return {place: self.call(place, method, *those) for place, those in arguments.items()}

    def use(self, model: ViSiL) -> None:
        """See :meth:`Connection.use`."""
        for part in self.parts:
            part.use(model)

    def close(self, *, keep: bool = True) -> None:
        """See :meth:`Connection.close`."""
        for part in self.parts:
            part.close(keep=keep)
