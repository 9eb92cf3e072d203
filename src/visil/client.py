"""A small typed client of ``visil serve``, with nothing but the standard library.

>>> from visil.client import Client                        # doctest: +SKIP
>>> server = Client("http://127.0.0.1:8765")
>>> for hit in server.search(file="clip.mp4")["hits"]:
...     print(hit["video"]["path"], hit["in_words"])
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal, NotRequired, TypedDict, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from visil.errors import UsageError, VisilError, os_reason

Said = Literal["same", "different"]
Ref = Mapping[str, str]
"""One video: ``{"video": id}``, ``{"upload": id}`` or ``{"path": "/on/the/server"}``."""

POLL_S = 0.1
SLOWEST_POLL_S = 2.0


class Video(TypedDict):
    """A video of the collection, or a file that is being added or could not be."""

    id: str | None
    name: str
    file: str
    path: str
    state: Literal["ready", "working", "failed"]
    reason: str | None
    duration: float | None
    width: int | None
    height: int | None
    bytes: int | None
    frames: int | None
    added: str | None
    copies: list[str]
    playable: bool


class Videos(TypedDict):
    """One page of the list."""

    total: int
    failed: int
    offset: int
    videos: list[Video]


class Segment(TypedDict):
    """A stretch that two videos share, in seconds."""

    query: tuple[float, float]
    target: tuple[float, float]
    score: float
    confidence: float
    reversed: bool
    """Whether one of the two runs backwards."""
    line: NotRequired[dict[str, tuple[float, float]]]
    """Of a comparison: query and target as they run along together, finer than the stretch's ends."""


class Hit(TypedDict):
    """A video that matches a query."""

    video: Video
    score: float
    confidence: float
    verdict: Literal["copy", "related", "unrelated", "unclear"]
    segments: list[Segment]
    in_words: str
    moment: list[float] | None
    """A time of the query and one of the hit that show the same."""
    missing: bool
    note: str
    """A remark: that it has the same bytes, or why nothing can be told."""
    references: list[dict[str, Any]]
    """Its names in banks."""


class Found(TypedDict):
    """The result of a search."""

    query: dict[str, Any]
    hits: list[Hit]
    refined: bool
    job: NotRequired[str]


class Progress(TypedDict):
    """How far a job is."""

    done: int
    total: int | None
    unit: str
    rate: float | None
    left: float | None


class Job(TypedDict):
    """Long work on the server."""

    id: str
    kind: Literal["search", "batch", "compare", "duplicates", "add"]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    title: str
    progress: Progress
    created: str
    finished: str | None
    error: str | None
    caller: str


OnJob = Callable[[Job], None]


