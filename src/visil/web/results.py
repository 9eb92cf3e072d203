"""Results as callers get them: ids become videos as they are now, with what people have said since."""

from __future__ import annotations

from typing import Any

from visil.web.library import Library


def dressed(library: Library, kind: str, result: dict[str, Any]) -> dict[str, Any]:
    """A kept result with its videos; those that have left the collection are left out."""
    match kind:
        case "search":
            return {"query": result["query"], "hits": _hits(library, result["hits"])}
        case "compare":
            return _with_addresses(result)
        case "duplicates":
            return duplicates(library, result)
    return result


def _hits(library: Library, hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = library.snapshot().by_id
    return [
        {"video": rows[hit["id"]].to_dict(), **{key: value for key, value in hit.items() if key != "id"}}
        for hit in hits
        if hit["id"] in rows
    ]


def _with_addresses(result: dict[str, Any]) -> dict[str, Any]:
    folder = f"/api/comparisons/{result['comparison']}"
    return result | {
        name: {**result[name], "url_png": f"{folder}/{name}.png", "url_bin": f"{folder}/{name}.bin"}
        for name in ("frame_matrix", "output_matrix")
    }


def duplicates(library: Library, result: dict[str, Any]) -> dict[str, Any]:
    """Groups with at least one video left in them."""
    rows, said = library.snapshot().by_id, library.catalogue.verdicts()

    def judged(pair: dict[str, Any]) -> dict[str, Any]:
        low, high = sorted((pair["query"], pair["target"]))
        return {**pair, "judgement": said.get((low, high))}

    def present(pair: dict[str, Any]) -> bool:
        return pair["query"] in rows and pair["target"] in rows

    groups = []
    for group in result["groups"]:
        videos = [{**rows[one["id"]].to_dict(), **one} for one in group["videos"] if one["id"] in rows]
        pairs = [judged(pair) for pair in group["pairs"] if present(pair)]
        if len(videos) > 1 or (videos and len(group["videos"]) == 1):
            groups.append({"id": group["id"], "videos": videos, "pairs": pairs})
    return {"groups": groups, "common": [judged(pair) for pair in result["common"] if present(pair)]}
