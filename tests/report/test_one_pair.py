"""``visil report``: one pair as one page that holds everything."""

from __future__ import annotations

import base64
import io
import json
import os
import sys
from pathlib import Path

import pytest
from PIL import Image as pillow

import visil
from embedded_once import embedded_once  # noqa: F401  # for all tests here
from html_page import Page
from synthetic import write_video
from visil.cli import main
from visil.compare.visil import ViSiL
from visil.demo import photograph, render_scene
from visil.errors import UsageError
from visil.matching.match import Match
from visil.model.features import VideoFeatures
from visil.report.one_pair import write_pair_report
from visil.report.pair import percent
from visil.video import Image

ODD = '"><b onload=x>\n.mp4'
FPS = 10


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two videos that share two scenes, in other orders."""
    folder = tmp_path_factory.mktemp("pair")

    def scene(name: str, seconds: float) -> list[Image]:
        return list(render_scene(photograph(name), seconds, FPS, (96, 72)))

    cat, cup = scene("chelsea", 5), scene("coffee", 4)
    write_video(folder / "a.mp4", [*cat, *cup], FPS)
    (folder / "a.mp4").rename(folder / ODD)
    write_video(folder / "b.mp4", [*scene("rocket", 3), *cup, *cat], FPS)
    return folder / ODD, folder / "b.mp4"


@pytest.fixture(scope="module")
def compared(files: tuple[Path, Path]) -> tuple[ViSiL, VideoFeatures, VideoFeatures, Match]:
    model = visil.load()
    query, target = (model.embed(file) for file in files)
    return model, query, target, model.compare(query, target)


@pytest.fixture(scope="module")
def page(
    compared: tuple[ViSiL, VideoFeatures, VideoFeatures, Match], tmp_path_factory: pytest.TempPathFactory
) -> Page:
    out = tmp_path_factory.mktemp("out") / "report.html"
    write_pair_report(*compared, out)
    return Page(out.read_text("utf-8"))


def test_it_asks_nothing_of_any_network_and_runs_nothing(page: Page) -> None:
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    (policy,) = (meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    addresses = [attrs.get("src") or attrs.get("href") for tag, attrs in page.tags if tag in {"img", "image"}]
    assert addresses
    assert all(address is not None and address.startswith("data:image/") for address in addresses)


def test_a_name_cannot_break_out(page: Page) -> None:
    assert '"><b onload=x>\\n.mp4' in page.text
    assert not any("onload" in attrs for _, attrs in page.tags)


def test_matrix_filmstrips_and_stretches_are_there(
    page: Page, compared: tuple[ViSiL, VideoFeatures, VideoFeatures, Match]
) -> None:
    match = compared[-1]
    assert match.verdict == "copy"
    assert len(match.segments) == 2
    assert len(page.all("image")) == 1  # S_f
    strips = [attrs for attrs in page.all("ul") if str(attrs.get("class", "")).startswith("strip")]
    assert len(strips) == 1 + len(match.segments)
    shots = page.all("img")
    assert len(shots) == 2 + 2 * 6 * len(strips)
    picture = pillow.open(io.BytesIO(base64.b64decode(str(shots[-1]["src"]).split(",")[1])))
    assert picture.size[0] > 30
    for segment in match.segments:
        for start, end in (segment.query, segment.target):
            times = [f"00:00:{int(t):02}:{round(t % 1 * FPS):02}" for t in (start, end)]
            assert " – ".join(times) in page.text
    assert "1.00×" in page.text
    assert percent(match.confidence) in page.text


def test_two_videos_that_share_nothing(
    compared: tuple[ViSiL, VideoFeatures, VideoFeatures, Match], tmp_path: Path
) -> None:
    model, query, *_ = compared
    other = write_video(tmp_path / "other.mp4", render_scene(photograph("astronaut"), 4, FPS, (96, 72)), FPS)
    features = model.embed(other)
    write_pair_report(model, query, features, model.compare(query, features), tmp_path / "r.html")
    page = Page((tmp_path / "r.html").read_text("utf-8"))
    assert "unrelated" in page.text
    assert "Stretch by stretch" not in page.text
    assert len(page.all("image")) == 1


def test_what_cannot_be_written_leaves_nothing(
    compared: tuple[ViSiL, VideoFeatures, VideoFeatures, Match], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="its folder does not exist"):
        write_pair_report(*compared, tmp_path / "no" / "r.html")


def test_the_command(
    files: tuple[Path, Path],
    compared: tuple[ViSiL, VideoFeatures, VideoFeatures, Match],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*words: str | os.PathLike[str]) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["visil", "report", *(os.fspath(word) for word in words)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    known = dict(zip(map(os.fspath, files), compared[1:3], strict=True))
    embed = compared[0].embed
    monkeypatch.setattr(
        compared[0],
        "embed",
        lambda path, *rest, **more: known.get(os.fspath(path)) or embed(path, *rest, **more),
    )
    monkeypatch.setattr("visil.compare.loading.load", lambda _: compared[0])
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*files)
    assert (status, err) == (0, "")
    assert out.splitlines()[0].startswith("copy: ")
    assert out.splitlines()[1] == "written: report.html"
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    told = json.loads(run(*files, "--json", "-o", "other.html")[1])
    assert (told["verdict"], told["report"]) == ("copy", "other.html")
    (tmp_path / "bad.mp4").write_text("no film")
    status, out, err = run(files[0], tmp_path / "bad.mp4", "-o", "bad.html")
    assert (status, out) == (1, "")
    assert err.startswith(f"visil: {tmp_path / 'bad.mp4'}: ")
    assert not (tmp_path / "bad.html").exists()
