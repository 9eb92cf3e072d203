"""Who may ask, and how often: host, token, requests that only the page itself can send; headers on every answer."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from visil.web.problems import Problem
from visil.web.settings import Settings, is_loopback

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "visil_session"
SESSION_S = 30 * 24 * 3600
OPEN = {"/api/session", "/api/login", "/api/logout"}
"""Calls that need no token: they say whether one is needed, and take it."""

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


CALLERS = 10_000
"""Callers whose rates are remembered at once; the one longest unheard of makes way."""


class Guard:
    """Stands before the app; whatever it refuses never gets there."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

        async def dressed(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                extra = {**HEADERS, "cache-control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in extra.items() if k.encode() not in present),
                ]
            await send(message)

        problem = self.refuse(scope["method"], scope["path"], headers)
        if problem is not None:
            await problem.response()(scope, receive, dressed)
            return
        scope.setdefault("state", {})["authenticated"] = self.authenticated(headers)
        await self.app(scope, self._bounded(scope, receive), dressed)

    def refuse(self, method: str, path: str, headers: dict[str, str]) -> Problem | None:
        """Why a request is not let in; None where it is."""
        host = headers.get("host", "")
        # A name that someone else's DNS points here would be a way around the browser's same-origin rule.
        if self.settings.token is None and not is_loopback(
            urlsplit(f"//{host}").hostname or "" if _sane(host) else ""
        ):
            return Problem(421, "This server answers to localhost and 127.0.0.1 only.")
        if not path.startswith("/api/"):
            return None
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return Problem(403, "Another web site may not ask this server.")
        if path not in OPEN and not self.authenticated(headers):
            return Problem(401, "This server needs the token that it was started with.")
        if method in ("GET", "HEAD", "OPTIONS"):
            return None
        if headers.get("x-visil") != "1":
            return Problem(403, "A request that changes something needs the header X-Visil: 1.")
        origin = headers.get("origin")
        if origin is not None and (not _sane(origin) or urlsplit(origin).netloc != host):
            return Problem(403, "Another web site may not ask this server.")
        length = headers.get("content-length", "0")
        if path != "/api/uploads" and (
            not length.isdecimal() or int(length) > self.settings.limits.json_bytes
        ):
            return Problem(413, "That request is too long.")
        return None

    def authenticated(self, headers: dict[str, str]) -> bool:
        """Whether a caller knows the token, or none is needed."""
        token = self.settings.token
        if token is None:
            return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and same(given.strip(), token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and session_valid(cookie.value, token)

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """Bodies without a declared length are counted as they come, and all must come in time."""
        if scope["path"] == "/api/uploads":
            return receive
        left, more = self.settings.limits.json_bytes, True
        until = time.monotonic() + self.settings.limits.body_s

        async def counted() -> Message:
            nonlocal left, more
            if not more:  # the next message is that the caller is gone
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                raise Problem(408, "That request came too slowly, and was given up.") from None
            more = bool(message.get("more_body"))
            left -= len(message.get("body", b""))
            if left < 0:
                raise Problem(413, "That request is too long.")
            return message

        return counted


class Rate:
    """So many a minute for each caller, a third of them at once."""

    def __init__(self, per_minute: int) -> None:
        self.per_second = per_minute / 60
        self.burst = max(1.0, per_minute / 3)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, now: float | None = None) -> None:
        """Count one call; a problem 429 where it is one too many."""
        now = time.monotonic() if now is None else now
        left, since = self._left.pop(caller, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.per_second)
        self._left[caller] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            raise Problem(
                429,
                "Too many requests at once; try again in a moment.",
                retry_after=(1 - left) / self.per_second,
            )


def same(given: str, token: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def new_session(token: str, now: float | None = None) -> str:
    """A cookie that proves for a month that its holder knew the token; it needs no memory here."""
    until = int((time.time() if now is None else now) + SESSION_S)
    return f"{until}.{_signed(until, token)}"


def session_valid(value: str, token: str, now: float | None = None) -> bool:
    """Whether a cookie was made by :func:`new_session` and is not too old."""
    until, _, signature = value.partition(".")
    if not (until.isascii() and until.isdecimal() and len(until) < 12):
        return False
    return same(signature, _signed(int(until), token)) and int(until) > (time.time() if now is None else now)


def _signed(until: int, token: str) -> str:
    return hmac.new(token.encode(), f"visil session until {until}".encode(), hashlib.sha256).hexdigest()


def _sane(address: str) -> bool:
    try:
        urlsplit(address if "//" in address else f"//{address}").port  # noqa: B018  raises where it is no number
    except ValueError:
        return False
    return True
