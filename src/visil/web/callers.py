"""Who a caller is: by a token, or by a cookie that stands for one until logged out; and a limit on guessing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from dataclasses import dataclass

from visil.web.problems import Problem
from visil.web.settings import ROLES, Role, Token

COOKIE = "visil_session"
SESSION_S = 30 * 24 * 3600
CALLERS = 10_000
"""Callers whose rates are remembered at once; the one longest unheard of makes way."""
LONG = 20
"""Characters from which nobody guesses a token."""
GUESS_EVERY_S = 1.0
"""Seconds between two looks at short tokens from an address that has sent many wrong ones."""
GUESSES_WAITING = 20


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    role: Role
    address: str
    by_token: bool = False
    """Whether the request itself carries a token, which no other web site can make a browser do."""

    def may(self, role: Role) -> bool:
        """Whether it has a role, or one that comes after it."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def key(self) -> str:
        """The key that its calls are counted under."""
        return f"{self.name}@{self.address}"


class Tokens:
    """The tokens of a server."""

    def __init__(self, tokens: tuple[Token, ...], wrong_per_minute: int) -> None:
        self.tokens = tokens
        self._short = any(len(token.secret) < LONG for token in tokens)
        self._wrong = Rate(wrong_per_minute)
        self._next: OrderedDict[str, float] = OrderedDict()

    async def find(self, given: str, address: str) -> Token | None:
        """The token that a caller gave; None where it is none.

        Nobody guesses a long token, so a right one is taken whatever else came from its address. Short ones can be
        guessed: once an address has sent many wrong ones, they are looked at one after another, a second each.
        """
        found = self._same(given, long=True)
        if found is not None:
            return found
        network = network_of(address)
        if self._wrong.spent(network):
            if not self._short:
                self._wrong.take(network)
            await self._turn(network)
        found = self._same(given, long=False)
        if found is None and not self._wrong.spent(network):
            self._wrong.take(network)
        return found

    def of_session(self, cookie: str) -> Token | None:
        """The token that a cookie stands for."""
        return next((token for token in self.tokens if session_valid(cookie, token.secret)), None)

    def _same(self, given: str, *, long: bool) -> Token | None:
        found = [token for token in self.tokens if same(given, token.secret)]
        return found[0] if found and (len(found[0].secret) >= LONG) == long else None

    async def _turn(self, network: str) -> None:
        now = time.monotonic()
        at = max(now, self._next.pop(network, now) + GUESS_EVERY_S)
        if at - now > GUESSES_WAITING * GUESS_EVERY_S:
            self._next[network] = at - GUESS_EVERY_S
            raise Problem(429, "Too many wrong tokens came from your address.", retry_after=at - now)
        self._next[network] = at
        if len(self._next) > CALLERS:
            self._next.popitem(last=False)
        await asyncio.sleep(at - now)


class Rate:
    """So many a minute for each caller, a third of them at once."""

    def __init__(self, per_minute: int) -> None:
        self.per_second = per_minute / 60
        self.burst = max(1.0, per_minute / 3)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str, now: float | None = None) -> None:
        """Count one call; a problem 429 where it is one too many."""
        now = time.monotonic() if now is None else now
        left = self._now(caller, now)
        self._left.pop(caller, None)
        self._left[caller] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > CALLERS:
            self._left.popitem(last=False)
        if left < 1:
            raise Problem(
                429,
                "Too many requests at once; try again in a moment.",
                retry_after=(1 - left) / self.per_second,
            )

    def spent(self, caller: str, now: float | None = None) -> bool:
        """Whether the next call would be one too many."""
        return self._now(caller, time.monotonic() if now is None else now) < 1

    def _now(self, caller: str, now: float) -> float:
        left, since = self._left.get(caller, (self.burst, now))
        return min(self.burst, left + (now - since) * self.per_second)


def network_of(address: str) -> str:
    """The key that wrong tokens are counted under: an address, or the network that one household has of IPv6."""
    try:
        known = ipaddress.ip_address(address)
    except ValueError:
        return address
    return address if known.version == 4 else str(ipaddress.ip_network(f"{address}/64", strict=False))


# ---------------------------------------------------------------------- cookies


def same(given: str, token: str) -> bool:
    """Compare without telling by the time it takes how much was right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


def new_session(token: str, now: float | None = None) -> str:
    """A cookie that proves for a month that its holder knew the token."""
    until = int((time.time() if now is None else now) + SESSION_S)
    said = f"{until}.{secrets.token_hex(16)}"
    return f"{said}.{_signed(said, token)}"


def session_valid(value: str, token: str, now: float | None = None) -> bool:
    """Whether a cookie was made by :func:`new_session` and is not too old."""
    said, _, signature = value.rpartition(".")
    until = session_ends(value)
    return same(signature, _signed(said, token)) and until > (time.time() if now is None else now)


def session_ends(value: str) -> int:
    """Until when a cookie says that it holds; 0 where it says nothing."""
    until = value.partition(".")[0]
    return int(until) if until.isascii() and until.isdecimal() and len(until) < 12 else 0


def _signed(said: str, token: str) -> str:
    key, text = token.encode(), f"visil session until {said}".encode("utf-8", "surrogateescape")
    return hmac.new(key, text, hashlib.sha256).hexdigest()
