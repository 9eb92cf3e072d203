"""Kept results of jobs and kept comparisons, as callers get them: ids become videos as they are now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from visil.errors import VisilError
from visil.web.library import Library
from visil.web.problems import Problem
from visil.web.service import Service


def with_videos(service: Service, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    """A kept result as callers get it; videos that have left the collection are left out."""
    match kind:
        case "search":
            hits = _hits(service.library, result["hits"])
            return {"query": result["query"], "hits": hits, "refined": result.get("refined", False)}
        case "batch":
            one = [
                {**found, "hits": _hits(service.library, found["hits"])} if "hits" in found else found
                for found in result["results"]
            ]
            return {"results": one}
        case "compare":
            return with_addresses(result)
        case "duplicates":
            return service.review.everything(service.review.of(result))
    return result


def _hits(library: Library, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = library.snapshot().by_id
    return [
        {
            "video": known[hit["id"]].to_dict(),
            **{key: value for key, value in hit.items() if key != "id"},
        }
        for hit in hits
        if hit["id"] in known
    ]


def with_addresses(result: dict[str, Any]) -> dict[str, Any]:
    """A comparison with where its matrices are."""
    folder = f"/api/comparisons/{result['comparison']}"
    return result | {
        name: {**result[name], "url_png": f"{folder}/{name}.png", "url_bin": f"{folder}/{name}.bin"}
        for name in ("frame_matrix", "output_matrix")
    }


SIDES: tuple[Literal["query", "target"], ...] = ("query", "target")
REPORT = "report.html"


async def source(service: Service, ref: dict[str, Any]) -> Path:
    """The file that a compared video is in; a problem where it is not there, or may not be read."""
    if ref["kind"] == "video":
        return (await service.file_of(ref["id"]))[0]
    if ref["kind"] == "upload":
        return service.uploads.get(ref["id"]).path
    return await service.look_up(service.roots.resolve, ref["path"])


class KeptMatch:
    """A comparison in its folder, and the files that it is about."""

    def __init__(self, folder: Path, refs: list[dict[str, Any]], paths: list[Path | None]) -> None:
        self.folder = folder
        self.refs = refs
        self.paths = paths
        """Of query and target; None of one that is gone."""

    @classmethod
    async def found(cls, service: Service, comparison: str) -> KeptMatch:
        """A comparison by its name; a problem 404 where it is kept no longer."""
        folder = service.state.comparison(comparison)
        refs = json.loads(await service.look_up((folder / "meta.json").read_text, "utf-8"))["refs"]
        paths: list[Path | None] = []
        for ref in refs:
            try:
                paths.append(await source(service, ref))
            except (Problem, VisilError):
                paths.append(None)
        return cls(folder, refs, paths)

    def result(self) -> dict[str, Any]:
        """The result of the comparison."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "result.json").read_text("utf-8"))
        except OSError:
            raise Problem(404, "This comparison is no longer kept. Compare the two videos again.") from None
        return found

    def copy(self, side: Literal["query", "target"]) -> Path:
        """Where a small copy of one of the two is, if one was kept."""
        return self.folder / f"{side}.mp4"

    def sources(self) -> dict[str, str]:
        """Where each of the two is shown from: the original, a kept copy, or nowhere."""
        return {
            side: "original" if path is not None else "copy" if self.copy(side).is_file() else "gone"
            for side, path in zip(SIDES, self.paths, strict=True)
        }
