"""The built-in benchmark: who is learned from, what copies show, what is to be found; against hand-made layouts."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import moving_scene, write_video
from visil.errors import FileError, UsageError
from visil.paper.built_in import LONGEST, BuiltIn, plan, split
from visil.paper.videos import BuiltInVideos
from visil.video import Sampling

SIDE = 64
SMALL = Sampling(resize=SIDE, crop=SIDE)

FLAT = [f"{number}.mp4" for number in range(10)]
TWO_LEVELS = [f"{top}/{low}/{n}.mp4" for top in "abcde" for low in "xy" for n in range(2)]


def test_truth_of_two_levels() -> None:
    made = plan(TWO_LEVELS, [20] * len(TWO_LEVELS))
    truth, database = made.benchmark.truth, made.benchmark.database
    assert list(truth) == ["DSVR", "CSVR", "ISVR"]
    source = sorted(database)[0]
    top, low, _ = source.split("/")
    for edit in ("mild", "paper", "heavy"):
        query = f"{source}#{edit}"
        assert truth["DSVR"][query] == {source}
        assert truth["CSVR"][query] == {f"{top}/{low}/0.mp4", f"{top}/{low}/1.mp4"}
        assert truth["ISVR"][query] == {f"{top}/{one}/{n}.mp4" for one in "xy" for n in (0, 1)}


def test_layouts_without_scenes() -> None:
    assert list(plan(FLAT, [9] * 10).benchmark.truth) == ["DSVR"]
    assert list(plan(TWO_LEVELS, [9] * 20, flat=True).benchmark.truth) == ["DSVR"]
    one_level = [f"{folder}/{n}.mp4" for folder in "abcd" for n in range(3)]
    assert list(plan(one_level, [9] * 12).benchmark.truth) == ["DSVR", "CSVR"]
    alone = [f"{n}/clip.mp4" for n in range(10)]
    assert list(plan(alone, [9] * 10).benchmark.truth) == ["DSVR"]


@given(
    st.lists(st.sampled_from(["a/1", "a/2", "b/1", "c", "d", ""]), min_size=6, max_size=30),
    st.integers(0, 1000),
    st.data(),
)
@settings(max_examples=40, deadline=None)
def test_any_layout(folders: list[str], seed: int, data: st.DataObject) -> None:
    names = sorted(f"{folder}/{n}.mp4".lstrip("/") for n, folder in enumerate(folders))
    lengths = data.draw(st.lists(st.integers(1, 150), min_size=len(names), max_size=len(names)))
    made = plan(names, lengths, seed=seed)
    assert sorted((*made.learning, *made.evaluated)) == list(range(len(names)))
    assert made.learning
    assert made.evaluated
    assert made.benchmark.database == {names[clip] for clip in made.evaluated}
    for copy in made.copies:
        own = [sample for clip, sample in copy.frames if clip == copy.source]
        assert 1 <= len(set(own)) <= LONGEST
        assert copy.source in made.evaluated
        for clip, sample in copy.frames:
            assert 0 <= sample < lengths[clip]
            assert clip == copy.source or clip in made.learning  # what is foreign is not in the database
        if copy.edit == "mild":
            assert own == list(range(own[0], own[0] + len(own)))
            assert len(own) == len(copy.frames)
    for query in made.benchmark.queries:
        found = [truth[query] for truth in made.benchmark.truth.values()]
        assert all(narrow <= wide for narrow, wide in itertools.pairwise(found))
        assert all(one <= made.benchmark.database for one in found)
    assert plan(names, lengths, seed=seed) == made


def test_whole_folders_are_learned_from() -> None:
    names = [f"{folder}/{n}.mp4" for folder in "abcdefgh" for n in range(5)]
    learning = split(names, 0)
    assert 12 <= len(learning) <= 20
    assert all(len({names[c] for c in learning if names[c][0] == f}) in (0, 5) for f in "abcdefgh")
    lopsided = [f"a/{n}.mp4" for n in range(19)] + ["b/0.mp4"]
    assert len(split(lopsided, 0)) == 8  # one folder holds nearly all: drawn by clip


def test_many_clips_are_distractors() -> None:
    names = [f"{number:03}.mp4" for number in range(200)]
    made = plan(names, [9] * 200, sources=10)
    assert len(made.copies) == 30
    assert len(made.benchmark.database) == 120


def test_figures_by_hand() -> None:
    """Two queries; their originals come first and second: AP 1 and 1/2."""
    benchmark = BuiltIn(
        ("a#mild", "b#heavy"),
        frozenset("abcd"),
        {
            "DSVR": {"a#mild": frozenset("a"), "b#heavy": frozenset("b")},
            "CSVR": {"a#mild": frozenset("ac"), "b#heavy": frozenset("bd")},
        },
        {"mild": frozenset(["a#mild"]), "heavy": frozenset(["b#heavy"]), "strung": frozenset()},
    )
    scores = {
        "a#mild": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.1},
        "b#heavy": {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.1},
    }
    figures = benchmark.evaluate(scores)
    assert figures["DSVR"] == pytest.approx((1 + 1 / 2) / 2)
    # CSVR: a and c at ranks 1 and 3; b and d at ranks 2 and 4.
    assert figures["CSVR"] == pytest.approx(((1 + 2 / 3) / 2 + (1 / 2 + 2 / 4) / 2) / 2)
    assert figures["edits"] == {"mild": 1.0, "heavy": 0.5}
    assert (figures["queries"], figures["videos"]) == (2, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven small clips of 3 to 9 s in two folders and one that is no video."""
    root = tmp_path_factory.mktemp("clips")
    for number in range(7):
        place = root / ("a" if number < 3 else "b")
        place.mkdir(exist_ok=True)
        seconds = (9, 6, 3)[number % 3]
        write_video(
            place / f"{number}.mp4", moving_scene(number, seconds, fps=8, size=(SIDE, SIDE), shot=3), fps=8
        )
    (root / "b" / "broken.mp4").write_bytes(b"no video")
    return root


