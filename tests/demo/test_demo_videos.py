"""Demo videos: scenes from photographs, edits that do what they say, files that are whole."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("skimage")

from synthetic import difference, same_frames
from visil.demo import make_pair, photograph, photographs, render_scene, scenes
from visil.edits.frames import Edit, border, crop, cut, edited
from visil.errors import UsageError
from visil.video import Image, frames_at, probe

SMALL = (128, 72)


def shots(seconds: float = 1.0, name: str = "coffee", seed: int = 0) -> list[Image]:
    return list(render_scene(photograph(name), seconds, 10, SMALL, seed))


# ---------------------------------------------------------------------- scenes


def test_photographs_are_files_of_the_package_with_names_of_their_own() -> None:
    found = photographs()
    assert len(found) >= 12
    assert len({photo.name for photo in found}) == len(found)
    assert all(photo.path.is_file() for photo in found)
    with pytest.raises(UsageError, match=r"'zebra'; there are .*coffee"):
        photograph("zebra")


def test_without_scikit_image_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenes, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'visil\[demo\]'"):
        photographs()


def test_scikit_image_is_not_imported() -> None:
    code = "import sys; from visil.demo import photographs; photographs(); sys.exit('skimage' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


@pytest.mark.parametrize("name", [photo.name for photo in photographs()])
def test_every_photograph_can_be_filmed(name: str) -> None:
    frames = list(render_scene(photograph(name), 0.5, 4, SMALL))
    assert len(frames) == 2
    assert frames[0].shape == (72, 128, 3)
    assert frames[0].dtype == np.uint8
    assert frames[0].std() > 5


def test_the_camera_moves_smoothly_and_never_leaves_the_picture() -> None:
    frames = shots(3)
    steps = [difference(a, b) for a, b in pairwise(frames)]
    assert min(steps) > 0
    assert max(steps) < difference(frames[0], frames[-1])
    # Outside the picture is black; coffee.png has next to nothing that dark along its edges.
    for seed in range(6):
        for frame in shots(1, seed=seed)[::3]:
            assert (frame.max(axis=-1) == 0).mean() < 0.01


def test_the_same_seed_gives_the_same_frames_and_another_gives_others() -> None:
    assert same_frames(shots(seed=3), shots(seed=3))
    assert difference(shots(seed=3)[0], shots(seed=4)[0]) > 5


def test_a_part_of_a_scene_is_the_scene_cut() -> None:
    part = list(render_scene(photograph("coffee"), 2, 10, SMALL, part=(0.5, 1.2)))
    assert same_frames(part, list(edited(shots(2), cut(0.5, 1.2, 10))))
    assert len(part) == 7


@pytest.mark.parametrize(("seconds", "size"), [(0, SMALL), (-1, SMALL), (1, (0, 10))])
def test_scenes_without_frames_are_refused(seconds: float, size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="at least one frame"):
        render_scene(photograph("coffee"), seconds, 10, size)


# ---------------------------------------------------------------------- the pair


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "new"
    make_pair(folder, size=SMALL, fps=10)
    return folder


def test_the_pair_is_as_long_as_it_says(pair_folder: Path) -> None:
    pair = make_pair(pair_folder, size=SMALL, fps=10)
    lengths = []
    for path in (pair.query, pair.target):
        info = probe(path)
        assert info.duration is not None
        lengths.append(info.duration)
    assert lengths == pytest.approx([40, 60], abs=0.01)
    assert len(pair.truth) == 2
    for (start, end), length in (
        (span, n) for both in pair.truth for span, n in zip(both, lengths, strict=True)
    ):
        assert 0 <= start < end <= length
    (first, copied), (second, faster) = pair.truth
    assert copied[1] - copied[0] == pytest.approx(first[1] - first[0])
    assert (second[1] - second[0]) / (faster[1] - faster[0]) == pytest.approx(1.25)


def test_the_pair_shows_the_same_where_it_says_so(pair_folder: Path) -> None:
    """Thumbnails, edited alike, agree best when neither stretch is shifted."""
    pair = make_pair(pair_folder, size=SMALL, fps=10)

    def looks(path: Path, stretch: tuple[float, float], *edits: Edit) -> NDArray[np.float64]:
        start, end = stretch
        times = [start + share * (end - start) for share in np.linspace(0.04, 0.96, 14)]
        pictures = np.stack(list(edited(frames_at(path, times, SMALL[1]), *edits))).mean(axis=-1)[:, 8:60]
        pictures = pictures - pictures.mean(axis=(1, 2), keepdims=True)
        return np.asarray(pictures / pictures.std(axis=(1, 2), keepdims=True))

    for (query, target), edit in zip(pair.truth, (crop(0.8, 0.4, 0.3), border(0.12)), strict=True):
        shown = looks(pair.query, query, edit)
        agreement = {
            shift: np.median(
                (shown * looks(pair.target, (target[0] + shift, target[1] + shift))).mean(axis=(1, 2))
            )
            for shift in (-8, -4, -1, 0, 1, 4, 8)
        }
        assert agreement[0] > 0.9
        assert max(value for shift, value in agreement.items() if shift) < 0.75


def test_files_that_are_there_stay_and_missing_ones_come_back(pair_folder: Path) -> None:
    pair = make_pair(pair_folder, size=SMALL, fps=10)
    before = pair.query.stat().st_mtime_ns
    written = pair.target.read_bytes()
    pair.target.unlink()
    make_pair(pair_folder, size=SMALL, fps=10)
    assert pair.query.stat().st_mtime_ns == before
    assert pair.target.read_bytes() == written


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file"):
        make_pair(tmp_path / "file", size=SMALL, fps=10)
