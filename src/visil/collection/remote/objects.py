"""Objects on an fsspec store, with patience: dropped connections and slow answers are tried again, for a while.

What a store answers is told apart into three: an object that is missing or there already (the caller's business), a
store that cannot be used (:class:`StoreError`, one line), and trouble that may pass. Credentials are the store's own
business, never read nor printed here.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from visil.errors import FileError, UsageError

Answer = TypeVar("Answer")

UPLOAD_RATE = 256 * 1024
"""Bytes a second that an upload is believed to make at the least: its time limit grows with its size."""


LONGEST_LISTING = 100
"""Answers that a listing may be in: a thousand objects each, one soon after the other."""


class StoreError(FileError):
    """A store does not answer, or refuses; which object, and what to do."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a store."""

    answer_s: float = 20.0
    """For one answer."""
    total_s: float = 60.0
    """For one object, all attempts together."""
    first_pause_s: float = 0.2
    """Before the second attempt; twice as long before each further one."""

    @classmethod
    def usual(cls) -> Patience:
        """As ``VISIL_STORE_TIMEOUT`` (seconds for one object) says, or a minute."""
        said = os.environ.get("VISIL_STORE_TIMEOUT")
        if said is None:
            return cls()
        try:
            total = float(said)
        except ValueError:
            total = -1.0
        if not 0 < total < 86400:
            raise UsageError(f"VISIL_STORE_TIMEOUT must be a number of seconds, not {said!r}")
        return cls(answer_s=max(0.1, min(20.0, total / 3)), total_s=total)


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a location is a place on a store, ``s3://bucket/name``, and not a path: ``C://videos`` is one."""
    return isinstance(location, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", location) is not None


class Objects:
    """The objects below a URL. Names are relative to it."""

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        self.base = url.rstrip("/")
        self.patience = patience or Patience.usual()
        self.fs, self._root = _filesystem(self.base, self.patience)

    def url(self, name: str) -> str:
        """An object as people know it."""
        return f"{self.base}/{name}"

    def read(self, name: str, start: int = 0, stop: int = 1 << 40) -> bytes:
        """A range of an object's bytes, all of them by default; FileNotFoundError where there is no such object."""

        def ranged(**options: Any) -> bytes:
            try:
                data: bytes = self.fs.cat_file(self._at(name), start=start, end=stop, **options)
            except OSError as error:
                if "range" in str(error).lower():  # it ends before ``start``
                    return b""
                raise
            return data

        return self._asked(name, ranged)

    def create(self, name: str, data: bytes) -> None:
        """Write an object that is not there yet, whole; FileExistsError where it is."""
        self._asked(
            name, lambda **o: self.fs.pipe_file(self._at(name), data, mode="create", **o), size=len(data)
        )

    def upload(self, name: str, file: Path) -> None:
        """A file as an object."""

        def put(**options: Any) -> None:
            self.fs.put_file(os.fspath(file), self._at(name), **options)

        self._asked(name, put, size=file.stat().st_size)

    def sizes(self, folder: str) -> dict[str, tuple[int, float]]:
        """{name: (bytes, when last written)} of the objects below ``folder``."""

        def found(**options: Any) -> dict[str, dict[str, Any]]:
            self.fs.invalidate_cache()
            listing: dict[str, dict[str, Any]] = self.fs.find(self._at(folder), detail=True, **options)
            return listing

        try:
            listing = self._asked(folder, found, answers=LONGEST_LISTING)
        except FileNotFoundError:
            return {}
        start = len(self._root) + 1
        return {
            path.lstrip("/")[start:]: (int(entry["size"]), _written(entry)) for path, entry in listing.items()
        }

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are gone already are no matter."""
        for name in names:
            try:
                self._asked(name, lambda name=name, **o: self.fs.rm_file(self._at(name), **o))
            except FileNotFoundError:
                continue

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _asked(self, name: str, ask: Callable[..., Answer], size: int = 0, answers: int = 1) -> Answer:
        from fsspec.asyn import AsyncFileSystem

        patience = self.patience
        limit = patience.answer_s * answers + size / UPLOAD_RATE
        # Only stores that speak a network protocol by themselves can be told when to give up on an answer.
        options = {"timeout": limit + 1.0} if isinstance(self.fs, AsyncFileSystem) else {}
        until = time.monotonic() + patience.total_s + size / UPLOAD_RATE
        pause = patience.first_pause_s
        while True:
            try:
                return ask(**options)
            except (FileNotFoundError, FileExistsError):
                raise
            except Exception as error:  # clients raise their own kinds, of which fsspec knows nothing
                lasting = _lasting(error)
                if lasting is not None:
                    raise StoreError(self.url(name), lasting) from error
                if time.monotonic() + pause > until:
                    reason = (
                        f"no answer from the store in {patience.total_s:g} s ({_passing(error)}); try again"
                    )
                    raise StoreError(self.url(name), reason) from error
            time.sleep(pause * random.uniform(0.5, 1.0))  # two that wait for the same store come apart
            pause = min(2 * pause, 10.0)


def _filesystem(url: str, patience: Patience) -> tuple[Any, str]:
    """The store, and the path on it that a URL names."""
    parts = urlsplit(url)
    if parts.password is not None:
        hidden = f"{parts.scheme}://{parts.hostname}{parts.path}"
        raise UsageError(f"{hidden}: put no password into a URL; set the store's own configuration")
    try:
        import fsspec
    except ImportError:
        raise UsageError(
            f"{url}: stores need fsspec, not installed here: pip install 'visil[store]'"
        ) from None
    protocol = parts.scheme.lower()
    try:
        fs = fsspec.filesystem(
            protocol, skip_instance_cache=True, use_listings_cache=False, **_options(protocol, patience)
        )
        if protocol in ("s3", "s3a"):
            fs.retries = 1  # the patience is ours
        root = str(fs._strip_protocol(url)).strip("/")
    except ImportError as error:
        package = "'visil[store]'" if protocol in ("s3", "s3a") else "the package that it names"
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"{url}: needs a package that is not installed: {reason}: pip install {package}"
        ) from error
    except ValueError as error:
        raise UsageError(f"{url}: no store of that kind is known ({str(error).splitlines()[0]})") from error
    except Exception as error:  # the store's own configuration, as its client reads it
        raise StoreError(url, f"the store's configuration cannot be used ({type(error).__name__})") from error
    return fs, root


def _options(protocol: str, patience: Patience) -> dict[str, Any]:
    """Time limits of a client, where we know how to set them; all else is the store's own configuration."""
    if protocol not in ("s3", "s3a"):
        return {}
    from fsspec.config import conf

    theirs = conf.get(protocol, {}).get("config_kwargs", {})
    ours = {
        "connect_timeout": patience.answer_s,
        "read_timeout": patience.answer_s,
        "retries": {"max_attempts": 0},
    }
    return {"config_kwargs": ours | theirs}


def _lasting(error: Exception) -> str | None:
    """Why trying again would not help; None where it may."""
    kind = type(error).__name__
    if isinstance(error, PermissionError):
        return "access was refused; check the store's credentials and rights"
    if "Credential" in kind:
        return "no credentials were found; set the store's own configuration or environment"
    if isinstance(error, OSError) and error.errno == errno.EINVAL:
        return "the store refuses the request; check the URL and the store's configuration"
    if isinstance(error, (ValueError, TypeError, NotImplementedError)) or "Validation" in kind:
        return f"the store cannot do that ({kind}); check the URL"
    return None


def _passing(error: Exception) -> str:
    """Trouble that may pass, in words; nothing of the client's own, which may quote what is secret."""
    kind = type(error).__name__
    if isinstance(error, TimeoutError) or "Timeout" in kind:
        return "slow answers"
    if isinstance(error, ConnectionError) or "Connect" in kind or "Payload" in kind or "Closed" in kind:
        return "the connection fails or is dropped"
    if isinstance(error, OSError) and error.errno == errno.EBUSY:
        return "the store is busy"
    return kind


def _written(entry: dict[str, Any]) -> float:
    """When an object was last written; in the future where the store does not say, so that it is never old."""
    for key in ("LastModified", "last_modified", "mtime", "created", "modified", "updated"):
        when = entry.get(key)
        if isinstance(when, (int, float)):
            return float(when)
        if isinstance(when, datetime):
            return when.timestamp()
    return float("inf")
