"""Text in pictures: any file name, drawn as it is, in fonts that have its letters."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

BASE = "DejaVu Sans"
"""Comes with Matplotlib."""

UNKNOWN = "\N{WHITE SQUARE}"
"""Stands for letters that no font here has."""

# Common fonts for the scripts that the base font lacks; those that are not installed are passed over.
_OTHERS = (
    *("Noto Sans", "Noto Sans CJK JP", "Noto Sans CJK SC", "Source Han Sans", "WenQuanYi Zen Hei"),
    *("Hiragino Sans", "PingFang SC", "Apple SD Gothic Neo", "Arial Unicode MS", "Microsoft YaHei"),
    *("Yu Gothic", "Malgun Gothic", "Nirmala UI", "Noto Sans Devanagari", "Noto Sans Thai", "Noto Emoji"),
    *("Segoe UI Symbol", "Segoe UI Emoji", "Unifont"),
)


def file_name(path: str | None, unknown: str) -> str:
    """The last part of a path on one line, without characters that cannot be seen."""
    if path is None:
        return unknown
    return visible(os.path.basename(os.path.normpath(path))) or unknown


def visible(text: str) -> str:
    """Text without control and formatting characters, white space as single blanks, letters in one piece."""
    whole = unicodedata.normalize("NFC", " ".join(text.split()))
    return "".join(c for c in whole if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co", "Cn"))


def shortened(text: str, length: int) -> str:
    """At most ``length`` characters, the middle left out: beginnings tell names apart, ends tell formats."""
    if len(text) <= length:
        return text
    tail = max(1, (length - 1) * 2 // 5)
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def write(figure: Figure, x: float, y: float, text: str, *, weight: str = "normal", **style: Any) -> float:
    """Put text on a figure, in inches from its top left; gives its length. Nothing in it is taken for markup."""
    return _length(_written(figure, x, y, text, weight, style))


def write_within(
    figure: Figure,
    x: float,
    y: float,
    text: Callable[[int], str],
    room: float,
    *,
    weight: str = "normal",
    **style: Any,
) -> None:
    """Put text on a figure, not longer than ``room``; ``text`` says it in at most so many characters."""
    limit = int(room * 20)
    while True:
        written = _written(figure, x, y, text(limit), weight, style)
        length = _length(written)
        if length <= room or limit <= 4:
            return
        written.remove()
        limit = max(4, min(limit - 1, int(limit * room / length)))


def _written(figure: Figure, x: float, y: float, text: str, weight: str, style: dict[str, Any]) -> Text:
    width, height = figure.get_size_inches()
    drawable, font = _drawable(text, weight)
    style = {**style, "font": font, "parse_math": False, "usetex": False}
    return figure.text(x / width, 1 - y / height, drawable, **style)


def _length(text: Text) -> float:
    """How long a line of text is, upright or not, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = text.get_figure(root=True)
    assert figure is not None
    canvas = figure.canvas if isinstance(figure.canvas, FigureCanvasAgg) else FigureCanvasAgg(figure)
    extent = text.get_window_extent(canvas.get_renderer())  # type: ignore[no-untyped-call]
    return max(extent.width, extent.height) / figure.dpi


def _drawable(text: str, weight: str) -> tuple[str, FontProperties]:
    """The text, with letters that no font can draw replaced, and the fonts for it."""
    from matplotlib.font_manager import FontProperties

    families = [BASE]
    missing = {c for c in text if not _has(BASE, weight, c)}
    for family in _others() if missing else ():
        found = {c for c in missing if _has(family, weight, c)}
        if found:
            families.append(family)
            missing -= found
    drawable = "".join(UNKNOWN if c in missing else c for c in text)
    return drawable, FontProperties(family=families, weight=weight)


@lru_cache(maxsize=1)
def _others() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    installed = {font.name for font in fontManager.ttflist}
    return tuple(family for family in _OTHERS if family in installed)


@lru_cache(maxsize=4096)
def _has(family: str, weight: str, character: str) -> bool:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    try:
        file = findfont(FontProperties(family=family, weight=weight), fallback_to_default=False)
        return get_font(file).get_char_index(ord(character)) != 0
    except (OSError, RuntimeError, ValueError):
        return False
