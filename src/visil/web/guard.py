"""Who may ask, and for what: host, token, role, requests that only the page can send; headers on every answer."""

from __future__ import annotations

import asyncio
import re
import time
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from visil.web.access import AccessStore
from visil.web.callers import COOKIE, Caller, Tokens
from visil.web.problems import Problem
from visil.web.settings import Role, Settings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
FILES = {"/api/uploads", "/api/search"}
"""Calls whose body may be a file: whoever takes it in bounds it."""
MONITORED = {"/healthz", "/readyz", "/metrics"}
PASSED_ON = ("x-forwarded-for", "forwarded")
"""Headers of a request that came through a proxy: the address is not the caller's."""
LOOKS = ("GET", "HEAD", "OPTIONS")
LOCAL = "local"
"""The name of a caller where there are no tokens."""

OPEN = {"/api/session", "/api/login", "/api/logout"}
"""Calls that need no token: they say whether one is needed, take it, and give it back."""

CHANGES_NOTHING = re.compile(r"POST /api/(search|batches|compare|uploads)|DELETE /api/(uploads|jobs)/[^/]+")
"""They start work, and change nothing in the collection."""

ADMIN = re.compile(
    r"GET /api/audit"
    r"|POST /api/add|DELETE /api/videos/[^/]+|POST /api/videos/(remove|retry)|POST /api/uploads/[^/]+/add"
    r"|POST /api/banks|(PUT|PATCH|DELETE) /api/banks/[^/]+"
)


class Guard:
    """Stands before the app; whatever it refuses never gets there."""

    def __init__(self, app: ASGIApp, settings: Settings, tokens: Tokens, access: AccessStore) -> None:
        self.app = app
        self.settings = settings
        self.tokens = tokens
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["method"] == "HEAD" and not scope["path"].startswith("/api/"):
            scope = {**scope, "method": "GET"}  # whoever answers sends no body
        if scope["path"].startswith("/api/v1/"):  # the version that calls without one mean
            scope["path"] = scope["path"].replace("/api/v1/", "/api/", 1)
            scope["raw_path"] = scope["raw_path"].replace(b"/api/v1/", b"/api/", 1)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        status = 0

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                extra = {**HEADERS, "cache-control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in extra.items() if k.encode() not in present),
                ]
            await send(message)

        scope.setdefault("state", {})["caller"] = None
        try:
            await self.let_in(scope, headers)
        except Problem as problem:
            await problem.response()(scope, receive, dressed)
            return
        if scope["path"] in FILES:
            await self.app(scope, receive, dressed)
            return
        body = bytearray()
        await self.app(scope, self._bounded(receive, body), dressed)
        await self._note(scope, bytes(body), status)

    async def let_in(self, scope: Scope, headers: dict[str, str]) -> None:
        """Find out who asks, where that must be known; a problem where a request is not let in."""
        method, path, host = scope["method"], scope["path"], headers.get("host", "")
        # A name that someone else's DNS points here would be a way around the browser's same-origin rule.
        if not self.settings.tokens and not is_loopback(
            urlsplit(f"//{host}").hostname or "" if _sane(host) else ""
        ):
            raise Problem(421, "This server answers to localhost and 127.0.0.1 only.")
        if path in MONITORED:
            await self._monitor(scope, headers)
        if not path.startswith("/api/"):
            return
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Problem(403, "Another web site may not ask this server.")
        caller = scope["state"]["caller"] = await self.caller(scope, headers)
        if path not in OPEN:
            _check_role(caller, method, path)
        if method in LOOKS:
            return
        browser = "origin" in headers or "sec-fetch-site" in headers
        proven = (caller is not None and caller.by_token) or (starts_work(method, path) and not browser)
        if headers.get("x-visil") != "1" and not proven:
            raise Problem(403, "A request that changes something needs the header X-Visil: 1, or a token.")
        origin = headers.get("origin")
        if origin is not None and (not _sane(origin) or urlsplit(origin).netloc != host):
            raise Problem(403, "Another web site may not ask this server.")
        length = headers.get("content-length", "0")
        if path not in FILES and (not length.isdecimal() or int(length) > self.settings.limits.json_bytes):
            raise Problem(413, "That request is too long.")

    async def caller(self, scope: Scope, headers: dict[str, str]) -> Caller | None:
        """Who asks; None where it cannot be told. A problem 429 where too many wrong tokens came."""
        address = scope["client"][0] if scope.get("client") else ""
        if not self.settings.tokens:
            return Caller(LOCAL, "admin", address)
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            token = await self.tokens.find(given.strip(), address)
            return None if token is None else Caller(token.name, token.role, address, by_token=True)
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return None
        token = None if cookie is None else self.tokens.of_session(cookie.value)
        if cookie is None or token is None or self.access.logged_out(cookie.value):
            return None
        return Caller(token.name, token.role, address)

    async def _monitor(self, scope: Scope, headers: dict[str, str]) -> None:
        """Whoever asks from this machine itself may know how the server is; others need a token."""
        address = scope["client"][0] if scope.get("client") else ""
        passed_on = not self.settings.proxies and any(name in headers for name in PASSED_ON)
        caller = scope["state"]["caller"] = await self.caller(scope, headers)
        if caller is None and (passed_on or not is_loopback(address)):
            raise Problem(401, "This server needs a valid token.")

    def _bounded(self, receive: Receive, body: bytearray) -> Receive:
        """Bodies without a declared length are counted as they come, and all must come in time."""
        limits, more = self.settings.limits, True
        until = time.monotonic() + limits.body_s

        async def counted() -> Message:
            nonlocal more
            if not more:  # the next message is that the caller is gone
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise Problem(408, "That request came too slowly, and was given up.") from None
            more = bool(message.get("more_body"))
            body.extend(message.get("body", b""))
            if len(body) > limits.json_bytes:
                raise Problem(413, "That request is too long.")
            return message

        return counted

    async def _note(self, scope: Scope, body: bytes, status: int) -> None:
        """Record a call that was to change something; never a token."""
        method, path, caller = scope["method"], scope["path"], scope["state"]["caller"]
        if not path.startswith("/api/") or method in LOOKS:
            return
        if path not in OPEN and role_needed(method, path) == "reader":
            return
        who, role = (caller.name, caller.role) if caller is not None else ("", "")
        address = scope["client"][0] if scope.get("client") else ""
        said = None if path in OPEN else body.decode("utf-8", "replace")
        who = scope["state"].get("logged_in", who)
        await asyncio.to_thread(self.access.note, who, role, address, f"{method} {path}", said, status)


def _check_role(caller: Caller | None, method: str, path: str) -> None:
    if caller is None:
        raise Problem(401, "This server needs a valid token.")
    needed = role_needed(method, path)
    if not caller.may(needed):
        raise Problem(
            403, f"This is for the role {needed}; the token {caller.name} has the role {caller.role}."
        )


def _sane(address: str) -> bool:
    try:
        urlsplit(address if "//" in address else f"//{address}").port  # noqa: B018  raises where it is no number
    except ValueError:
        return False
    return True


def role_needed(method: str, path: str) -> Role:
    """The least role for a call under ``/api/``, other than :data:`OPEN` ones."""
    call = f"{method} {path}"
    if ADMIN.fullmatch(call):
        return "admin"
    if method in ("GET", "HEAD", "OPTIONS") or CHANGES_NOTHING.fullmatch(call):
        return "reader"
    return "reviewer"


def starts_work(method: str, path: str) -> bool:
    """Whether a call only starts work: of programs that are no browsers, it needs no header of ours."""
    return method == "POST" and CHANGES_NOTHING.fullmatch(f"{method} {path}") is not None
