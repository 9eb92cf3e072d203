"""Settings of a server: its folders, tokens with names and roles, and the bounds it keeps to."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from visil.errors import UsageError, VideoError, printable
from visil.plots.times import duration as duration_words

Role = Literal["reader", "reviewer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""


@dataclass(frozen=True)
class Token:
    """A caller's secret, and its role."""

    name: str
    role: Role
    secret: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.name):
            raise UsageError(
                f"{self.name!r} is no name for a token: letters, digits, dots, dashes, and up to 64 of them"
            )
        if self.role not in ROLES:
            raise UsageError(f"{self.role!r} is no role of a token: {', '.join(ROLES)}")
        if len(self.secret) < 8 or not re.fullmatch(r"[!-~]+", self.secret):
            raise UsageError(
                "a token needs at least 8 characters: letters, digits and signs of ASCII, no blanks"
            )


def read_tokens(text: str) -> list[Token]:
    """The tokens of a file: one, or a line ``NAME ROLE TOKEN`` for each; blank lines and # are skipped."""
    lines = [line.split() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) == 1 and len(lines[0]) == 1:
        return [Token("token", "admin", lines[0][0])]
    found = []
    for words in lines:
        if len(words) != 3:
            raise UsageError("a file of tokens has one token, or lines of NAME ROLE TOKEN")
        name, role, secret = words
        found.append(Token(name, role, secret))  # type: ignore[arg-type]  # checked there
    if not found:
        raise UsageError("the file of tokens is empty")
    for what in ("name", "secret"):
        if len({getattr(token, what) for token in found}) < len(found):
            raise UsageError(f"two tokens of the file have the same {what}")
    return found


MIB = 2**20
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Bounds on what one server spends, whoever asks."""

    upload_bytes: int = 4 * GIB
    """Of one uploaded file."""
    upload_seconds: int = 6 * 3600
    """Length of a video that is searched for or compared; longer ones are for ``add``."""
    uploads: int = 24
    """Uploaded files kept at once."""
    uploads_bytes: int = 16 * GIB
    """All of them together."""
    uploads_under_way: int = 8
    """Files that are sent at the same time."""
    uploads_of_one: int = 4
    """Of these, how many one caller may have; more of its files wait in line."""
    uploads_waiting: int = 32
    upload_wait_s: float = 60.0
    """Seconds that a file waits in line before its sender is told to come back."""
    upload_idle_s: float = 20.0
    """Seconds without a byte after which an upload is given up."""
    upload_least_rate: int = 8192
    """Bytes a second, at the least, that an upload must bring in every ``upload_window_s``."""
    upload_window_s: float = 10.0
    upload_transfer_s: float = 3600.0
    """Seconds that an upload may take in all."""
    upload_kept_s: float = 3600.0
    """Seconds after its last use until an uploaded file is deleted."""
    disk_left: int = GIB
    """Bytes that uploads leave free on the disk."""
    json_bytes: int = MIB
    """Of the body of any other request: a thousand paths fit."""
    body_s: float = 30.0
    """Seconds that such a body may take to arrive."""
    header_s: float = 10.0
    """Seconds that the headers of a request may take."""
    connections: int = 1000
    """Open at once; where there is one more, the one that has asked for nothing for longest makes way."""
    decode_memory: int = 3 * GIB
    """Address space of a process that decodes."""
    decode_query_s: float = 1800.0
    """Seconds of processor time for decoding a query; three times as many on the clock."""
    decode_add_s: float = 12 * 3600.0
    """The same for a video that is added."""
    decode_picture_s: float = 20.0
    """The same for a thumbnail."""
    decode_idle_s: float = 180.0
    """Seconds on the clock without a new frame after which a decoder counts as hanging."""
    file_lanes: int = 2
    """Searches for files, which must be decoded first, that run at the same time."""
    waiting_jobs: int = 200
    waiting_jobs_of_one: int = 50
    """Of these, how many one caller may have."""
    kept_jobs: int = 1000
    """Finished jobs that are remembered, with their results, of each caller."""
    kept_jobs_s: float = 30 * 24 * 3600.0
    """Seconds for which they are."""
    audit_s: float = 2 * 365 * 24 * 3600.0
    """Seconds for which it is remembered who changed what."""
    comparisons: int = 64
    comparisons_bytes: int = 512 * MIB
    pictures_bytes: int = 256 * MIB
    event_streams: int = 200
    searches_per_minute: int = 300
    uploads_per_minute: int = 60
    pictures_per_minute: int = 3000
    """New ones; those made before are not counted."""
    long_jobs_per_minute: int = 20
    wrong_tokens_per_minute: int = 30
    """From one address, a third of them at once; a right token is taken whatever else came from there."""

    def check_length(self, name: str, seconds: float | None) -> None:
        """A :class:`VideoError` where a video that is searched for or compared is longer than it may be."""
        if seconds is not None and seconds > self.upload_seconds:
            most = duration_words(self.upload_seconds)
            raise VideoError(name, f"is longer than {most}; add it to the collection instead")


@dataclass(frozen=True)
class Settings:
    """One server."""

    index: Path
    host: str = "127.0.0.1"
    port: int = 8765
    roots: tuple[Path, ...] = ()
    """Folders, resolved, whose files may be added, and searched for by path."""
    tokens: tuple[Token, ...] = ()
    """Of which every caller must know one; none: open, to this machine only."""
    limits: Limits = field(default_factory=Limits)
    proxies: tuple[str, ...] = ()
    """Addresses and networks whose word on who asks (X-Forwarded-For) is believed."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts, or HOST:PORT, that may be told when a job is over."""
    access_log: str | None = None
    """A file for a line of JSON a request; “-” is standard error."""

    @property
    def token(self) -> str | None:
        """The first token; None where there is none."""
        return self.tokens[0].secret if self.tokens else None


def is_loopback(host: str) -> bool:
    """Whether a host to bind to is this machine and no other."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def settle(
    index: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    roots: Sequence[Path] = (),
    token: str | None = None,
    tokens: Sequence[Token] = (),
    limits: Limits | None = None,
    proxies: Sequence[str] = (),
    webhook_hosts: Sequence[str] = (),
    access_log: str | None = None,
) -> Settings:
    """Check a user's options. Where others than this machine can ask, there is a token, made if none is given.

    Without ``roots``, files in the folder that the collection lies in may be added. ``token`` is one for everything.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", os.fspath(index)):
        raise UsageError(
            f"{printable(os.fspath(index))}: `visil serve` needs a collection in a folder, not a URL"
        )
    resolved = []
    for root in roots or [Path(os.path.abspath(index)).parent]:
        try:
            found = root.resolve(strict=True)
        except OSError:
            found = None
        if found is None or not found.is_dir():
            raise UsageError(f"{printable(os.fspath(root))}: --root must be a folder that exists")
        resolved.append(found)
    known = [*([] if token is None else [Token("token", "admin", token)]), *tokens]
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise UsageError(
                f"{printable(proxy)}: --proxy-headers takes the address of a proxy, or a network"
            ) from None
    if sys.platform == "win32" and not is_loopback(host):
        raise UsageError(
            f"--host {host}: on Windows only this machine is served, as what decodes videos has no bounds there"
        )
    if not known and (proxies or not is_loopback(host)):
        known = [Token("token", "admin", secrets.token_urlsafe(24))]
    place = (Path(os.path.abspath(index)), host, port, tuple(resolved))
    return Settings(
        *place, tuple(known), limits or Limits(), tuple(proxies), tuple(webhook_hosts), access_log
    )
