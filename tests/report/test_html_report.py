"""The HTML report: whole, self-contained, safe with any file name, and made even where videos are gone."""

from __future__ import annotations

import base64
import csv
import io
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as pillow

from collection.inside import part
from html_page import Page
from visil.collection.catalogue import Video
from visil.collection.duplicates import Duplicates, Group, Pair
from visil.collection.index import Index
from visil.collection.plan import PlannedFile
from visil.demo import photograph, render_scene
from visil.errors import UsageError
from visil.matching.localize import Segment
from visil.report import html
from visil.report.pair import moments, percent
from visil.report.tables import write_csv
from visil.video.writer import write_video

NAMES = (
    "plain.mp4",
    "\"><script>alert('x')<b onload=x>.mp4",
    'new\nline & "quotes" \u202egnp.mp4',
    os.fsdecode(b"lone \xff\xfe byte.mp4"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of four short videos with names that try to break out."""
    place = tmp_path_factory.mktemp("report")
    (place / "videos").mkdir()
    for name, photo in zip(NAMES, ("coffee", "chelsea", "rocket", "coins"), strict=True):
        rendered = write_video(place / "video.mp4", render_scene(photograph(photo), 4, 4, (96, 54)), 4)
        rendered.rename(place / "videos" / name)
    with Index(place / "index") as index:
        assert index.add([place / "videos"]).added == len(NAMES)
    return place


@pytest.fixture
def index(made: Path, tmp_path: Path) -> Iterator[Index]:
    shutil.copytree(made / "index", tmp_path / "index")
    with Index(tmp_path / "index") as opened:
        yield opened


def videos_of(index: Index) -> list[Video]:
    by_name = {os.path.basename(video.path): video for video in index.catalogue.videos()}
    return [by_name[name] for name in NAMES]


def pair_of(a: Video, b: Video, confidence: float = 0.9, *, common: bool = False) -> Pair:
    segments = [Segment((0.0, 2.0), (1.0, 3.0), 0.8), Segment((3.0, 4.0), (0.0, 1.0), 0.6)]
    return Pair(a.id, b.id, 0.7, confidence, segments, "copy", common)


def duplicates_of(index: Index) -> Duplicates:
    a, b, c, d = videos_of(index)
    group = Group([a, b, c], [pair_of(a, b), pair_of(b, c, 0.999_999)], a.id, "largest picture")
    return Duplicates([group], [pair_of(a, d, 0.6, common=True)])


def report(index: Index, found: Duplicates, folder: Path) -> tuple[str, Page]:
    html.write_report(index, found, folder / "report.html", min_confidence=0.5)
    raw = (folder / "report.html").read_text(encoding="utf-8")
    return raw, Page(raw)


def test_it_is_well_formed_and_says_what_was_found(index: Index, tmp_path: Path) -> None:
    _, page = report(index, duplicates_of(index), tmp_path)
    assert "Group 1: 3 videos" in page.text
    assert "keep: largest picture" in page.text
    assert "Common footage" in page.text
    assert "96×54" in page.text
    assert "lowest confidence shown" in page.text
    assert page.text.count("shares 3 s in 2 stretches, from 0:00 in video") == 3
    assert [attrs["class"] for attrs in page.all("details")] == ["match"] * 3
    assert [tag for tag, _ in page.tags if tag in ("h1", "h2", "h3")] == ["h1", "h2", "h3", "h2"]
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_it_asks_nothing_of_any_network_and_runs_no_script(index: Index, tmp_path: Path) -> None:
    raw, page = report(index, duplicates_of(index), tmp_path)
    assert page.all("script") == []
    assert page.all("link") == []
    policy = [m["content"] for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    assert policy == ["default-src 'none'; img-src data:; style-src 'unsafe-inline'"]
    for tag, attrs in page.tags:
        assert not any(name.startswith("on") for name in attrs)
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("#", "data:image/")), (tag, attrs)
    assert "://" not in raw
    assert "url(" not in raw


def test_pictures_decode_and_are_small_and_described(index: Index, tmp_path: Path) -> None:
    _, page = report(index, duplicates_of(index), tmp_path)
    images, matrices = page.all("img"), page.all("image")
    assert len(images) == 3 + 3 * 12
    assert len(matrices) == 3
    assert all(attrs["alt"] for attrs in images)
    for attrs in (*images, *matrices):
        data = (attrs.get("src") or attrs.get("href") or "").partition("base64,")[2]
        with pillow.open(io.BytesIO(base64.b64decode(data, validate=True))) as picture:
            picture.load()
            assert max(picture.size) <= 160
            assert picture.format == ("JPEG" if "src" in attrs else "PNG")
    assert all(attrs.get("aria-label") for attrs in page.all("svg"))


def test_hostile_names_stay_text(index: Index, tmp_path: Path) -> None:
    raw, page = report(index, duplicates_of(index), tmp_path)
    assert "<script" not in raw
    assert page.all("b") == [{}] * len(page.all("b"))
    assert NAMES[1] in page.text
    assert r'new\nline & "quotes" \u202egnp.mp4' in page.text
    assert r"lone \udcff\udcfe byte.mp4" in page.text
    assert "\u202e" not in raw


def test_a_video_that_is_gone_or_changed_gets_a_placeholder(index: Index, made: Path, tmp_path: Path) -> None:
    gone, changed, third, _ = videos_of(index)
    moved = tmp_path / "kept"
    moved.mkdir()
    for video in (gone, changed):
        shutil.copy2(video.path, moved)
    try:
        os.unlink(gone.path)
        Path(changed.path).write_bytes(b"something else")
        _, page = report(index, duplicates_of(index), tmp_path)
    finally:
        for video in (gone, changed):
            shutil.copy2(moved / os.path.basename(video.path), video.path)
    assert "no such file" in page.text
    assert "the file has changed since it was added" in page.text
    assert {attrs["alt"] for attrs in page.all("img")} >= {"A frame of video 3"}
    assert len(page.all("img")) == 1 + 6 + 6  # the third's card, its strip, and that of the fourth
    assert len(page.all("image")) == 3  # matrices come from the index
    assert third.path


def test_features_that_are_gone_leave_out_the_matrix(index: Index, tmp_path: Path) -> None:
    found = duplicates_of(index)
    part(index).store.remove(found.groups[0].videos[1].id)
    _, page = report(index, found, tmp_path)
    assert page.text.count("No matrix") == 2
    assert len(page.all("image")) == 1


def test_only_so_many_pairs_get_pictures(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "PICTURED_PAIRS", 1)
    monkeypatch.setattr(html, "PICTURED_VIDEOS", 2)
    monkeypatch.setattr(html, "OPEN_CARDS", 1)
    _, page = report(index, duplicates_of(index), tmp_path)
    assert len(page.all("image")) == 1
    assert len(page.all("img")) == 2 + 12
    assert "confidence over 99.9%" in page.text  # the stronger one has them
    assert page.text.count("1 pair without pictures") == 2
    assert len(page.all("tr")) == 4
    assert "2 more videos" in page.text


def test_groups_take_turns_with_pictures(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, d = videos_of(index)
    strong = [pair_of(a, b, 0.99), pair_of(b, a, 0.98)]
    weak = [pair_of(c, d, 0.6)]
    found = Duplicates([Group([a, b], strong, a.id, "x"), Group([c, d], weak, c.id, "x")], [])
    monkeypatch.setattr(html, "PICTURED_PAIRS", 2)
    assert html.pictured(found) == {id(strong[0]), id(weak[0])}


def test_groups_without_a_measured_pair_are_told(index: Index, tmp_path: Path) -> None:
    a, b, c, d = videos_of(index)
    found = Duplicates([Group([a, b], [], a.id, "x"), Group([c, d], [], c.id, "x")], [])
    _, page = report(index, found, tmp_path)
    assert page.text.count("someone marked them as a match") == 2
    contents, ways = ["#group-1", "#group-2"], ["#group-2", "#groups", "#group-1", "#groups"]
    assert [attrs["href"] for attrs in page.all("a")] == [*contents, *ways]
    write_csv(index, found, tmp_path / "pairs.csv")
    with (tmp_path / "pairs.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.reader(file))
    assert [row[:4] for row in rows[1:]] == [["1", a.path, a.path, b.path], ["2", c.path, c.path, d.path]]


def test_every_group_can_be_reached_and_left(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b, c, _ = videos_of(index)
    found = Duplicates([Group([a, b], [], a.id, "x") for _ in range(20)], [pair_of(a, c, common=True)])
    monkeypatch.setattr(html, "PICTURED_VIDEOS", 0)
    _, page = report(index, found, tmp_path)
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    links = [(attrs["href"] or "")[1:] for attrs in page.all("a")]
    assert set(links) == {f"group-{number}" for number in range(1, 21)} | {"groups", "common"}
    assert set(links) <= ids
    assert links.count("groups") == 20
    assert "open" not in page.all("details")[0], "a long list of contents is folded"
    _, page = report(index, Duplicates(found.groups[:3], []), tmp_path)
    assert "open" in page.all("details")[0]


def test_what_each_video_is_to_the_others_is_said(index: Index, tmp_path: Path) -> None:
    a, b, c, _ = videos_of(index)
    notes = {b.id: f"contains {a.path}, and 9 s of other footage", c.id: "all of it is in <b>"}
    group = Group([a, b, c], [pair_of(a, b)], a.id, "longest", [b.id], notes)
    raw, page = report(index, Duplicates([group], []), tmp_path)
    assert [attrs.get("class") for attrs in page.all("li")][:3] == ["card keep", "card keep", "card"]
    assert "and 9 s of other footage" in page.text
    assert "all of it is in <b>" in page.text
    assert "drop" not in page.text
    row = PlannedFile(c.id, c.path, "drop", "all of it is in <b>", a.path, 5)
    _, page = report(index, Duplicates([replace(group, files=[row])], []), tmp_path)
    assert "drop" in page.text
    assert "in <b>" not in raw


def test_identical_files_are_a_group_of_one_video(index: Index, tmp_path: Path) -> None:
    a, *_ = videos_of(index)
    pair = Pair(a.id, a.id, 1.0, 1.0, [Segment((0.0, 4.0), (0.0, 4.0), 1.0)], "copy", False)
    group = Group([a], [pair], a.id, "identical files", copies={a.id: [a.path, "/other/one.mp4"]})
    _, page = report(index, Duplicates([group], []), tmp_path)
    assert "Group 1: 1 video in 2 files" in page.text
    assert "identical: /other/one.mp4" in page.text
    assert page.all("image") == [], "nothing to compare"


def test_upright_videos_get_upright_pictures(index: Index, tmp_path: Path) -> None:
    a, b, *_ = (replace(video, width=54, height=96) for video in videos_of(index))
    _, page = report(index, Duplicates([Group([a, b], [pair_of(a, b)], a.id, "x")], []), tmp_path)
    assert [attrs["class"] for attrs in page.all("ul")] == ["cards", "strip tall"]


def test_a_file_that_was_only_touched_keeps_its_picture(index: Index, tmp_path: Path) -> None:
    a, b, *_ = videos_of(index)
    copy = tmp_path / "copy.mp4"
    shutil.copy(a.path, copy)
    with part(index).catalogue.database.writing() as db:
        db.execute("UPDATE files SET path = ? WHERE path = ?", (os.fsencode(copy), os.fsencode(a.path)))
    a = index.video(a.id)
    found = Duplicates([Group([a, b], [], a.id, "x")], [])
    os.utime(copy, (1, 1))
    _, page = report(index, found, tmp_path)
    assert len(page.all("img")) == 2
    with copy.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    _, page = report(index, found, tmp_path)
    assert "the file has changed since it was added" in page.text


def test_nothing_found_is_a_page_too(index: Index, tmp_path: Path) -> None:
    _, page = report(index, Duplicates([], []), tmp_path)
    assert "No duplicates found" in page.text
    assert page.all("section") == []


def test_the_table_has_common_pairs_without_a_group(index: Index, tmp_path: Path) -> None:
    a, *_, d = videos_of(index)
    write_csv(index, duplicates_of(index), tmp_path / "pairs.csv")
    with (tmp_path / "pairs.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows[1:]] == ["1"] * 4 + [""] * 2
    assert rows[-1][1:8] == ["", a.path, d.path, "3.0", "4.0", "0.0", "1.0"]


def test_a_place_that_cannot_be_written_is_named_and_left_as_it_was(index: Index, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        html.write_report(index, Duplicates([], []), tmp_path / "nowhere" / "report.html")
    assert not (tmp_path / "nowhere").exists()


def test_moments_spread_over_all_stretches() -> None:
    stretches = [Segment((0.0, 4.0), (10.0, 14.0), 1.0), Segment((10.0, 12.0), (0.0, 4.0), 1.0)]
    assert [stretch for stretch, _, _ in moments(stretches, 3)] == [0, 0, 1]
    assert [query for _, query, _ in moments(stretches, 3)] == pytest.approx([1.0, 3.0, 11.0])
    assert [target for _, _, target in moments(stretches, 3)] == pytest.approx([11.0, 13.0, 2.0])
    assert moments([Segment((2.0, 2.0), (3.0, 3.0), 1.0)], 2) == [(0, 2.0, 3.0)] * 2


@pytest.mark.parametrize(("value", "said"), [(0.5, "50%"), (0.993, "99.3%"), (1.0, "over 99.9%")])
def test_confidence_is_never_rounded_to_certainty(value: float, said: str) -> None:
    assert percent(value) == said
