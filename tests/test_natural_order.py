"""Names sort as people count."""

from __future__ import annotations

from visil.natural_order import natural_order


def test_names_sort_as_people_count() -> None:
    counted = ["7.mp4", "٣.mp4", "clip 1.mp4", "Clip 2.mp4", "clip 02b.mp4", "clip 10.mp4", "clip.mp4"]
    assert sorted(sorted(counted), key=natural_order) == counted


def test_a_number_comes_before_text() -> None:
    assert sorted(["frame-b", "frame", "frame10", "frame9"], key=natural_order) == [
        *("frame", "frame9", "frame10", "frame-b")
    ]
