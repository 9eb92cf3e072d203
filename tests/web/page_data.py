"""Canned answers, and videos, pictures and matrices made on the spot, for tests of the page."""

from __future__ import annotations

import functools
import io
from typing import Any

import av
import numpy as np
from PIL import Image, ImageDraw

FPS = 2
QUERY_SECONDS, TARGET_SECONDS = 12.0, 30.0
SEGMENTS = [
    {"query": [1.0, 6.0], "target": [4.0, 9.0], "score": 0.94},
    {"query": [7.0, 11.0], "target": [16.0, 24.0], "score": 0.81},
]
"""The second runs at half the speed in the target."""
UPLOAD, UNPLAYABLE = "u1", "00bad0"
Video = dict[str, Any]


@functools.cache
def clip(seconds: float, colour: int) -> bytes:
    """A small WebM with the time written on every frame."""
    file = io.BytesIO()
    with av.open(file, "w", format="webm") as out:
        stream = out.add_stream("libvpx", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 160, 90, "yuv420p"
        stream.options = {"deadline": "realtime", "cpu-used": "16", "g": "2"}
        for number in range(int(seconds * FPS)):
            frame = av.VideoFrame.from_ndarray(np.asarray(picture(number / FPS, colour)), format="rgb24")
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return file.getvalue()


def hue(name: str) -> int:
    """The colour that a video's frames have."""
    return 150 if name == UPLOAD else sum(name.encode()) * 7 % 255


def picture(at: float, colour: int, width: int = 160) -> Image.Image:
    """A plain picture with a time on it."""
    image = Image.new("HSV", (width, width * 9 // 16), (colour, 120, int(90 + 60 * np.sin(at) ** 2)))
    image = image.convert("RGB")
    ImageDraw.Draw(image).text((8, 8), f"{at:.1f}", fill="white", font_size=width // 5)
    return image


def video(number: int, **changes: Any) -> dict[str, Any]:
    """One video of the collection."""
    one: Video = {
        "id": f"{number:04x}",
        "name": f"holiday {number:04}.mp4",
        "file": f"f{number:04x}",
        "path": f"/videos/2024/holiday {number:04}.mp4",
        "state": "ready",
        "reason": None,
        "duration": TARGET_SECONDS,
        "width": 1920,
        "height": 1080,
        "bytes": 18_400_000 + number,
        "frames": 30,
        "added": "2024-05-01T10:00:00Z",
        "copies": [],
        "playable": True,
    }
    return {**one, **changes}


def matrix(rows: int, columns: int, low: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Noise, with a bright line where the stretches are; one row and column cover equal times."""
    values = np.random.default_rng(1).uniform(low, low + 0.35, (rows, columns))
    for segment in SEGMENTS:
        for share in np.linspace(0, 1, 4 * columns):
            query, target = (
                segment[side][0] + share * (segment[side][1] - segment[side][0])  # type: ignore[index]
                for side in ("query", "target")
            )
            values[int(query / QUERY_SECONDS * rows), int(target / TARGET_SECONDS * columns)] = 0.95
    return values.astype("<f4")


def searched(videos: list[Video], ask: dict[str, Any], more: int = 0) -> dict[str, Any]:
    """What a search for one video finds; with so many copies more."""
    kind = next(k for k in ("upload", "video", "path") if k in ask)
    query = {
        "kind": kind,
        "id": ask[kind],
        "name": "my clip.webm" if kind == "upload" else str(ask[kind]),
        "duration": QUERY_SECONDS,
    }

    def hit(at: int, verdict: str, confidence: float, words: str, segments: Any) -> dict[str, Any]:
        return {
            "video": videos[at],
            "score": confidence - 0.1,
            "confidence": confidence,
            "verdict": verdict,
            "segments": segments,
            "in_words": words,
        }

    return {
        "query": query,
        "refined": ask.get("refine", False),
        "hits": [
            *[hit(n, "copy", 0.98, "shares 5 s, from 0:04", SEGMENTS[:1]) for n in range(10, 10 + more)],
            hit(0, "copy", 0.9994, "shares 9 s in 2 stretches, from 0:04", SEGMENTS),
            hit(1, "related", 0.63, "shares 5 s, from 0:04", SEGMENTS[:1]),
            hit(5, "unrelated", 0.04, "no shared footage found", []),
        ][: ask["k"]],
    }


def compared(videos: list[Video], ask: dict[str, Any]) -> dict[str, Any]:
    """What comes of comparing two."""

    def side(ref: dict[str, str], seconds: float) -> dict[str, Any]:
        ((kind, name),) = ref.items()
        known = next((v["name"] for v in videos if v["id"] == name), "my clip.webm")
        return {"kind": kind, "id": name, "name": known, "duration": seconds}

    shape = {
        which: {"rows": r, "columns": c, "url_png": "", "url_bin": f"/api/comparisons/c1/{which}.bin"}
        for which, r, c in (("frame_matrix", 24, 60), ("output_matrix", 6, 15))
    }
    return {
        "comparison": "c1",
        "query": side(ask["query"], QUERY_SECONDS),
        "target": side(ask["target"], TARGET_SECONDS),
        **shape,
        "score": 0.87,
        "confidence": 0.9994,
        "verdict": "copy",
        "segments": SEGMENTS,
        "attention": True,
        "in_words": "shares 9 s in 2 stretches, from 0:04",
        "refined": False,
        "query_times": [i / 2 for i in range(24)],
        "target_times": [i / 2 for i in range(60)],
        "how": [
            "24 frames of the query were compared with 60 of the target.",
            "The best match of each frame was averaged: 0.87.",
        ],
    }


def folder(path: str) -> dict[str, Any]:
    """Two roots; in each a folder of a year, in which there are two videos."""
    inside = path.count("/")

    def named(*names: str) -> list[dict[str, str]]:
        return [{"name": name, "path": f"{path}/{name}" if path else name} for name in names]

    return {
        "path": path or None,
        "above": path.rpartition("/")[0] if inside > 1 else None,
        "folders": named("/videos", "/archive") if not path else named("2024") if inside == 1 else [],
        "videos": named("beach.mp4", "boat <i>.mp4") if inside == 2 else [],
        "more": False,
    }
