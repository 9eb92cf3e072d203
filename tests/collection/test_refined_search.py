"""``search(refine=True)`` looks at files that hold what was added, and at no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthetic import write_video
from visil.collection.index import Index

from .conftest import FPS, footage


def test_a_file_that_holds_something_else_now_is_not_looked_at(tmp_path: Path) -> None:
    cat, films = footage("chelsea", 7), tmp_path / "films"
    films.mkdir()
    first = write_video(films / "a.mp4", cat, FPS)
    clip = write_video(tmp_path / "clip.mp4", cat[3 * FPS // 2 : 6 * FPS], FPS, options={"crf": "26"})
    with Index(tmp_path / "i") as index:
        index.add(films, workers=1)
        (plain,), (refined,) = index.search(clip), index.search(clip, refine=True)
        assert plain.segments[0].target[0] == pytest.approx(1, abs=0.1)
        assert refined.segments[0].target == pytest.approx([1.5, 6], abs=0.15)
        (films / "b.mp4").write_bytes(first.read_bytes())
        index.add(films, workers=1)
        write_video(first, footage("coffee", 7), FPS)
        assert index.search(clip, refine=True)[0].segments == refined.segments  # b.mp4 holds it still
        (films / "b.mp4").unlink()
        (left,) = index.search(clip, refine=True)
    assert (left.confidence, left.segments) == (plain.confidence, plain.segments)