def test_videos_of_a_folder(folder: Path, tmp_path: Path) -> None:
    videos = BuiltInVideos(folder, tmp_path, SMALL)
    assert [(Path(path).name, bool(reason)) for path, reason in videos.failed] == [("broken.mp4", True)]
    # 9 s once a second, 6 s twice, 3 s four times a second.
    assert [len(videos.frames(f"{name}.mp4")[0]) for name in ("a/0", "a/1", "a/2")] == [9, 12, 12]
    assert [videos.file(f"{name}.mp4")[1].fps for name in ("a/0", "a/1", "a/2")] == [1, 2, 4]
    for query in videos.benchmark.queries:
        images, times = videos.frames(query)
        copy = next(c for c in videos.plan.copies if c.name == query)
        assert images.shape == (len(copy.frames), SIDE, SIDE, 3)
        assert images.dtype == torch.uint8
        assert len(times) == len(images)
        assert (times.diff() > 0).all()
        if copy.edit == "mild":
            original, _ = videos.frames(videos.plan.names[copy.source])
            assert _nearest(images, original) < _nearest(images, original.flip(1).flip(2))
    again = BuiltInVideos(folder, tmp_path, SMALL)
    assert again.plan == videos.plan
    query = videos.benchmark.queries[-1]
    assert (again.frames(query)[0] == videos.frames(query)[0]).all()
    assert again.key(query) == videos.key(query)
    assert sum(footage.decoded for footage, _, _ in again._clips.values()) == 0  # all from the cache


def _nearest(images: torch.Tensor, others: torch.Tensor) -> float:
    """Mean distance of frames to the nearest of others."""
    a, b = images.flatten(1).double(), others.flatten(1).double()
    return float(torch.cdist(a, b).amin(dim=1).mean())


def test_a_change_of_a_file_changes_its_key(folder: Path, tmp_path: Path) -> None:
    videos = BuiltInVideos(folder, tmp_path, SMALL)
    keys = {name: videos.key(name) for name in (*videos.benchmark.database, *videos.benchmark.queries)}
    assert len(set(keys.values())) == len(keys)
    other = BuiltInVideos(folder, tmp_path, Sampling(resize=SIDE, crop=SIDE, fit="whole"))
    assert other.key("a/0.mp4") != videos.key("a/0.mp4")
    changed = next(c.source for c in videos.plan.copies)
    name = videos.plan.names[changed]
    os.utime(folder / name, (1, 1))
    assert videos.key(name) != keys[name]
    assert videos.key(f"{name}#mild") != keys[f"{name}#mild"]


def test_mistakes_are_one_line(tmp_path: Path, folder: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileError, match="holds no videos"):
        BuiltInVideos(empty, tmp_path, SMALL)
    with pytest.raises(FileError, match="is no folder of videos"):
        BuiltInVideos(tmp_path / "nowhere", tmp_path, SMALL)
    with pytest.raises(UsageError, match="at least 6 readable videos, found 3"):
        BuiltInVideos(folder / "a", tmp_path, SMALL)
    with pytest.raises(UsageError, match="at least 6 readable videos"):
        plan(["a.mp4"], [3])


def test_clips_are_drawn_by_the_seed(folder: Path, tmp_path: Path) -> None:
    def names(seed: int) -> tuple[str, ...]:
        return BuiltInVideos(folder, tmp_path, SMALL, clips=7, seed=seed).plan.names

    assert names(1) == names(1)
    assert len({names(seed) for seed in range(6)}) > 1
    assert all(len(names(seed)) in (6, 7) for seed in range(6))  # the broken one may be among the seven
