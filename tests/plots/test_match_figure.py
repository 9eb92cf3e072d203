"""Pictures of matches: what is in the file, where the lines are, and what happens when it cannot be drawn."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import av
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from visil.errors import UsageError
from visil.matching.calibration import Verdict
from visil.matching.localize import Segment
from visil.matching.match import Match
from visil.plots import DPI, plot_match
from visil.plots.lettering import file_name, shortened
from visil.plots.match_figure import match_figure

MAGIC = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "jpg": b"\xff\xd8\xff", "jpeg": b"\xff\xd8\xff"}
ORANGE = (230, 159, 0)


def a_match(
    frames: NDArray[np.float32],
    output: NDArray[np.float32] | None = None,
    segments: list[Segment] | None = None,
    query: str | os.PathLike[str] | None = None,
    target: str | os.PathLike[str] | None = None,
    verdict: Verdict = "copy",
) -> Match:
    return Match(
        score=0.9,
        confidence=0.97,
        verdict=verdict,
        segments=segments or [],
        calibrated=True,
        query_path=None if query is None else os.fspath(query),
        target_path=None if target is None else os.fspath(target),
        query_times=np.arange(frames.shape[0], dtype=np.float64),
        target_times=np.arange(frames.shape[1], dtype=np.float64),
        _matrices=lambda: (frames, frames if output is None else output),
    )


def diagonal(rows: int, columns: int, start: int = 0) -> NDArray[np.float32]:
    matrix = np.zeros((rows, columns), np.float32)
    steps = np.arange(min(rows, columns - start))
    matrix[steps, start + steps] = 1
    return matrix


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six seconds, pure red first and pure green after three."""
    path = tmp_path_factory.mktemp("clips") / "red_then_green.mp4"
    with av.open(path, "w") as container:
        stream = container.add_stream("libx264", rate=5)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 160, 90, "yuv420p"
        for i in range(30):
            picture = np.zeros((90, 160, 3), np.uint8)
            picture[..., 0 if i < 15 else 1] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode(None))
    return path


