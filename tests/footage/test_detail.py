"""Which of two files is finer, on real files: upscales and recoded copies never win by pixels or bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from footage.scenes import Frames, enlarged
from synthetic import write_video
from visil.demo import photograph, render_scene
from visil.footage.detail import Finer, Shown, finer, steepness
from visil.video import frames_at, probe

FPS = 4
SECONDS = 3
TIMES = [0.25, 0.75, 1.25, 1.75, 2.25]


def sharp(frame: np.ndarray) -> np.ndarray:
    from PIL import Image as pillow
    from PIL import ImageFilter

    return np.asarray(pillow.fromarray(frame).filter(ImageFilter.UnsharpMask(2, 80, 0)))


Make = Callable[[str], Shown]


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Files of one scene, each made when first asked for."""
    folder = tmp_path_factory.mktemp("files")
    original = list(render_scene(photograph("chelsea"), SECONDS, FPS, (240, 180)))
    made: dict[str, Shown] = {}

    def write(name: str, frames: Frames, **how: object) -> Shown:
        path = str(write_video(folder / f"{name}.mp4", frames, FPS, **how))  # type: ignore[arg-type]
        made[name] = Shown(path, probe(path), Path(path).stat().st_size, SECONDS)
        return made[name]

    def of(name: str) -> Frames:
        """The frames of a file that was made: what a copy of it starts from."""
        times = [(i + 0.5) / FPS for i in range(SECONDS * FPS)]
        return frames_at(make_one(name).path, times, make_one(name).height)

    def make_one(name: str) -> Shown:
        if name in made:
            return made[name]
        match name:
            case "original":
                return write(name, original, options={"crf": "20"})
            case "recoded well":
                return write(name, of("original"), options={"crf": "12"})
            case "recoded badly":
                return write(name, of("original"), options={"crf": "34"})
            case "bad, then recoded well":
                return write(name, of("recoded badly"), options={"crf": "10"})
            case "recoded without loss":
                return write(name, of("original"), codec="libx264rgb", pix_fmt="rgb24", options={"crf": "0"})
            case "recoded almost without loss":
                return write(name, of("original"), options={"crf": "2"})
            case "of few bits":
                return write(name, original, options={"preset": "veryslow", "crf": "32"})
            case "again, of more bits":
                return write(name, of("of few bits"), options={"crf": "27"})
            case "of pixels that are hardly oblong":
                return write(name, original, options={"crf": "20"}, pixel_aspect=Fraction(512, 513))
            case "the same with square pixels":
                return write(name, of("of pixels that are hardly oblong"), options={"crf": "12"})
            case "of oblong pixels":
                return write(name, original, options={"crf": "20"}, pixel_aspect=Fraction(64, 45))
            case "the same taken for square":
                return write(name, of("original"), options={"crf": "12"})
            case "enlarged":
                return write(name, enlarged(of("original"), 2), options={"crf": "14"})
            case "reduced":
                return write(name, enlarged(of("original"), 0.5), options={"crf": "14"})
            case "reduced and enlarged":
                return write(name, enlarged(of("reduced"), 4), options={"crf": "14"})
            case "enlarged by Lanczos' filter":
                return write(name, enlarged(of("original"), 1.5, "LANCZOS"), options={"crf": "14"})
            case "reduced and enlarged by Lanczos' filter":
                return write(name, enlarged(of("reduced"), 4, "LANCZOS"), options={"crf": "14"})
            case "soft and large":
                return write(name, enlarged(original, 1.5), options={"crf": "12"})
            case "soft, reduced and recoded badly":
                return write(name, enlarged(of("soft and large"), 0.7), options={"crf": "36"})
            case "sharpened":
                return write(name, [sharp(frame) for frame in of("original")], options={"crf": "14"})
            case "enlarged and sharpened":
                return write(
                    name, [sharp(frame) for frame in enlarged(of("original"), 2)], options={"crf": "14"}
                )
            case "of more contrast":
                frames = [
                    np.clip((frame - 16.0) * (255 / 219), 0, 255).astype(np.uint8) for frame in of("original")
                ]
                return write(name, frames, options={"crf": "14"})
            case "MPEG-4":
                return write(name, of("original"), codec="mpeg4", options={"b": "150000", "qmax": "31"})
        raise AssertionError(name)

    return make_one


def judged(one: Shown, two: Shown) -> Finer:
    frames = [frames_at(file.path, TIMES, file.height) for file in (one, two)]
    return finer(one, two, zip(*frames, strict=True))


