"""Duplicates to review, as the stand-in for the server has them: groups all alike, decided file by file."""

from __future__ import annotations

from typing import Any

from web.page_data import SEGMENTS, Video

GROUPS = 23


class CannedReview:
    """Groups of one kept video in two files and two dropped ones, of which the last is gone."""

    def __init__(self, videos: list[Video], judged: dict[tuple[str, str], str]) -> None:
        self.videos = videos
        self.judged = judged
        self.decided: dict[str, str] = {}
        self.steps: list[tuple[str, dict[str, str]]] = []
        self.newer = {"added": 0, "gone": 0}

    def _put(self, title: str, changes: dict[str, str | None]) -> None:
        self.steps.append((title, dict(self.decided)))
        self.decided = {k: v for k, v in {**self.decided, **changes}.items() if v is not None}

    # ------------------------------------------------------------------ calls

    def page(self, ask: dict[str, str]) -> dict[str, Any]:
        groups = self.groups()
        show, offset, limit = ask.get("show", "all"), int(ask.get("offset", 0)), int(ask.get("limit", 20))
        chosen = [g for g in groups if show == "all" or g["reviewed"] == (show == "done")]
        one, _, three = self.videos[4:7]
        different = [self.pair(self.videos[4], self.videos[5])] if "different" in self.judged.values() else []
        return {
            **self.state(),
            "total": len(chosen),
            "offset": offset,
            "groups": chosen[offset : offset + limit],
            "common": [self.pair(one, three, "related")],
            "different": different,
        }

    def decide(self, body: dict[str, Any]) -> dict[str, Any]:
        changes = {one["file"]: one["action"] for one in body["files"]}
        self._put("Keep a file", changes)
        return {
            **self.state(),
            "groups": [g for g in self.groups() if any(f["file"] in changes for f in g["files"])],
        }

    def accept(self, body: dict[str, Any]) -> dict[str, Any]:
        changes: dict[str, str | None] = {}
        for group in self.groups():
            if body["groups"] is not None and group["key"] not in body["groups"]:
                continue
            for file in group["files"]:
                exact = file["path"].startswith("/again/")
                if not file["decided"] and not file["must_stay"] and (exact or body["only"] is None):
                    changes[file["file"]] = file["action"]
        self._put("Accept suggestions", changes)
        chosen = [g for g in self.groups() if g["key"] in (body["groups"] or [])]
        return {**self.state(), "groups": chosen, "files": len(changes)}

    def undo(self) -> dict[str, Any]:
        title, self.decided = self.steps.pop()
        return {**self.state(), "groups": self.groups()[:1], "title": title}

    # ------------------------------------------------------------------ what they answer with

    def state(self) -> dict[str, Any]:
        groups = self.groups()
        files = [file for group in groups for file in group["files"]]
        going = [file for file in files if file["action"] == "drop"]
        return {
            "made": "2024-05-02T10:00:00Z",
            "min_confidence": 0.5,
            "newer": self.newer,
            "undo": self.steps[-1][0] if self.steps else None,
            "progress": {
                "groups": len(groups),
                "reviewed": sum(group["reviewed"] for group in groups),
                "files": len(files),
                "drop": len(going),
                "drop_bytes": sum(file["bytes"] for file in going),
                "decided_drop": sum(file["decided"] for file in going),
                "decided_bytes": sum(file["bytes"] for file in going if file["decided"]),
                "exact": sum(f["path"].startswith("/again/") and not f["decided"] for f in files),
            },
        }

    def groups(self) -> list[dict[str, Any]]:
        return [self._group(number) for number in range(1, GROUPS + 1)]

    def _group(self, number: int) -> dict[str, Any]:
        one, two, three = self.videos[4:7]
        again = {**one, "path": "/again/" + one["name"]}
        best = one["path"]
        files = [
            self._file(number, "a", one, "keep", "more detail"),
            self._file(number, "b", again, "drop", f"the same bytes as {best}", best),
            self._file(number, "c", two, "drop", "all of it is in holiday 0004.mp4 (30.0 of 30.0 s)", best),
            {
                **self._file(number, "d", three, "missing", "the file is gone"),
                "must_stay": "The file is gone.",
            },
        ]
        videos = [
            {**video, "keep": kept, "why": "", "missing": video is three, "times": times, "same_moment": same}
            for video, kept, times, same in (
                (one, True, [2.0, 3.0, 4.0, 5.0], True),
                (two, False, [5.0, 6.0, 7.0, 8.0], True),
                (three, False, [17.0, 19.0, 21.0, 23.0], False),
            )
        ]
        return {
            "id": number,
            "key": f"g{number}",
            "reviewed": all(file["decided"] or file["must_stay"] for file in files),
            "videos": videos,
            "pairs": [self.pair(one, two), self.pair(one, three), self.pair(two, three, "related")],
            "files": files,
        }

    def _file(
        self, group: int, name: str, video: Video, action: str, reason: str, inside: str | None = None
    ) -> dict[str, Any]:
        key = f"{group}{name}"
        return {
            "file": key,
            "id": video["id"],
            "name": video["name"],
            "path": video["path"],
            "action": self.decided.get(key, action),
            "suggested": action,
            "decided": key in self.decided,
            "reason": reason,
            "footage_in": inside,
            "bytes": video["bytes"],
            "must_stay": None,
        }

    def pair(self, a: Video, b: Video, verdict: str = "copy") -> dict[str, Any]:
        return {
            "query": a["id"],
            "target": b["id"],
            "score": 0.8,
            "confidence": 0.97,
            "verdict": verdict,
            "segments": SEGMENTS,
            "judgement": self.judged.get((a["id"], b["id"])),
        }