@pytest.fixture
def rough(monkeypatch: pytest.MonkeyPatch) -> int:
    """Pictures of a quarter of the pixels to an inch, where single pixels are not looked at: how many times fewer."""
    monkeypatch.setattr("visil.plots.DPI", DPI // 4)
    return 4


@pytest.fixture
def laid_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One figure of a match and a title, however many formats it is saved in."""
    made: dict[tuple[int, str | None], Figure] = {}

    def once(match: Match, title: str | None = None) -> Figure:
        return made.get((id(match), title)) or made.setdefault((id(match), title), match_figure(match, title))

    monkeypatch.setattr("visil.plots.match_figure.match_figure", once)


def pixels(path: Path) -> NDArray[np.uint8]:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def drawn_matrix(match: Match, path: Path) -> NDArray[np.uint8]:
    """The pixels of S_f in the picture, without what surrounds it."""
    figure = match_figure(match)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("visil.plots.match_figure.match_figure", lambda *_: figure)
        plot_match(match, path)
    picture = pixels(path)
    heat = next(axes for axes in figure.axes if axes.images and axes.get_xlim()[1] == len(match.target_times))
    box = heat.get_position()
    height, width = picture.shape[:2]
    rows = slice(round((1 - box.y1) * height), round((1 - box.y0) * height))
    return picture[rows, round(box.x0 * width) : round(box.x1 * width)]


def near(picture: NDArray[np.uint8], colour: tuple[int, int, int], tolerance: int = 12) -> NDArray[np.bool_]:
    distance = np.abs(picture.astype(int) - colour).max(axis=-1)
    return np.asarray(distance <= tolerance)


# ---------------------------------------------------------------------- the file


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "jpg", "jpeg", "PNG"])
def test_the_suffix_names_the_format(tmp_path: Path, suffix: str, rough: int) -> None:
    path = tmp_path / f"match.{suffix}"
    a_match(diagonal(6, 8), segments=[Segment((0, 6), (0, 6), 1.0)]).plot(path)
    assert path.read_bytes().startswith(MAGIC[suffix.lower()])
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["match.bmp", "match", "match.", ".png"])
def test_an_unknown_format_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    def work() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        raise AssertionError("the matrix was computed")

    match = Match(0.9, 0.9, "copy", [], True, None, None, np.arange(2.0), np.arange(2.0), work)
    with pytest.raises(UsageError, match=r"png.*svg.*pdf.*jpg"):
        plot_match(match, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    match = a_match(diagonal(4, 4))
    with pytest.raises(
        UsageError, match=r"nowhere.*match\.png: cannot be written: its folder does not exist"
    ):
        plot_match(match, tmp_path / "nowhere" / "match.png")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="its folder is a file"):
        plot_match(match, tmp_path / "file" / "match.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(UsageError, match=r"folder\.png: cannot be written: it is a folder"):
        plot_match(match, tmp_path / "folder.png")
    with pytest.raises(UsageError, match="characters that no file name can") as told:
        plot_match(match, f"{tmp_path}/\0\n.png")
    assert "\n" not in str(told.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="permission denied"):
        plot_match(a_match(diagonal(4, 4)), tmp_path / "match.png")


def test_a_failure_leaves_the_old_picture_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "match.png"
    path.write_bytes(b"the old one")

    def broken() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        raise RuntimeError("no matrix")

    match = Match(0.9, 0.9, "copy", [], True, None, None, np.arange(2.0), np.arange(2.0), broken)
    with pytest.raises(RuntimeError, match="no matrix"):
        plot_match(match, path)

    def full(source: object, destination: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match=r"match\.png: cannot be written: no space left on device"):
        plot_match(a_match(diagonal(4, 4)), path)
    assert path.read_bytes() == b"the old one"
    assert list(tmp_path.iterdir()) == [path]


def test_importing_visil_does_not_import_matplotlib() -> None:
    code = "import sys, visil, visil.matching.match, visil.report; sys.exit('matplotlib' in sys.modules)"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


# ---------------------------------------------------------------------- the matrix


def test_a_diagonal_is_light_where_it_is_and_dark_elsewhere(tmp_path: Path) -> None:
    light = drawn_matrix(a_match(diagonal(20, 30, start=10)), tmp_path / "m.png").mean(axis=-1)
    height, width = light.shape
    for row in range(20):
        y = int((row + 0.5) / 20 * height)
        assert light[y, int((row + 10.5) / 30 * width)] > 200
        assert light[y, int((row + 8.5) / 30 * width)] < 60
        assert light[y, int((29.5 - row) / 30 * width)] < 60 or abs(29 - row - row - 10) < 2


def test_a_thin_diagonal_survives_in_the_picture(tmp_path: Path) -> None:
    light = drawn_matrix(a_match(diagonal(3000, 3000)), tmp_path / "m.png").mean(axis=-1)
    height, width = light.shape
    for share in np.linspace(0.01, 0.99, 50):
        y, x = int(share * height), int(share * width)
        assert light[y - 2 : y + 3, x - 2 : x + 3].max() > 180
    assert np.median(light) < 40


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (60, 60), (20, 600), (600, 20)])
@pytest.mark.parametrize("has_output", [True, False])
def test_any_shape_gives_a_picture_of_reasonable_size(
    tmp_path: Path, shape: tuple[int, int], has_output: bool, rough: int
) -> None:
    frames = np.random.default_rng(0).random(shape).astype(np.float32)
    output = np.ones((max(1, shape[0] // 4), max(1, shape[1] // 4)), np.float32) if has_output else None
    segments = [Segment((0, shape[0]), (0, shape[1]), 0.8)]
    plot_match(a_match(frames, output, segments), tmp_path / "m.png")
    height, width = pixels(tmp_path / "m.png").shape[:2]
    assert 700 < width * rough < 2600
    assert 500 < height * rough < 2600


def test_s_v_is_drawn_only_where_there_is_one() -> None:
    def matrices(match: Match) -> int:
        return sum(bool(axes.images) for axes in match_figure(match).axes)

    frames = diagonal(8, 8)
    assert matrices(a_match(frames, np.ones((2, 2), np.float32))) == matrices(a_match(frames)) + 1


# ---------------------------------------------------------------------- the stretches


def test_a_stretch_is_outlined_where_it_is(tmp_path: Path) -> None:
    match = a_match(np.zeros((20, 20), np.float32), segments=[Segment((5, 15), (2, 12), 0.9)])
    picture = drawn_matrix(match, tmp_path / "m.png")
    height, width = picture.shape[:2]
    orange = near(picture, ORANGE)
    for x, y in ((2, 10), (12, 10), (7, 5), (7, 15)):  # the middles of its four sides
        row, column = round(y / 20 * height), round(x / 20 * width)
        assert orange[row - 2 : row + 3, column - 2 : column + 3].any()
    assert not orange[:, round(0.7 * width) :].any()


def test_both_axes_carry_a_bar(tmp_path: Path) -> None:
    plain, marked = a_match(diagonal(9, 9)), a_match(diagonal(9, 9), segments=[Segment((0, 9), (0, 9), 0.9)])
    plot_match(plain, tmp_path / "plain.png")
    plot_match(marked, tmp_path / "marked.png")
    assert not near(pixels(tmp_path / "plain.png"), ORANGE).any()
    orange = near(pixels(tmp_path / "marked.png"), ORANGE)
    columns, rows = orange.sum(axis=0), orange.sum(axis=1)
    assert (columns > 700).sum() >= 10  # two thin sides of the outline and a bar of a dozen pixels
    assert (rows > 700).sum() >= 10


def test_every_stretch_is_listed_with_its_times() -> None:
    segments = [Segment((12, 24), (33, 45), 0.9), Segment((61, 70), (0, 9), 0.8)]
    texts = [text.get_text() for text in match_figure(a_match(diagonal(90, 80), segments=segments)).texts]
    assert "0:12–0:24 → 0:33–0:45" in texts
    assert "1:01–1:10 → 0:00–0:09" in texts
    assert any("confidence 97%" in text and "score 0.90" in text and "shares 21 s" in text for text in texts)
    assert "copy" in texts


def test_of_many_stretches_the_longest_are_listed_and_the_rest_counted() -> None:
    segments = [Segment((i, i + 1.0), (i, i + 1.0), 0.9) for i in range(40)]
    segments[17] = Segment((17, 30), (50, 63), 0.9)
    output = np.zeros((17, 17), np.float32)
    texts = [text.get_text() for text in match_figure(a_match(diagonal(70, 70), output, segments)).texts]
    listed = [text for text in texts if " → " in text and "–" in text]
    assert "0:17–0:30 → 0:50–1:03" in listed
    assert f"and {40 - len(listed)} more" in texts


# ---------------------------------------------------------------------- the videos


def test_thumbnails_stand_at_their_times(tmp_path: Path, clip: Path) -> None:
    plot_match(a_match(np.zeros((6, 6), np.float32), query=clip, target=clip), tmp_path / "m.png")
    picture = pixels(tmp_path / "m.png")
    red, green = near(picture, (255, 0, 0), 40), near(picture, (0, 255, 0), 40)
    assert red.sum() > 5000
    assert green.sum() > 5000
    along_the_top = slice(0, np.flatnonzero(green.any(axis=1))[0] + 20)
    assert np.nonzero(red[along_the_top])[1].max() < np.nonzero(green[along_the_top])[1].min()
    left = slice(0, np.flatnonzero(red.any(axis=0))[0] + 20)
    assert np.nonzero(red[:, left])[0].max() < np.nonzero(green[:, left])[0].min()


def test_a_missing_or_broken_video_only_costs_its_thumbnails(tmp_path: Path, clip: Path, rough: int) -> None:
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"not a video at all")
    (tmp_path / "folder").mkdir()
    for other in (tmp_path / "gone.mp4", broken, tmp_path / "folder"):
        plot_match(a_match(diagonal(6, 6), query=clip, target=other), tmp_path / "m.png")
        picture = pixels(tmp_path / "m.png")
        assert near(picture, (255, 0, 0), 40).any()
        half = picture[:, picture.shape[1] // 3 :]
        assert not near(half, (255, 0, 0), 40).any()


# ---------------------------------------------------------------------- names

ODD = [
    "price_$5_and_$6.mp4",
    r"\frac{1}{2}$x^$.mp4",
    "line\nbreak\ttab\x07bell.mp4",
    "日本語のビデオ.mp4",
    "видео עברית فيديو 😀👩\u200d👩.mp4",
    "\udcff\udcfe.mp4",
    "e\u0301" * 40 + "x" * 300 + ".mp4",
    "\u202egpj.exe.mp4",
    "",
    "   ",
]


@pytest.mark.parametrize(
    ("name", "other", "title"), zip(ODD[::2], ODD[1::2], ODD[-1:] + ODD[1::2], strict=False)
)
def test_any_file_name_can_be_drawn(
    tmp_path: Path,
    name: str,
    other: str,
    title: str,
    caplog: pytest.LogCaptureFixture,
    rough: int,
    laid_out_once: None,
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING):
        warnings.simplefilter("error")
        match = a_match(diagonal(4, 5), query=f"/somewhere/{name}", target=other)
        for suffix in ("png", "svg", "pdf"):
            plot_match(match, tmp_path / f"m.{suffix}", title=title)
    assert not caplog.records


def test_names_are_written_as_they_are() -> None:
    texts = [
        t.get_text() for t in match_figure(a_match(diagonal(4, 4), query="/a/price_$5_and_$6.mp4")).texts
    ]
    assert any("price_$5_and_$6.mp4" in text for text in texts)
    assert file_name("/videos/line\nbreak\x07.mp4", "?") == "line break.mp4"
    assert file_name("/videos/clip/", "?") == "clip"
    assert file_name(None, "?") == "?"


def test_long_names_keep_their_beginning_and_end() -> None:
    short = shortened("a very long name of a video that nobody wants to read.mp4", 20)
    assert len(short) == 20
    assert short.startswith("a very")
    assert short.endswith(".mp4")
    assert shortened("short.mp4", 20) == "short.mp4"


def test_the_headline_fits_in_the_picture() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    match = a_match(diagonal(40, 4), query="W" * 200 + ".mp4", target="M" * 200 + ".mp4")
    figure = match_figure(match)
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    for text in figure.texts:
        extent = text.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
        assert extent.y0 >= 0
        assert extent.y1 <= figure.bbox.y1


def test_several_threads_may_draw_at_once(tmp_path: Path, rough: int) -> None:
    match = a_match(diagonal(8, 9), segments=[Segment((0, 8), (0, 8), 0.9)])
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda path: plot_match(match, path), paths))
    assert len({path.read_bytes() for path in paths}) == 1