class ServerError(VisilError):
    """The server refused, or could not be reached; ``status`` is 0 where it could not."""

    def __init__(self, status: int, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.retry_after = retry_after


class _NoRedirects(HTTPRedirectHandler):
    """The API has none, and the token must not follow one elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse."""


class Client:
    """Asks one server. Long calls wait until the work is done; ``progress`` is told of the job meanwhile."""

    def __init__(
        self, url: str = "http://127.0.0.1:8765", *, token: str | None = None, timeout: float = 60.0
    ) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise UsageError(f"{url}: the address of a server begins with http:// or https://")
        self.url = url.rstrip("/")
        self.token = token
        self.timeout = timeout
        self._opener = build_opener(_NoRedirects)

    # ------------------------------------------------------------------ the collection

    def session(self) -> dict[str, Any]:
        """The collection that is served, and whether a token is needed."""
        return self._json("GET", "session")

    def videos(
        self, *, offset: int = 0, limit: int = 50, sort: str = "name", q: str = "", state: str | None = None
    ) -> Videos:
        """One page of the list."""
        asked = {"offset": offset, "limit": limit, "sort": sort, "q": q} | ({"state": state} if state else {})
        return cast(Videos, self._json("GET", f"videos?{urlencode(asked)}"))

    def all_videos(self, **filters: Any) -> Iterator[Video]:
        """The whole list, fetched a page at a time."""
        offset = 0
        while page := self.videos(offset=offset, limit=500, **filters)["videos"]:
            yield from page
            offset += len(page)

    def video(self, video: str) -> Video:
        """One video by its id."""
        return cast(Video, self._json("GET", f"videos/{quote(video, safe='')}"))

    def remove(self, video: str) -> None:
        """Take a video out of the collection; its file stays."""
        self._json("DELETE", f"videos/{quote(video, safe='')}")

    def thumbnail(self, video: str, at: float | None = None, width: int = 160) -> bytes:
        """A frame as JPEG."""
        asked = urlencode({"width": width} | ({} if at is None else {"at": at}))
        return self._bytes("GET", f"videos/{quote(video, safe='')}/thumbnail?{asked}")

    # ------------------------------------------------------------------ work

    def upload(self, file: str | os.PathLike[str]) -> str:
        """Send a video; returns its id, which holds until the server deletes it."""
        path = Path(file)
        try:
            with path.open("rb") as opened:
                sent = self._json(
                    "POST",
                    f"uploads?{urlencode({'name': path.name}, errors='replace')}",
                    data=opened,
                    length=path.stat().st_size,
                )
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {os_reason(error)}") from error
        return str(sent["upload"])

    def delete_upload(self, upload: str) -> None:
        """Delete a file that was sent, now."""
        self._bytes("DELETE", f"uploads/{quote(upload, safe='')}")

    def search(
        self,
        ref: Ref | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        k: int = 20,
        progress: OnJob | None = None,
        **filters: Any,
    ) -> Found:
        """Search for videos that share footage with one that the server knows, or a file from here.

        ``filters`` are those of the call: ``verdict``, ``min_confidence``, ``reference``, ``added_since``, ``bank``,
        and ``refine=True``, which looks at likely hits closely.
        """
        if (ref is None) == (file is None):
            raise UsageError("search for a ref or for a file")
        asked = dict(ref) if ref is not None else {"upload": self.upload(cast("str", file))}
        return cast(Found, self._done("search", {**asked, "k": k, **filters}, progress))

    def batch(
        self, refs: Sequence[Ref], *, k: int = 20, progress: OnJob | None = None, **filters: Any
    ) -> list[dict[str, Any]]:
        """A search for each of many videos: what :meth:`search` gives, or an ``error`` in its place."""
        asked = {"queries": [dict(ref) for ref in refs], "k": k, **filters}
        found: list[dict[str, Any]] = self._done("batches", asked, progress)["results"]
        return found

    def compare(
        self, query: Ref, target: Ref, *, refine: bool = True, progress: OnJob | None = None
    ) -> dict[str, Any]:
        """How two videos relate, with the addresses of their matrices.

        ``refine=False`` leaves the closer look out, which takes seconds.
        """
        asked = {"query": dict(query), "target": dict(target), "refine": refine}
        return self._done("compare", asked, progress)

    def duplicates(self, min_confidence: float = 0.5, *, progress: OnJob | None = None) -> dict[str, Any]:
        """Look for groups of videos that share footage."""
        return self._done("duplicates", {"min_confidence": min_confidence}, progress)

    def last_duplicates(self) -> dict[str, Any]:
        """The duplicates that were found last."""
        return self._json("GET", "duplicates")

    def export(self, form: Literal["csv", "json", "html", "plan"]) -> bytes:
        """The duplicates that were found last as a file, with people's verdicts since."""
        return self._bytes("GET", f"duplicates/export?format={form}")

    def add(self, path: str, *, progress: OnJob | None = None) -> dict[str, Any]:
        """Add a file or folder of the server's machine."""
        return self._done("add", {"path": path}, progress)

    def judge(self, a: str, b: str, verdict: Said | None) -> Said | None:
        """Record a verdict on two videos, None to take it back; returns the one on record before."""
        return cast(
            "Said | None", self._json("PUT", "judgements", {"a": a, "b": b, "verdict": verdict})["previous"]
        )

    # ------------------------------------------------------------------ jobs

    def jobs(self, limit: int = 50) -> list[Job]:
        """The latest, newest first."""
        return cast("list[Job]", self._json("GET", f"jobs?limit={limit}")["jobs"])

    def job(self, job: str) -> Job:
        """One job; it has a ``result`` once it is done."""
        return cast(Job, self._json("GET", f"jobs/{quote(job, safe='')}"))

    def cancel(self, job: str) -> Job:
        """Stop a job."""
        return cast(Job, self._json("DELETE", f"jobs/{quote(job, safe='')}"))

    def start(self, kind: str, body: Mapping[str, Any]) -> Job:
        """Start a job and do not wait for it."""
        return cast(Job, self._json("POST", kind, body)["job"])

    def wait(self, job: str, progress: OnJob | None = None) -> dict[str, Any]:
        """Until a job is over; returns its result, or raises what became of it."""
        pause = POLL_S
        while True:
            found = self.job(job)
            if progress is not None:
                progress(found)
            if found["state"] == "done":
                return cast("dict[str, Any]", found.get("result") or {})
            if found["state"] in ("failed", "cancelled"):
                raise ServerError(200, found["error"] or "the job was cancelled")
            time.sleep(pause)
            pause = min(1.5 * pause, SLOWEST_POLL_S)

    def matrix(self, url: str) -> tuple[int, int, bytes]:
        """Rows, columns and values (little-endian float32) of a matrix, by the ``url_bin`` of a comparison."""
        with self._open("GET", url.removeprefix("/api/")) as answer:
            return int(answer.headers["X-Rows"]), int(answer.headers["X-Columns"]), answer.read()

    # ------------------------------------------------------------------ HTTP

    def _done(self, kind: str, body: Mapping[str, Any], progress: OnJob | None) -> dict[str, Any]:
        return self.wait(self.start(kind, body)["id"], progress)

    def _json(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        data: IO[bytes] | None = None,
        length: int | None = None,
    ) -> dict[str, Any]:
        answer = self._bytes(method, path, body, data=data, length=length)
        return cast("dict[str, Any]", json.loads(answer)) if answer else {}

    def _bytes(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        data: IO[bytes] | None = None,
        length: int | None = None,
    ) -> bytes:
        with self._open(method, path, body, data=data, length=length) as answer:
            return cast(bytes, answer.read())

    def _open(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        data: IO[bytes] | None = None,
        length: int | None = None,
    ) -> Any:
        headers = {"Accept": "application/json", "X-Visil": "1"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        sent: bytes | IO[bytes] | None = data
        if body is not None:
            headers["Content-Type"] = "application/json"
            sent = json.dumps(body).encode()
        elif data is not None:
            headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(length)}
        request = Request(f"{self.url}/api/{path}", cast(Any, sent), headers, method=method)
        try:
            return self._opener.open(request, timeout=self.timeout)
        except HTTPError as error:
            with error:
                raise _refused(error) from error
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ServerError(0, f"{self.url}: the server cannot be reached ({reason})") from error


def _refused(error: HTTPError) -> ServerError:
    try:
        detail = str(json.loads(error.read())["detail"])
    except (ValueError, KeyError, TypeError):
        detail = f"the server answered {error.code} {error.reason}"
    wait = error.headers.get("Retry-After", "")
    return ServerError(error.code, detail, float(wait) if wait.isdecimal() else None)
