"""``visil serve INDEX``: the web page and the HTTP API over a collection."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import Device, RayAddress, choose_device, joined
from visil.errors import UsageError, printable, require_extra

if TYPE_CHECKING:
    from visil.web.settings import Token


def serve(
    index: Annotated[
        Path,
        typer.Argument(metavar="INDEX", help="The collection's folder; a new one is made if there is none."),
    ],
    host: Annotated[
        str, typer.Option(help="Address to listen on; any other than this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8765,
    root: Annotated[
        list[Path] | None,
        typer.Option(
            "--root",
            metavar="DIR",
            help="Folder whose files may be added and searched for by path, may be repeated; "
            "by default the one that INDEX lies in.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VISIL_TOKEN", help="The token that callers must know; made where one is needed."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="A file that holds the token, or one line NAME ROLE TOKEN for each of several; "
            "a reader looks and searches, a reviewer decides, an admin changes the collection.",
        ),
    ] = None,
    proxy_headers: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy-headers",
            metavar="ADDRESS",
            help="Believe a proxy at this address or in this network on who asks (X-Forwarded-For); may be repeated.",
        ),
    ] = None,
    webhook_host: Annotated[
        list[str] | None,
        typer.Option(
            "--webhook-host",
            metavar="HOST",
            help="A host, or HOST:PORT, that may be sent a message when a job is over; may be repeated.",
        ),
    ] = None,
    access_log: Annotated[
        str | None,
        typer.Option(
            "--access-log", metavar="FILE", help="A line of JSON for every request; - is standard error."
        ),
    ] = None,
    ray: RayAddress = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    device: Device = None,
) -> None:
    """Look at a collection in the browser: search, compare, find duplicates, add. Stop with Ctrl-C."""
    choose_device(device)
    require_extra("`visil serve`", "serve", "fastapi", "uvicorn", "python_multipart", "prometheus_client")
    if ray is not None:
        _check_cluster(index, ray)
    from visil.web.settings import settle

    tokens = []
    if token_file is not None:
        token, tokens = None, _read_tokens(token_file)
    settings = settle(
        index,
        host=host,
        port=port,
        roots=root or [],
        token=token,
        tokens=tokens,
        proxies=proxy_headers or [],
        webhook_hosts=webhook_host or [],
        access_log=access_log,
    )
    made = not tokens and token is None
    from visil.web.server import Server

    def ready(port: int) -> None:
        shown = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host
        address = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        typer.echo(f"serving {printable(os.fspath(settings.index))} at {address}")
        typer.echo(
            f"files may be added from {', '.join(printable(os.fspath(one)) for one in settings.roots)}"
        )
        if settings.token is not None and made:
            typer.echo(f"token: {settings.token}")
        if open_page:
            import webbrowser

            webbrowser.open(address)

    Server(settings, ready).go()


def _check_cluster(index: Path, address: str) -> None:
    """A cluster that cannot be used is an error before the server starts; the server's engines then join it."""
    from visil.cluster.ray_connection import ADDRESS
    from visil.collection.shards.manifest import is_sharded
    from visil.errors import IndexFolderError

    if address == "local":
        raise UsageError(
            "`visil serve` spreads shards over a cluster that runs: start one, and give host:port or auto"
        )
    if not is_sharded(index):
        raise IndexFolderError(index, "is not in shards, so there is nothing to spread; leave --ray out")
    with joined(address):
        os.environ[ADDRESS] = address


def _read_tokens(file: Path) -> list[Token]:
    from visil.web.settings import read_tokens

    try:
        return read_tokens(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, UsageError) as error:
        reason = getattr(error, "strerror", None) or (
            str(error) if isinstance(error, UsageError) else "it is no text"
        )
        raise UsageError(
            f"{printable(os.fspath(file))}: the token cannot be read: {reason.lower()}"
        ) from error
