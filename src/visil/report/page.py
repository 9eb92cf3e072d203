"""What every report is made of: its head with the style sheet, its foot, and the facts of a video."""

from __future__ import annotations

from pathlib import Path

from visil.collection.catalogue import Video
from visil.plots.times import clock
from visil.report.pair import text

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
FOOT = "<footer><p>Made by visil. Nothing was deleted, moved or changed.</p></footer></body></html>\n"


def head(title: str) -> str:
    """Down to where the page's body begins."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE.read_text('utf-8')}</style></head><body>\n"
    )


def facts(video: Video) -> str:
    """Size, length, bytes, bit rate and codec of a video, on one line."""
    told = [f"{video.width}×{video.height}", clock(video.duration), _bytes(video.bytes)]
    if video.bit_rate:
        told.append(_bit_rate(video.bit_rate))
    if video.codec:
        told.append(text(video.codec))
    return " · ".join(told)


def _bytes(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.{0 if size >= 100 * scale else 1}f} {unit}"
    return f"{size} bytes"


def _bit_rate(rate: int) -> str:
    return f"{rate / 1e6:.1f} Mbit/s" if rate >= 1e6 else f"{rate / 1e3:.0f} kbit/s"
