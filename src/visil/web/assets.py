"""The page's own files: compressed once, and kept by browsers for as long as they do not change.

Under an address that holds the hash of them all they never change, and scripts import each other from the same folder;
the pages themselves, which name that address, are checked with the server each time.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from visil.web.problems import Problem

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/docs": "docs.html"}
LASTING = "public, max-age=31536000, immutable"
CHECKED = "no-cache"
TYPES = {".js": "text/javascript; charset=utf-8", ".html": "text/html; charset=utf-8"}
"""Whatever the machine takes them for."""


@dataclass(frozen=True)
class Asset:
    """One file."""

    kind: str
    data: bytes
    packed: bytes
    tag: str

    def response(self, request: Request, caching: str) -> Response:
        """As an answer: nothing where the caller has it."""
        headers = {"ETag": self.tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
        if self.tag in request.headers.get("if-none-match", "").replace("W/", "").split(", "):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", "") and len(self.packed) < len(self.data):
            return Response(
                self.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=self.kind
            )
        return Response(self.data, headers=headers, media_type=self.kind)


class Assets:
    """All of them, in memory."""

    def __init__(self, folder: Path = STATIC) -> None:
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        digest = hashlib.sha256()
        for name, data in files.items():
            digest.update(f"{name} {len(data)}\n".encode() + data)
        self.version = digest.hexdigest()[:16]
        self._all = {name: _asset(name, self._addressed(name, data)) for name, data in files.items()}

    def get(self, name: str) -> Asset:
        """One of them; a problem 404 where there is none."""
        found = self._all.get(name)
        if found is None:
            raise Problem(404, "There is nothing at this address.")
        return found

    def _addressed(self, name: str, data: bytes) -> bytes:
        """A page with addresses of files that never change."""
        if not name.endswith(".html"):
            return data
        return data.replace(b'"static/', f'"static/{self.version}/'.encode())


def routes(assets: Assets) -> APIRouter:
    """The pages, and ``/static/``."""
    router = APIRouter(include_in_schema=False)

    def page(name: str, request: Request) -> Response:
        return assets.get(name).response(request, CHECKED)

    for address, name in PAGES.items():

        async def shown(request: Request, name: str = name) -> Response:
            return page(name, request)

        router.get(address)(shown)

    @router.get("/static/{path:path}")
    async def file(path: str, request: Request) -> Response:
        version, _, name = path.partition("/")
        if version == assets.version:
            return assets.get(name).response(request, LASTING)
        return assets.get(path).response(request, CHECKED)

    return router


def _asset(name: str, data: bytes) -> Asset:
    kind = TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return Asset(kind, data, gzip.compress(data, 9, mtime=0), tag)
