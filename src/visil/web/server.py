"""Running the server until it is told to stop."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from visil.errors import UsageError
from visil.web.app import make_app
from visil.web.serving import Serving
from visil.web.settings import Settings

GRACE_S = 3
"""Seconds that open connections have when the server stops."""


class Server(uvicorn.Server):
    """A server that says where it listens once it does."""

    def __init__(self, settings: Settings, ready: Callable[[int], None] | None = None) -> None:
        self.listening = _bound(settings)
        self.port: int = self.listening.getsockname()[1]
        try:
            serving = Serving(settings)
        except BaseException:
            self.listening.close()
            raise
        super().__init__(
            uvicorn.Config(
                make_app(serving),
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # or anyone could claim to be someone else
                lifespan="on",
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=30,
            )
        )
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; then the one who started it is told."""
        await super().startup(sockets)
        if self.started and self._ready is not None:
            self._ready(self.port)

    def go(self) -> None:
        """Serve until stopped."""
        self.run([self.listening])


def _bound(settings: Settings) -> socket.socket:
    """The socket to listen on; port 0 takes any that is free."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, settings.port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"cannot listen on {settings.host} port {settings.port}: {reason.lower()}; choose another --port"
        ) from error
    return listening