@pytest.mark.parametrize(
    ("better", "worse", "clearly"),
    [
        ("original", "recoded badly", True),
        ("original", "enlarged", None),
        ("original", "enlarged by Lanczos' filter", None),
        ("original", "reduced and enlarged by Lanczos' filter", True),
        ("original", "reduced", True),
        ("original", "reduced and enlarged", True),
        ("original", "MPEG-4", None),
        ("original", "recoded well", False),
        ("recoded badly", "bad, then recoded well", None),
        ("of few bits", "again, of more bits", None),
        ("of pixels that are hardly oblong", "the same with square pixels", None),
        ("of oblong pixels", "the same taken for square", None),
        ("original", "bad, then recoded well", None),
        ("enlarged", "reduced", True),
    ],
)
def test_detail_that_is_there_wins(better: str, worse: str, clearly: bool | None, make: Make) -> None:
    one, two = make(better), make(worse)
    found, turned = judged(one, two), judged(two, one)
    assert found.which in ("first", None)
    assert turned.which in ("second", None), "whichever comes first"
    if clearly is not None:
        assert found.clearly == clearly
        assert found.which == "first" or not clearly


def test_a_soft_picture_does_not_go_for_a_small_copy_of_it_with_visible_loss(make: Make) -> None:
    """Nothing in it is finer than in the copy enlarged, yet the copy was made of it."""
    found = judged(make("soft and large"), make("soft, reduced and recoded badly"))
    assert found == Finer(None, True) or found.which == "first"
    turned = judged(make("soft, reduced and recoded badly"), make("soft and large"))
    assert turned == Finer(None, True) or turned.which == "second"


@pytest.mark.parametrize("kind", ["sharpened", "enlarged and sharpened", "of more contrast"])
def test_steep_edges_that_were_made_are_no_detail(kind: str, make: Make) -> None:
    """Both are kept, or the original is: nothing goes for edges that anybody can make."""
    found = judged(make("original"), make(kind))
    assert found == Finer(None, True) or found.which != "second"
    assert judged(make(kind), make("original")) == Finer(
        None if found.which is None else "second", found.clearly
    )


def test_bits_alone_do_not_tell_which_of_two_poor_copies_was_there_first(make: Make) -> None:
    few, more = make("of few bits"), make("again, of more bits")
    assert more.bytes > 1.4 * few.bytes
    pictures = [np.stack(frames_at(file.path, TIMES, file.height)).astype(np.float32) for file in (few, more)]
    assert 10 * np.log10(255**2 / np.mean((pictures[0] - pictures[1]) ** 2)) < 40, "they differ visibly"
    assert judged(few, more).which != "second"


def test_a_copy_that_is_squeezed_replaces_nothing(make: Make) -> None:
    assert judged(make("of oblong pixels"), make("the same taken for square")) == Finer(None, True)


def test_copies_whose_pictures_are_not_quite_the_same_are_both_kept(make: Make) -> None:
    """Nothing tells which of them was there first; the same pictures in another file are no such case."""
    assert judged(make("original"), make("recoded almost without loss")) == Finer(None, True)
    assert judged(make("original"), make("recoded without loss")) == Finer(None, False)


def test_files_that_bits_and_pixels_would_prefer(make: Make) -> None:
    """What the test above is about: the worse files are the larger ones."""
    original = make("original")
    for name in ("recoded well", "enlarged", "bad, then recoded well", "reduced and enlarged"):
        assert make(name).bytes > 1.2 * (make("recoded badly") if name.startswith("bad") else original).bytes
    assert make("reduced and enlarged").height > 1.5 * original.height


def test_a_file_is_not_finer_than_itself(make: Make) -> None:
    assert judged(make("original"), make("original")) == Finer(None, False)
    assert finer(make("original"), make("enlarged"), []) == Finer(None, False)


def test_steepness_is_a_logarithm_of_slopes_at_common_edges() -> None:
    sharp = np.zeros((40, 40), np.float32)
    sharp[:, 20:] = 100
    soft = sharp.copy()
    soft[:, 19:22] = np.array([25, 50, 75], np.float32)
    # At the one column of edges that both have, 100 levels against 25.
    assert steepness(sharp, soft) == pytest.approx(np.log(4), abs=0.01)
    assert steepness(soft, sharp) == pytest.approx(-np.log(4), abs=0.01)
    assert steepness(sharp, np.zeros_like(sharp)) == 0.0
