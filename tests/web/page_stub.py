"""A stand-in for the server that answers the page's contract with canned data and videos made on the spot."""

from __future__ import annotations

import io
import json
import mimetypes
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from PIL import Image

from web.page_data import (
    QUERY_SECONDS,
    TARGET_SECONDS,
    UNPLAYABLE,
    UPLOAD,
    Video,
    clip,
    compared,
    folder,
    hue,
    matrix,
    picture,
    searched,
    video,
)
from web.page_review import CannedReview

STATIC = Path(__file__).parents[2] / "src" / "visil" / "web" / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
Reply = tuple[int, Any]


class Stub:
    """The state behind the answers; a test changes it to make things happen."""

    def __init__(self, token: str | None = None, videos: int = 120) -> None:
        self.token = token
        self.judged: dict[tuple[str, str], str] = {}
        self.sent: list[tuple[str, str, Any]] = []
        """(method, path, body) of the calls that change something."""
        self.jobs: dict[str, dict[str, Any]] = {}
        self.hold = threading.Event()
        """Jobs stay under way until it is set."""
        self.hold.set()
        self.copies = False
        """Whether there is a small copy of the video that browsers cannot play."""
        self.looked = False
        self.compared: dict[str, Any] = {}
        self.closer: dict[str, Any] = {}
        """What a closer look, which waits for ``hold``, tells otherwise; {}: the files are not there."""
        self.sources = {"query": "original", "target": "original"}
        """Where both videos of a comparison are shown from."""
        self.more = 0
        """Copies that a search finds beyond the usual one."""
        self.streams = 0
        """How often a job's events were asked for."""
        self.videos: list[Video] = [video(n) for n in range(videos)]
        if videos > 3:
            self.videos[0]["copies"] = ["/videos/backup/holiday 0000.mp4"]
            self.videos[1] = video(
                1, id=UNPLAYABLE, name="old recording <b>.avi", path="/videos/old recording <b>.avi"
            )
            self.videos[2] = video(
                2,
                id=None,
                state="failed",
                reason="no video stream: it holds only sound",
                duration=None,
                width=None,
                bytes=4096,
            )
            self.videos[3] = video(3, id=None, state="working", duration=None, width=None, added=None)
        self.review = CannedReview(self.videos, self.judged)

    # ------------------------------------------------------------------ what is answered

    def start(self, kind: str, title: str, result: Any) -> Reply:
        """A new job."""
        name = f"job{len(self.jobs) + 1}"
        self.jobs[name] = {
            "id": name,
            "kind": kind,
            "title": title,
            "result": result,
            "created": f"2024-05-02T10:00:{len(self.jobs):02}Z",
        }
        return 202, {"job": self.job(name)}

    def job(self, name: str) -> dict[str, Any]:
        """A job as it stands: all are done once ``hold`` is set."""
        kept = self.jobs[name]
        over = self.hold.is_set() or kept.get("cancelled")
        progress = {"done": 37, "total": 120, "unit": "videos", "rate": 4.2, "left": 19.8}
        state = "cancelled" if kept.get("cancelled") else "done" if over else "running"
        job = {
            **kept,
            "state": state,
            "progress": progress,
            "error": None,
            "finished": kept["created"] if over else None,
        }
        return job if state == "done" else {k: v for k, v in job.items() if k != "result"}

    def session(self, known: bool) -> dict[str, Any]:
        return {
            "authenticated": known,
            "token_needed": self.token is not None,
            "version": "0.1.0",
            "index": {
                "name": "holidays.visil",
                "videos": len(self.videos),
                "model": "visil-lite0",
                "writable": True,
            },
            "limits": {"upload_bytes": 50_000_000, "upload_seconds": 3600},
            "roots": ["/videos", "/archive"],
        }

    def listing(self, ask: dict[str, str]) -> dict[str, Any]:
        offset, limit, sort = int(ask.get("offset", 0)), int(ask.get("limit", 50)), ask.get("sort", "name")
        found = [v for v in self.videos if ask.get("q", "").lower() in v["name"].lower()]
        found = [v for v in found if ask.get("state", v["state"]) == v["state"]]
        key = {"name": "name", "added": "added", "duration": "duration", "size": "bytes"}[sort.lstrip("-")]
        found.sort(key=lambda v: (v[key] is None, v[key] or 0), reverse=sort.startswith("-"))
        failed = sum(v["state"] == "failed" for v in found)
        shown = found[offset : offset + limit]
        return {"total": len(found), "failed": failed, "offset": offset, "videos": shown}

    def act(self, method: str, path: str, ask: dict[str, str], body: Any) -> Reply:
        """The answer to a call under /api that is not a file."""
        match (method, path.strip("/").split("/")):
            case "GET", ["videos"]:
                return 200, self.listing(ask)
            case "DELETE", ["videos", name]:
                self.videos = [v for v in self.videos if v["id"] != name]
                return 204, None
            case "POST", ["videos", "remove"]:
                gone = {*body["videos"], *body["files"]}
                self.videos = [v for v in self.videos if (v["id"] or v["file"]) not in gone]
                return 204, None
            case "POST", ["videos", "retry"]:
                return self.start(
                    "add",
                    "Try 1 file again",
                    {"added": 0, "unchanged": 0, "failed": [{"path": "x", "reason": "y"}]},
                )
            case "POST", ["uploads", _, "add"]:
                return self.start("add", "Add my clip.webm", {"added": 1, "unchanged": 0, "failed": []})
            case "POST", ["uploads"]:
                return 201, {"upload": UPLOAD, "name": ask["name"], "bytes": len(body), "expires": 3600}
            case "POST", ["search"]:
                if body.get("path", "/videos").startswith("/videos"):
                    return self.start(
                        "search", "Search for my clip.webm", searched(self.videos, body, self.more)
                    )
                return 403, {
                    "title": "Forbidden",
                    "detail": f"{body['path']} is not inside a folder that the server may read.",
                }
            case "POST", ["compare"]:
                self.compared = compared(self.videos, body)
                if body["refine"] and self.closer:
                    self.compared |= {**self.closer, "refined": True}
                    self.hold.clear()
                return self.start("compare", "Compare two videos", self.compared)
            case "GET", ["comparisons", "c1"] if self.compared:
                return 200, {"comparison": "c1", "result": {**self.compared, "sources": self.sources}}
            case "PUT", ["comparisons", "c1", "keep"]:
                return 204, None
            case "POST", ["duplicates"]:
                self.looked = True
                return self.start("duplicates", "Find duplicates", None)
            case "GET", ["review"] if self.looked and self.hold.is_set():
                return 200, self.review.page(ask)
            case "PUT", ["review", "decisions"]:
                return 200, self.review.decide(body)
            case "POST", ["review", "accept"]:
                return 200, self.review.accept(body)
            case "POST", ["review", "undo"]:
                return (
                    (200, self.review.undo())
                    if self.review.steps
                    else (409, {"detail": "There is nothing to undo."})
                )
            case "GET", ["videos", name]:
                return 200, next(v for v in self.videos if v["id"] == name)
            case "POST", ["add"]:
                return self.start(
                    "add",
                    f"Add {body['path']}",
                    {"added": 118, "unchanged": 1, "failed": [{"path": "x", "reason": "y"}]},
                )
            case "PUT", ["judgements"]:
                key = (body["a"], body["b"])
                previous = self.judged.pop(key, None)
                if body["verdict"]:
                    self.judged[key] = body["verdict"]
                return 200, {**body, "previous": previous}
            case "GET", ["folders"]:
                return 200, folder(ask.get("path", ""))
            case "GET", ["judgements"]:
                return 200, {
                    "judgements": [{"a": a, "b": b, "verdict": v} for (a, b), v in self.judged.items()]
                }
            case "GET", ["jobs"]:
                return 200, {"jobs": [self.job(name) for name in self.jobs]}
            case "GET", ["jobs", name] if name in self.jobs:
                return 200, self.job(name)
            case "DELETE", ["jobs", name] if name in self.jobs:
                self.jobs[name]["cancelled"] = True
                return 200, self.job(name)
        return 404, {"title": "Not found", "detail": "There is nothing of that name."}


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    """What turns HTTP into calls of the stub that a server has at the moment."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        stub: Stub

        def log_message(self, *_: object) -> None:
            """Nothing: tests look at what was sent."""

        def answer(self, status: int, kind: str, data: bytes, **more: str) -> None:
            self.send_response(status)
            named = {name.replace("_", "-"): value for name, value in more.items()}
            for name, value in {
                "Content-Type": kind,
                "Content-Length": str(len(data)),
                "Content-Security-Policy": POLICY,
                **named,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def json(self, status: int, data: Any, **more: str) -> None:
            kind = "application/json" if status < 400 else "application/problem+json"
            self.answer(status, kind, b"" if status == 204 else json.dumps(data).encode(), **more)

        def handle_call(self) -> None:
            self.stub = server.stub
            where = urlsplit(self.path)
            ask = {name: values[0] for name, values in parse_qs(where.query).items()}
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = unquote(where.path)
            if not path.startswith("/api/"):
                self.page(path)
                return
            path = path.removeprefix("/api/")
            known = self.stub.token is None or "visil_session=in" in self.headers.get("Cookie", "")
            body: Any = data if path == "uploads" else json.loads(data) if data else None
            if self.command != "GET":
                assert self.headers.get("X-Visil") == "1"
                self.stub.sent.append((self.command, path, body))
            if path == "session":
                self.json(200, self.stub.session(known))
            elif path == "login":
                right = body["token"] == self.stub.token
                self.json(
                    200 if right else 401,
                    {} if right else {"detail": "That is not the token."},
                    Set_Cookie=f"visil_session={'in' if right else ''}; HttpOnly; SameSite=Strict",
                )
            elif path == "logout":
                self.json(200, {}, Set_Cookie="visil_session=; Max-Age=0")
            elif not known:
                self.json(401, {"title": "Unauthorized", "detail": "A token is needed."})
            else:
                if not self.file(path, ask):
                    self.json(*self.stub.act(self.command, path, ask, body))

        def page(self, path: str) -> None:
            file = STATIC / ("index.html" if path == "/" else path.removeprefix("/static/"))
            if not file.is_file():
                self.json(404, {"detail": f"no {path}"})
                return
            kind = mimetypes.guess_type(file.name)[0] or "text/plain"
            self.answer(200, kind, file.read_bytes(), Cache_Control="max-age=600")

        def file(self, path: str, ask: dict[str, str]) -> bool:
            """Pictures, videos, matrices and events; whether it was one."""
            match path.split("/"):
                case [_, name, "thumbnail"]:
                    data = io.BytesIO()
                    picture(float(ask["at"]), hue(name), int(ask["width"])).save(data, "JPEG")
                    self.answer(200, "image/jpeg", data.getvalue(), Cache_Control="max-age=60")
                case [_, name, "frames.jpg"]:
                    times, width = ask["times"].split(","), int(ask["width"])
                    strip = Image.new("RGB", (width * len(times), width * 9 // 16))
                    for place, time_ in enumerate(times):
                        strip.paste(picture(float(time_), hue(name), width), (place * width, 0))
                    data = io.BytesIO()
                    strip.save(data, "JPEG")
                    self.answer(200, "image/jpeg", data.getvalue())
                case [_, name, "small.mp4"] if name == UNPLAYABLE and self.stub.copies:
                    self.ranged(clip(TARGET_SECONDS, hue(name)))
                case [_, "c1", "query.mp4"]:
                    self.ranged(clip(QUERY_SECONDS, hue(UPLOAD)))
                case [_, name, "stream"]:
                    length = QUERY_SECONDS if name == UPLOAD else TARGET_SECONDS
                    self.ranged(b"not a video" if name == UNPLAYABLE else clip(length, hue(name)))
                case ["comparisons", _, "frame_matrix.bin"]:
                    self.answer(
                        200,
                        "application/octet-stream",
                        matrix(24, 60, 0.1).tobytes(),
                        X_Rows="24",
                        X_Columns="60",
                    )
                case ["comparisons", _, "output_matrix.bin"]:
                    self.answer(
                        200,
                        "application/octet-stream",
                        matrix(6, 15, -0.9).tobytes(),
                        X_Rows="6",
                        X_Columns="15",
                    )
                case ["comparisons", _, "attention.png"]:
                    data = io.BytesIO()
                    picture(float(ask["frame"]), 0, 64).save(data, "PNG")
                    self.answer(200, "image/png", data.getvalue())
                case ["duplicates", "export"]:
                    self.answer(
                        200,
                        "text/csv",
                        b"group,video\n",
                        Content_Disposition="attachment; filename=duplicates.csv",
                    )
                case ["jobs", name, "events"] if name in self.stub.jobs:
                    self.events(name)
                case _:
                    return False
            return True

        def ranged(self, data: bytes) -> None:
            asked = self.headers.get("Range", "")
            if not asked.startswith("bytes="):
                self.answer(200, "video/webm", data, Accept_Ranges="bytes")
                return
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(data)), len(data) - 1)
            self.answer(
                206,
                "video/webm",
                data[start : end + 1],
                Accept_Ranges="bytes",
                Content_Range=f"bytes {start}-{end}/{len(data)}",
            )

        def events(self, name: str) -> None:
            self.send_response(200)
            self.stub.streams += 1
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            # The line breaks every now and then, as lines do.
            for _ in range(5):
                job = self.stub.job(name)
                self.wfile.write(f"data: {json.dumps(job)}\n\n".encode())
                self.wfile.flush()
                if job["state"] != "running":
                    break
                time.sleep(0.05)
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_DELETE = handle_call

    return Handler


class Server:
    """A stub on a port of its own, for a ``with`` block; another may take its place."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub

    def __enter__(self) -> Server:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # type: ignore[method-assign]  # browsers hang up on streams
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stub.hold.set()
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.http.server_port}/"


if __name__ == "__main__":
    with Server(Stub()) as running:
        print(running.url)
        threading.Event().wait()
