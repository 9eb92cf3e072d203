"""Kept results of jobs as callers get them: ids become videos as they are now."""

from __future__ import annotations

from typing import Any

from visil.web.library import Library
from visil.web.service import Service


def with_videos(service: Service, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    """A kept result as callers get it; videos that have left the collection are left out."""
    match kind:
        case "search":
            return {"query": result["query"], "hits": _hits(service.library, result["hits"])}
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
