"""Pictures of what visil found: a match, and what attention looks at. Matplotlib is imported when one is drawn."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visil.errors import UsageError, printable
from visil.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from visil.plots.match_figure import Pictured

__all__ = ["check_plot_path", "plot_attention", "plot_match"]

FORMATS = ("png", "svg", "pdf", "jpg")
DPI = 160

# What the writers add on their own, and what would make two files of one picture differ.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": "visil"},
    "svg": {"Creator": "visil", "Date": None},
    "pdf": {"Creator": "visil", "CreationDate": None},
}


def plot_match(match: Pictured, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Draw a match: S_f with both videos' frames along its sides, S_v, and the stretches they share.

    Thumbnails come from the videos themselves; where one cannot be read, its side goes without. ``title``
    stands in the place of the two file names.
    """
    form = check_plot_path(path)
    with replacing(path) as fresh:
        from visil.plots.match_figure import match_figure

        _save(match_figure(match, title), fresh, form)


def plot_attention(
    frames: NDArray[np.uint8], weights: ArrayLike, path: str | os.PathLike[str], grid: int | None = None
) -> None:
    """Draw what attention looks at: frames [T, H, W, 3] above, the same under their regions' weights below.

    ``weights`` is [T, R], as :meth:`visil.ViSiL.attention_weights` gives it. ``grid`` is the N of the N×N
    regions to draw; without it, the finest level that R holds: 9 is 3×3, and 14 = 1 + 4 + 9 is drawn as its
    3×3. Of more than eight frames, eight are drawn.
    """
    form = check_plot_path(path)
    with replacing(path) as fresh:
        import numpy as np

        from visil.plots.attention_figure import attention_figure

        _save(attention_figure(np.asarray(frames), np.asarray(weights, np.float64), grid), fresh, form)


def check_plot_path(path: str | os.PathLike[str]) -> str:
    """The format that a picture's suffix names; a :class:`UsageError` where it is none of ours."""
    suffix = Path(path).suffix.lower().lstrip(".").replace("jpeg", "jpg")
    if suffix not in FORMATS:
        raise UsageError(
            f"{printable(os.fspath(path))}: a picture can be .png, .svg, .pdf or .jpg, "
            + (f"not .{printable(suffix)}" if suffix else "and the name must say which")
        )
    return suffix


def _save(figure: Figure, path: Path, form: str) -> None:
    with path.open("wb") as file:
        figure.savefig(file, format=form, dpi=DPI, metadata=_METADATA.get(form))
