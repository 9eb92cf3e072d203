"""Whether all of one file is in another, on real files: what may be lost is never called contained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from footage.scenes import (
    FPS,
    Frames,
    blinking,
    deck,
    enlarged,
    shots,
    still,
    watched,
    without,
)
from synthetic import write_video
from visil.footage.containment import Containment, contained
from visil.footage.miniatures import Miniatures, read_miniatures

FILM = shots(1, 10)
TALK = watched(2, 12)
DECK = deck([1, 2, 3, 4, 5])


class Cinema:
    """Films as files, each written and read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[bytes, Miniatures] = {}

    def read(self, frames: Frames, crf: int, fps: float) -> Miniatures:
        """What a file of these frames looks like, small."""
        key = b"".join(frame.tobytes() for frame in frames[:: max(1, len(frames) // 7)]) + bytes(
            [crf, len(frames) % 251]
        )
        if key not in self._known:
            path = write_video(
                self.folder / f"{len(self._known)}.mp4", frames, fps, options={"crf": str(crf)}
            )
            self._known[key] = read_miniatures(str(path), len(frames) / fps)
        return self._known[key]

    def contained(self, first: Frames, other: Frames, crf: int = 28, fps: float = FPS) -> Containment:
        """With the poorest guess: that the one is the other, bent over whatever was cut."""
        one, two = self.read(first, crf, fps), self.read(other, 20, FPS)
        return contained(one, two, [((0.0, one.seconds), (0.0, two.seconds))])


@pytest.fixture(scope="module")
def cinema(tmp_path_factory: pytest.TempPathFactory) -> Cinema:
    return Cinema(tmp_path_factory.mktemp("films"))


IN: dict[str, tuple[Callable[[], Frames], Callable[[], Frames]]] = {
    "recoded": (lambda: FILM, lambda: FILM),
    "enlarged": (lambda: enlarged(FILM, 2), lambda: FILM),
    "reduced": (lambda: enlarged(FILM, 0.5), lambda: FILM),
    "the beginning": (lambda: FILM[: 6 * FPS], lambda: FILM),
    "the end, from between two pictures": (lambda: FILM[4 * FPS + 3 :], lambda: FILM),
    "with three seconds cut out": (lambda: without(FILM, 3, 6), lambda: FILM),
    "before advertising was put in": (
        lambda: FILM,
        lambda: [*FILM[: 5 * FPS], *shots(9, 4), *FILM[5 * FPS :]],
    ),
    "a talk with five seconds cut out, enlarged": (lambda: enlarged(without(TALK, 4, 9), 2), lambda: TALK),
    "one half of a camera's recording": (lambda: TALK[6 * FPS :], lambda: TALK),
    "slides": (lambda: DECK, lambda: DECK),
    "slides of which one was shown for a shorter time": (lambda: without(DECK, 2.5, 3.5), lambda: DECK),
    "with a black tail": (lambda: [*FILM, *[np.zeros_like(FILM[0])] * 2 * FPS], lambda: FILM),
    "a little paler": (lambda: [(16 + frame * (219 / 255)).astype(np.uint8) for frame in FILM], lambda: FILM),
}

NOT_IN: dict[str, tuple[Callable[[], Frames], Callable[[], Frames]]] = {
    "a talk in one with five seconds cut out, enlarged": (
        lambda: TALK,
        lambda: enlarged(without(TALK, 4, 9), 2),
    ),
    "a drill in one with some of it cut out": (lambda: FILM, lambda: without(FILM, 2, 5)),
    "one half of a camera's recording in the other": (lambda: TALK[: 6 * FPS], lambda: TALK[6 * FPS :]),
    "a recording in the first half of it": (lambda: TALK, lambda: TALK[: 6 * FPS]),
    "an original in one of twice the speed": (lambda: FILM, lambda: FILM[::2]),
    "a quiet camera's original in one of twice the speed": (lambda: TALK, lambda: TALK[::2]),
    "one person before a camera in another": (lambda: watched(5, 10), lambda: watched(6, 12)),
    "other slides of one template": (lambda: deck([11, 12, 13, 14, 15]), lambda: DECK),
    "slides of which one is another": (lambda: deck([1, 2, 13, 4, 5]), lambda: DECK),
    "slides in another order": (lambda: deck([1, 3, 2, 4, 5]), lambda: DECK),
    "slides, shown for longer": (lambda: deck([1, 2, 3, 4, 5], 3.0), lambda: deck([1, 2, 3, 4, 5], 1.5)),
    "a camera that sees nothing happen": (lambda: still(8, 1), lambda: still(10, 2)),
    "a lamp that blinks": (lambda: blinking(8, 1), lambda: blinking(12, 2)),
    "a loop in a longer loop": (lambda: FILM[:FPS] * 4, lambda: FILM[:FPS] * 8),
    "with some seconds put in": (lambda: [*FILM[: 5 * FPS], *shots(9, 2), *FILM[5 * FPS :]], lambda: FILM),
    "with some seconds replaced": (lambda: [*FILM[: 4 * FPS], *shots(9, 2), *FILM[6 * FPS :]], lambda: FILM),
    "with its halves exchanged": (lambda: FILM[5 * FPS :] + FILM[: 5 * FPS], lambda: FILM),
    "backwards": (lambda: FILM[::-1], lambda: FILM),
    "mirrored": (lambda: [frame[:, ::-1] for frame in FILM], lambda: FILM),
    "cropped": (lambda: [frame[8:-8, 12:-12] for frame in FILM], lambda: FILM),
    "in the whole picture of what was cropped": (
        lambda: FILM,
        lambda: [frame[8:-8, 12:-12] for frame in FILM],
    ),
    "with words laid over it": (lambda: [captioned(frame) for frame in FILM], lambda: FILM),
    "in one with words laid over it": (lambda: FILM, lambda: [captioned(frame) for frame in FILM]),
    "in a frame of other footage": (lambda: FILM, lambda: [*map(in_a_corner, FILM)]),
    "in one that froze half-way": (lambda: FILM, lambda: FILM[: 5 * FPS] + [FILM[5 * FPS]] * 5 * FPS),
    "much brighter": (
        lambda: [np.minimum(255, frame * 1.6).astype(np.uint8) for frame in FILM],
        lambda: FILM,
    ),
    "another film": (lambda: shots(3, 10), lambda: FILM),
}


def captioned(frame: np.ndarray) -> np.ndarray:
    changed = frame.copy()
    changed[54:64, 10:86] = 245
    return changed


def in_a_corner(frame: np.ndarray) -> np.ndarray:
    changed = np.full_like(frame, 90)
    changed[:36, :48] = frame[::2, ::2]
    return changed


@pytest.mark.parametrize("kind", IN)
def test_all_of_it_is_shown(kind: str, cinema: Cinema) -> None:
    first, other = (made() for made in IN[kind])
    found = cinema.contained(first, other)
    assert found.whole
    assert found.of - found.seconds <= 0.3
    assert found.of == pytest.approx(len(first) / FPS, abs=0.2)
    for here, there in found.moments:
        assert 0 <= here <= found.of
        assert 0 <= there <= len(other) / FPS


@pytest.mark.parametrize("kind", NOT_IN)
def test_what_may_be_lost_is_never_called_contained(kind: str, cinema: Cinema) -> None:
    first, other = (made() for made in NOT_IN[kind])
    found = cinema.contained(first, other)
    assert not found.whole
    assert found.seconds <= len(first) / FPS


def test_it_says_how_much_is_there(cinema: Cinema) -> None:
    missing = cinema.contained(FILM, without(FILM, 2, 5))
    assert missing.seconds == pytest.approx(7, abs=0.6)
    assert missing.of == pytest.approx(10, abs=0.2)
    assert missing.share == pytest.approx(0.7, abs=0.06)
    assert cinema.contained(shots(3, 10), FILM).seconds == 0


def test_moments_are_the_same_in_both(cinema: Cinema) -> None:
    found = cinema.contained(without(FILM, 3, 6), FILM)
    assert len(found.moments) == 14
    for here, there in found.moments:
        assert there - here == pytest.approx(0 if here < 3 else 3, abs=0.15)
    assert [here for here, _ in found.moments] == sorted(here for here, _ in found.moments)


@pytest.mark.parametrize("fps", [12, 24, 30])
def test_another_number_of_frames_a_second_is_no_other_footage(fps: int, cinema: Cinema) -> None:
    times = np.arange(round(10 * fps)) / fps
    frames = [FILM[min(len(FILM) - 1, int(time * FPS))] for time in times]
    assert cinema.contained(frames, FILM, fps=fps).whole


def test_guesses_may_be_anything(cinema: Cinema) -> None:
    one, two = cinema.read(FILM[4 * FPS :], 28, FPS), cinema.read(FILM, 20, FPS)
    for guesses in ([], [((0.0, 6.0), (4.0, 10.0))], [((0.0, 1e9), (-1e9, 3.0))], [((5.0, 6.0), (0.0, 0.1))]):
        assert contained(one, two, guesses).whole  # it ends where the other ends, which is always tried
    for one_frame in (FILM[:1], FILM[:2]):
        short = cinema.read(one_frame, 28, FPS)
        assert not contained(short, two, [((0.0, 1.0), (0.0, 1.0))]).whole, (
            "too short to tell where it is from"
        )
