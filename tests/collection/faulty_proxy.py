"""A TCP proxy before an HTTP server, which can be told to be slow, to hang up, or to refuse."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """What becomes of a request."""

    delay: float = 0.0
    """Seconds before it is passed on."""
    cut: int | None = None
    """Bytes of the answer after which the connection is dropped; 0: before anything is passed on."""
    deaf: int | None = None
    """The same, but the request is passed on whole: the server has done it, and nobody hears."""
    status: int | None = None
    """What is answered in the server's place."""


Choose = Callable[[str, str], Fault | None]
"""From method and path of a request."""

CODES = {403: "AccessDenied", 404: "NoSuchKey", 503: "SlowDown"}


class FaultyProxy:
    """Listens on a port of its own; ``choose`` picks a fault for each request. One request a connection."""

    def __init__(self, port: int) -> None:
        self.upstream = port
        self.choose: Choose = lambda _method, _path: None
        self.requests: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def first(self, count: int, fault: Fault, part: str = "", method: str = "") -> list[str]:
        """The next ``count`` requests whose path has ``part`` in it meet a fault. Returns a list of those that did."""
        met: list[str] = []

        def choose(asked: str, path: str) -> Fault | None:
            if part not in path or method not in asked or len(met) >= count:
                return None
            met.append(f"{asked} {path}")
            return fault

        self.choose = choose
        return met

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                more = client.recv(65536)
                if not more:
                    return
                data += more
            method, path, _ = data.split(b"\r\n", 1)[0].decode().split(" ", 2)
            self.requests.append(f"{method} {path}")
            fault = self.choose(method, path) or Fault()
            time.sleep(fault.delay)
            if fault.cut == 0:
                return
            if fault.status is not None:
                body = f"<Error><Code>{CODES[fault.status]}</Code><Message>no</Message></Error>".encode()
                head = (
                    f"HTTP/1.1 {fault.status} no\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                )
                client.sendall(head.encode() + (b"" if method == "HEAD" else body))
                return
            self._pass_on(client, data, fault)

    def _pass_on(self, client: socket.socket, data: bytes, fault: Fault) -> None:
        with socket.create_connection(("127.0.0.1", self.upstream)) as server:
            server.sendall(data)
            threading.Thread(target=_pump, args=(client, server, None), daemon=True).start()
            _pump(server, client, fault.cut, silent=fault.deaf is not None)
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)


def _pump(source: socket.socket, sink: socket.socket, limit: int | None, silent: bool = False) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if limit is not None:
                data, limit = data[:limit], limit - len(data[:limit])
            if not silent or data.startswith(b"HTTP/1.1 100"):
                sink.sendall(data)
            if limit == 0:
                return
