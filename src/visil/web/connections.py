"""Connections that cannot block others: requests must arrive in time, and there are only so many connections.

Whoever has connected and asked for nothing costs next to nothing, until there are so many that nobody else gets in. So
the headers of a request must be there some seconds after its first byte, and where there is no room for one more, the
connection that has been without a request for longest makes way.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from visil.web.settings import Limits

SPARE_FILES = 512
"""Open files that a server needs besides its connections."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Connections:
    """The connections of one server."""

    def __init__(self, limits: Limits) -> None:
        self.header_s = limits.header_s
        self.most = min(
            limits.connections, max(1, files_allowed(limits.connections + SPARE_FILES) - SPARE_FILES)
        )
        self.open = 0
        self.turned_away = 0
        self._without_request: dict[Connection, None] = {}

    def enter(self, connection: Connection) -> None:
        """One more; the one that has asked for nothing for longest makes way where they are too many."""
        self.open += 1
        if self.open > self.most:
            self.turned_away += 1
            idle = next(iter(self._without_request), None)
            if idle is None:
                connection.transport.write(FULL)
                connection.transport.close()
            else:
                self._without_request.pop(idle)
                idle.transport.abort()
        self._without_request[connection] = None

    def asks(self, connection: Connection) -> None:
        """It has a request under way."""
        self._without_request.pop(connection, None)

    def waits(self, connection: Connection) -> None:
        """It has none."""
        self._without_request.setdefault(connection)

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        self.open -= 1
        self._without_request.pop(connection, None)

    def protocol(self) -> type[Connection]:
        """The protocol, which uvicorn makes once for each connection."""
        return type("CountedConnection", (Connection,), {"all": self})


class Connection(H11Protocol):
    """One connection."""

    all: Connections
    _until: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self.all.enter(self)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        self._settle()
        self.all.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._settle()
            self.all.asks(self)
        else:
            self._wait()

    def on_response_complete(self) -> None:
        """The next request may take its time, but not once it has begun."""
        self.all.waits(self)
        super().on_response_complete()

    def _wait(self) -> None:
        """For the headers of a request."""
        if self._until is None and not self.transport.is_closing():
            self._until = self.loop.call_later(self.all.header_s, self.transport.abort)

    def _settle(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None


def files_allowed(wanted: int) -> int:
    """How many files this process may have open, raised to the wanted number where the system lets it."""
    if sys.platform == "win32":
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    if soft < wanted:
        more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        return more
    return soft
