"""Files of true segments in TransVCL's layout, which VCDB and VCSL share."""

from __future__ import annotations

from dataclasses import dataclass

from visil.evaluation.layout import AnyPath, Layout, read_json
from visil.evaluation.predictions import Pair, finite
from visil.matching.localize import Segment


@dataclass(frozen=True)
class TrueSegments:
    """True segments by pair, and how many were no stretches and are left out."""

    pairs: dict[Pair, list[Segment]]
    unusable: int


def read_label_file(path: AnyPath, of: str) -> TrueSegments:
    """``{"a-b": [[start in a, start in b, end in a, end in b], ...]}`` in seconds.

    Segments that end before they begin are left out and counted: VCSL's labels have one.
    """
    layout = Layout(path, of)
    pairs: dict[Pair, list[Segment]] = {}
    unusable = 0
    for key, boxes in layout.mapping(read_json(path), "its content").items():
        names = str(key).split("-")
        if len(names) != 2 or not all(names):
            layout.wrong(f"{str(key)[:90]!r} must be two ids joined by one '-'")
        own = pairs.setdefault((names[0], names[1]), [])
        for box in layout.list_of(boxes, f"the segments of {key!r}"):
            if not isinstance(box, list) or len(box) != 4:
                layout.wrong(f"a segment of {key!r} must be four times, not {str(box)[:60]}")
            times = [time for time in map(finite, box) if time is not None]
            if len(times) != 4:
                layout.wrong(f"a segment of {key!r} must be four numbers, not {str(box)[:60]}")
            if times[0] > times[2] or times[1] > times[3]:
                unusable += 1
                continue
            own.append(Segment((times[0], times[2]), (times[1], times[3]), 1.0))
    if not pairs:
        layout.wrong("it names no pairs")
    return TrueSegments(pairs, unusable)
