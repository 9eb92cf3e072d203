"""``add --sampling keyframes`` keeps what key frames show; ``search --refine`` looks between them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from synthetic import write_video
from visil.collection.index import Index

from .conftest import FPS, Command, footage

SEPARATE = "goes with none of --fast-decode, --decoder nvdec and --ray"


def test_hits_of_key_frames_are_looked_at_where_they_match(tmp_path: Path, run: Command) -> None:
    cat, films = footage("chelsea", 9), tmp_path / "films"
    films.mkdir()
    keys = {"g": str(3 * FPS), "keyint_min": str(3 * FPS), "sc_threshold": "0"}
    write_video(films / "film.mp4", [*footage("rocket", 6), *cat], FPS, options=keys)
    write_video(films / "other.mp4", footage("astronaut", 6), FPS, options=keys)
    query = write_video(tmp_path / "clip.mp4", cat, FPS)
    folder = tmp_path / "i"
    assert run("add", folder, films, "--sampling", "keyframes").status == 0
    with Index(folder) as index:
        kept = index.features(films / "film.mp4")
    assert len(kept) == 15
    same = (kept.vectors[1:] == kept.vectors[:-1]).flatten(1).all(dim=1)
    assert same.tolist() == [k % 3 != 1 for k in range(13)] + [True]
    assert not torch.equal(kept.vectors[0], kept.vectors[-1])

    (plain, *_) = run("search", folder, query, "--json").json["hits"]
    (hit, *_) = run("search", folder, query, "--refine", "--json").json["hits"]
    assert hit["confidence"] > plain["confidence"]
    between = str(
        (hit["confidence"] + plain["confidence"]) / 2
    )  # a hit counts as what the closer look makes of it
    asked = run("search", folder, query, "--min-confidence", between, "--refine", "--json").json["hits"]
    assert [one["id"] for one in asked] == [hit["id"]]
    assert not run("search", folder, query, "--min-confidence", between, "--json").json["hits"]
    assert Path(hit["path"]).name == "film.mp4"
    assert hit["verdict"] in ("copy", "related")
    (segment,) = hit["segments"]
    assert segment["query"] == pytest.approx([0, 9], abs=0.6)
    assert segment["target"] == pytest.approx([6, 15], abs=0.6)


def test_what_does_not_go_together(tmp_path: Path, run: Command) -> None:
    assert SEPARATE in run("add", tmp_path / "i", tmp_path, "--sampling", "keyframes", "--fast-decode").line
