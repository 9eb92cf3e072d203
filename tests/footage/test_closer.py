"""What miniatures cannot show: small words, colours, the dark, other sound."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from footage.scenes import Frames, enlarged, shots, watched
from synthetic import Image, moving_scene, write_video
from visil.footage.closer import look, missing
from visil.footage.proof import File, Proof, Prover
from visil.video.sound import BLOCKS, read_sound

FPS = 8
SECONDS = 5
SIZE = (216, 288)
SLIDES = [np.full((*SIZE, 3), 225, np.uint8)] * 24


@cache
def film() -> Frames:
    return list(moving_scene(1, SECONDS, FPS, SIZE, shot=2.0))


@cache
def room() -> Frames:
    return enlarged(watched(1, 3, busy=0.0), 3)


@cache
def first_shots() -> Frames:
    return enlarged(shots(7, 3), 3)


def words(
    frames: Frames, text: str, alpha: float = 1.0, at: tuple[int, int] = (8, 190), size: int = 7
) -> Frames:
    """Small words over a film."""
    from matplotlib import get_data_path
    from PIL import Image as pillow
    from PIL import ImageDraw, ImageFont

    height, width = frames[0].shape[:2]
    mask = pillow.new("L", (width, height))
    font = ImageFont.truetype(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf", size)
    ImageDraw.Draw(mask).text(at, text, fill=255, font=font)
    share = np.asarray(mask, np.float32)[..., None] / 255 * alpha
    mean = float(np.mean([frame[at[1] : at[1] + 14, at[0] : at[0] + 80].mean() for frame in frames]))
    ink = 0.0 if mean > 110 else 255.0
    return [(frame * (1 - share) + ink * share).astype(np.uint8) for frame in frames]


def in_colours(frame: Image, order: tuple[int, int, int]) -> Image:
    """The same brightness, other colours."""
    from PIL import Image as pillow

    bands = pillow.fromarray(frame).convert("YCbCr").split()
    return np.asarray(pillow.merge("YCbCr", [bands[i] for i in order]).convert("RGB"))


def tinted(frame: Image) -> Image:
    return np.clip(frame * np.array([1.18, 1.0, 0.7]), 0, 255).astype(np.uint8)


def night(seed: int) -> Frames:
    """Two seconds in which hardly anything is seen."""
    return [(frame // 12).astype(np.uint8) for frame in moving_scene(seed, 2, FPS, SIZE)]


def walking(frames: Frames, seed: int) -> Frames:
    """With someone far away who walks about."""
    random = np.random.default_rng(seed)
    row, column = random.integers(40, 160), random.integers(40, 220)
    changed = [frame.copy() for frame in frames]
    for frame in changed:
        row, column = row + random.integers(-2, 3), column + random.integers(-2, 3)
        frame[row : row + 9, column : column + 5] = (
            (230, 220, 200) if frame[row, column].mean() < 120 else (20, 20, 20)
        )
    return changed


KEPT: dict[str, tuple[Callable[[], Frames], Callable[[], Frames]]] = {
    "a station's logo": (lambda: words(film(), "CH 5", 0.5, at=(240, 8), size=6), film),
    "one number of a slide": (
        lambda: film()[:16] + words(SLIDES, "revenue in 2019: 14.2", 0.7),
        lambda: film()[:16] + words(SLIDES, "revenue in 2020: 37.8", 0.7),
    ),
    "a camera at other times after one opening": (
        lambda: first_shots() + walking(room(), 1),
        lambda: first_shots() + walking(room(), 2),
    ),
    "a camera whose clock shows another time": (
        lambda: first_shots() + words(room(), "12:41:07", 0.8),
        lambda: first_shots() + words(room(), "09:58:33", 0.8),
    ),
    "exchanged colours": (lambda: [in_colours(frame, (0, 2, 1)) for frame in film()], film),
    "a tint": (lambda: [tinted(frame) for frame in film()], film),
    "what is seen at night": (
        lambda: film() + night(5),
        lambda: film() + [np.zeros_like(film()[0])] * 2 * FPS,
    ),
}


def proved(folder: Path, one: Frames, two: Frames, **how: object) -> Proof:
    files = []
    for name, frames in (("one", one), ("two", two)):
        own = {key.removeprefix(f"{name}_"): value for key, value in how.items() if key.startswith(name)}
        path = write_video(folder / f"{name}.mp4", frames, **({"fps": FPS} | own))  # type: ignore[arg-type]
        files.append(File(str(path), len(frames) / FPS, path.stat().st_size))
    seconds = len(one) / FPS, len(two) / FPS
    return Prover().prove(files[0], files[1], [((0.0, seconds[0]), (0.0, seconds[1]))])


@pytest.mark.parametrize("kind", KEPT)
def test_what_only_a_closer_look_tells_apart_is_kept(kind: str, tmp_path: Path) -> None:
    one, two = (made() for made in KEPT[kind])
    found = proved(tmp_path, one, two)
    assert not found.first_in_second.whole
    assert found.first_in_second.seconds < found.first_in_second.of


def test_one_digit_of_a_slide_is_seen() -> None:
    """Sixteen pixels high, of 720."""
    slide = [np.full((720, 1280, 3), 245, np.uint8)]
    mine, theirs = (
        words(slide, f"West: revenue 31.2 mn, cost {cost}.4 mn", at=(80, 300), size=16)[0]
        for cost in (31, 86)
    )
    assert missing([look(mine, theirs)] * 2) == (0.5, 0.5)  # at the second of two moments on end
    assert missing([look(mine, mine)] * 2) == (0.0, 0.0)


def test_what_is_there_for_half_a_second_is_looked_at(tmp_path: Path) -> None:
    """Of half a minute."""
    long = [frame for seed in range(6) for frame in moving_scene(seed, SECONDS, FPS, SIZE, shot=2.0)]
    named = long[:76] + words(long[76:81], "Ann Miller", at=(8, 190), size=6) + long[81:]
    found = proved(tmp_path, named, long)
    assert not found.first_in_second.whole
    assert found.first_in_second.seconds > 28


def test_a_word_of_a_moment_is_looked_at_where_it_alone_is_unlike(tmp_path: Path) -> None:
    """A quarter of a second: one of the moments that are compared, between two that fit."""
    named = film()[:26] + words(film()[26:28], "Ann Miller", at=(60, 100), size=12) + film()[28:]
    found = proved(tmp_path, named, film())
    assert not found.first_in_second.whole
    assert not found.second_in_first.whole


def test_a_worse_copy_is_the_same_at_a_closer_look(tmp_path: Path) -> None:
    found = proved(tmp_path, enlarged(film(), 0.5), film(), one_options={"crf": "32"})
    assert found.first_in_second.whole
    assert found.finer.which == "second"
    assert found.finer.clearly


def tune(seed: int, seconds: float = SECONDS) -> NDArray[np.float32]:
    """Notes of a quarter of a second, at 48 kHz."""
    random = np.random.default_rng(seed)
    times = np.arange(12000) / 48000
    notes = [
        np.sin(2 * np.pi * random.choice([150, 250, 380, 570, 850, 1250, 1900, 2900]) * times)
        * random.uniform(0.05, 0.5)
        for _ in range(round(seconds * 4))
    ]
    return np.concatenate(notes).astype(np.float32)


@pytest.mark.parametrize(
    ("mine", "theirs", "only"),
    [
        (tune(1), tune(1) * np.float32(0.5), None),
        (tune(1), tune(2), "sounds different"),
        (tune(1), True, "sounds different"),
        (True, tune(1), None),
        (np.concatenate([tune(1, 3), tune(2, 2)]), tune(1), "sounds different"),
    ],
    ids=["softer", "other words", "silenced", "silent", "other words at the end"],
)
def test_a_file_that_sounds_different_is_missed(
    mine: NDArray[np.float32] | bool, theirs: NDArray[np.float32] | bool, only: str | None, tmp_path: Path
) -> None:
    small = [frame[::3, ::3] for frame in film()]
    found = proved(tmp_path, small, small, one_sound=mine, two_sound=theirs, two_options={"crf": "24"})
    assert found.first_in_second.whole
    assert found.first_only == only


def test_sound_is_measured_by_pitch_and_from_the_first_picture_on(tmp_path: Path) -> None:
    tone = np.sin(2 * np.pi * 850 * np.arange(2 * 48000) / 48000).astype(np.float32)
    tone[:48000] = 0
    (track,) = read_sound(
        write_video(tmp_path / "tone.mp4", [frame[::3, ::3] for frame in film()[:16]], FPS, sound=tone)
    )
    bands = track.bands
    assert len(bands) == pytest.approx(2 * BLOCKS, abs=1)
    assert bands[: BLOCKS - 3].max() < -50
    loud = bands[BLOCKS + 1 : 2 * BLOCKS - 4]
    assert set(loud.argmax(axis=1)) == {4}, "700 to 1,000 hertz"
    assert loud.max() == pytest.approx(0, abs=1)


def test_fewer_frames_a_second_are_missed(tmp_path: Path) -> None:
    times = np.arange(SECONDS * 30) / 30
    smooth = [film()[int(time * FPS)][::3, ::3] for time in times]
    fewer = [frame for number, frame in enumerate(smooth) if number % 5]
    found = proved(tmp_path, smooth, fewer, one_fps=30, two_fps=24)
    assert found.first_only == "has 30 frames a second"
    assert found.second_only is None
