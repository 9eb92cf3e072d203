"""Moments at which nothing is seen, and those at which only something small is."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from footage.scenes import Frames
from synthetic import moving_scene, write_video
from visil.footage.proof import File, Proof, Prover

FPS = 8
SIZE = (360, 640)


@cache
def film() -> Frames:
    return list(moving_scene(11, 3, FPS, SIZE, shot=1.5))


def ground(level: int, seconds: float = 2) -> Frames:
    return [np.full((*SIZE, 3), level, np.uint8) for _ in range(round(seconds * FPS))]


def stars() -> Frames:
    places = np.random.default_rng(5).integers(0, SIZE, (40, 2))
    frames = ground(4)
    for number, frame in enumerate(frames):
        for row, column in places:
            frame[row : row + 2, (column + number) % 638 : (column + number) % 638 + 2] = 200
    return frames


def words(level: int, ink: tuple[int, int, int]) -> Frames:
    """Two small words on a plain ground."""
    from PIL import Image as pillow
    from PIL import ImageDraw

    frames = []
    for frame in ground(level):
        page = pillow.fromarray(frame)
        ImageDraw.Draw(page).text((280, 170), "for A. B.", fill=ink)
        frames.append(np.asarray(page))
    return frames


def grainy() -> Frames:
    random = np.random.default_rng(1)
    return [
        np.clip(frame + random.normal(0, 4, frame.shape), 0, 255).astype(np.uint8) for frame in ground(30)
    ]


def faded() -> Frames:
    """The film's last picture goes out within a second."""
    steps = np.linspace(1, 0, FPS)
    return [(film()[-1] * step).astype(np.uint8) for step in steps] + ground(0, 1.5)


def proved(folder: Path, frames: Frames, coded: str = "18") -> Proof:
    """A film with something at its end, and the film alone."""
    long = write_video(folder / "long.mp4", frames, FPS, options={"crf": coded})
    short = write_video(folder / "short.mp4", film(), FPS)
    files = [
        File(str(path), seconds, path.stat().st_size)
        for path, seconds in ((long, len(frames) / FPS), (short, 3.0))
    ]
    return Prover().prove(files[0], files[1], [((0.0, 3.0), (0.0, 3.0))])


SMALL: dict[str, Callable[[], Frames]] = {
    "stars": stars,
    "words on black": lambda: words(0, (45, 45, 45)),
    "words on white": lambda: words(250, (215, 215, 215)),
    "red words on grey": lambda: words(90, (140, 76, 76)),
}


@pytest.mark.parametrize("what", SMALL)
def test_what_is_too_small_for_miniatures_is_not_lost(what: str, tmp_path: Path) -> None:
    found = proved(tmp_path, film() + SMALL[what]())
    assert not found.first_in_second.whole
    assert 3 <= found.first_in_second.seconds < found.first_in_second.of


@pytest.mark.parametrize("coded", ["18", "32"])
@pytest.mark.parametrize(
    "end",
    [lambda: ground(0), lambda: ground(255), lambda: ground(120), grainy],
    ids=["black", "white", "grey", "grain"],
)
def test_what_is_blank_may_go(end: Callable[[], Frames], coded: str, tmp_path: Path) -> None:
    found = proved(tmp_path, film() + end(), coded)
    assert found.first_in_second.of == 5
    assert found.first_in_second.whole


def test_a_fade_is_shown_by_one_that_has_it_too(tmp_path: Path) -> None:
    found = Prover()
    paths = [
        write_video(tmp_path / f"{crf}.mp4", film() + faded(), FPS, options={"crf": crf})
        for crf in ("18", "30")
    ]
    one, two = (File(str(path), 5.5, path.stat().st_size) for path in paths)
    proof = found.prove(one, two, [((0.0, 5.5), (0.0, 5.5))])
    assert proof.first_in_second.whole
    assert proof.second_in_first.whole
