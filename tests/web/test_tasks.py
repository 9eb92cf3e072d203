"""The engine's work in this process: a model with attention and a comparator, long videos, and what is kept."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import visil
from synthetic import write_video
from visil.compare.visil import ViSiL
from visil.errors import UsageError, VideoError
from visil.matching.localize import Segment
from visil.model.features import VideoFeatures
from visil.web import comparison, sandbox
from visil.web.comparison import in_words
from visil.web.engine import Teller
from visil.web.settings import Limits
from visil.web.tasks import Tasks

from .conftest import FPS, footage


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model with an attention and a comparator that nobody trained, in a folder."""
    known = visil.load()
    model = ViSiL(known.config.replaced(name="looks", attention="context", comparator="replicate"))
    model.load_state_dict(known.state_dict(), strict=False)
    folder = tmp_path_factory.mktemp("network") / "looks"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def tasks(network: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Tasks:
    folder = tmp_path_factory.mktemp("work")
    with visil.Index(folder / "i", model=str(network)) as index:
        index.add(root / "videos" / "coffee.mp4", workers=1)
    (folder / "state" / "comparisons").mkdir(parents=True)
    return Tasks(folder / "i", folder / "state", asdict(Limits()))


def asked(tasks: Tasks, **request: Any) -> dict[str, Any]:
    return tasks.do(request, Teller(lambda _: None))


def test_attention_and_output_of_a_comparison(tasks: Tasks, root: Path, tmp_path: Path) -> None:
    query = {"kind": "path", "id": "p", "name": "cut.mp4", "path": str(root / "cut.mp4")}
    (coffee,) = tasks.index.catalogue.videos()
    target = {"kind": "video", "id": coffee.id, "name": "coffee.mp4"}
    found = asked(tasks, do="compare", query=query, target=target, comparison="c1")
    truth = tasks.model.compare(tasks.model.embed(root / "cut.mp4"), tasks.index.store.read(coffee.id))
    assert found["attention"]
    assert found["score"] == pytest.approx(truth.score, abs=2e-3)
    folder = tasks.state / "comparisons" / "c1"
    kept = np.frombuffer((folder / "output_matrix.bin").read_bytes(), "<f4")
    shape = found["output_matrix"]["rows"], found["output_matrix"]["columns"]
    assert shape == truth.output_matrix.shape
    np.testing.assert_allclose(kept.reshape(shape), truth.output_matrix, atol=2e-3)

    picture = tmp_path / "attention.png"
    request = {"comparison": "c1", "side": "query", "path": str(root / "cut.mp4"), "file": str(picture)}
    asked(tasks, do="attention", frame=1, **request)
    drawn = np.asarray(Image.open(picture)).astype(int)
    assert drawn.shape == (288, 384, 3)
    assert (np.ptp(drawn, axis=2) > 20).any()  # weights are in colour, over grey
    with pytest.raises(UsageError, match="frames 0 to 2"):
        asked(tasks, do="attention", frame=3, **request)


def test_a_query_is_embedded_once_and_may_not_be_endless(
    tasks: Tasks, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    sent = shutil.copy(root / "cut.mp4", tmp_path / "sent.mp4")
    query = {"kind": "upload", "id": "u", "name": "mine.mp4", "path": str(sent)}
    first = tasks.features(query, Teller(told.append))
    assert told[-1]["unit"] == "frames"
    assert (told[-1]["done"], told[-1]["total"]) == (3, 3)
    assert tasks.features(query, Teller(told.append)) is first
    truth = tasks.model.embed(root / "cut.mp4")
    torch.testing.assert_close(first.vectors.float(), truth.vectors, atol=2e-3, rtol=0)
    assert first.duration == pytest.approx(truth.duration)
    monkeypatch.setattr(tasks, "limits", Limits(upload_seconds=2))
    longer = write_video(tmp_path / "longer.mp4", footage("coffee", 4), FPS)
    with pytest.raises(VideoError, match=r"mine\.mp4: is longer than 2 s") as refused:
        tasks.features({**query, "path": str(longer)}, Teller(told.append))
    assert str(tmp_path) not in str(refused.value)
    info = sandbox._info  # a file that does not say how long it is
    monkeypatch.setattr(sandbox, "_info", lambda header: replace(info(header), duration=None))
    with pytest.raises(VideoError, match=r"mine\.mp4: is longer than 2 s"):
        tasks.features({**query, "path": str(longer)}, Teller(told.append))


def test_long_videos_are_thinned(tasks: Tasks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "SIDE", 10)
    generator = torch.Generator().manual_seed(0)
    vectors = torch.nn.functional.normalize(torch.randn(25, 14, tasks.model.dim, generator=generator), dim=-1)
    video = VideoFeatures(vectors, torch.arange(25, dtype=torch.float64))
    match = tasks.model.compare(video, video)
    kept = comparison.keep_comparison(tasks.model, tmp_path / "c", match, (video, video), [])
    assert kept["query_times"] == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0, 24.0]
    assert kept["frame_matrix"] == {"rows": 9, "columns": 9}
    assert json.loads((tmp_path / "c" / "meta.json").read_text())["query_times"] == kept["query_times"]
    frames = np.frombuffer((tmp_path / "c" / "frame_matrix.bin").read_bytes(), "<f4").reshape(9, 9)
    np.testing.assert_array_equal(frames, match.frame_matrix[::3, ::3])
    assert kept["output_matrix"] == {
        "rows": 2,
        "columns": 2,
    }  # of six cells a side, the highest of three by three
    output = np.frombuffer((tmp_path / "c" / "output_matrix.bin").read_bytes(), "<f4")
    blocks = match.output_matrix.reshape(2, 3, 2, 3).max(axis=(1, 3))
    np.testing.assert_array_equal(output.reshape(2, 2), blocks)
    monkeypatch.setattr("visil.compare.matches.KEPT_CELLS", 100)  # a match that does not hold its matrices
    comparison.keep_comparison(tasks.model, tmp_path / "d", match, (video, video), [])
    again = np.frombuffer((tmp_path / "d" / "frame_matrix.bin").read_bytes(), "<f4").reshape(9, 9)
    np.testing.assert_allclose(again, frames, atol=1e-5)


def test_adding_leaves_out_what_links_lead_to_outside(tasks: Tasks, root: Path, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    shutil.copy(root / "cut.mp4", outside / "secret.mp4")
    shutil.copy(root / "more" / "rocket.webm", inside / "rocket.webm")
    (inside / "link.mp4").symlink_to(outside / "secret.mp4")
    (inside / "folder").symlink_to(outside)
    told: list[dict[str, Any]] = []
    request = {"do": "add", "path": str(inside), "roots": [str(inside)]}
    result = tasks.do(request, Teller(told.append))
    assert result == {"added": 1, "unchanged": 0, "failed": [], "outside": 2}
    assert told[0] == {"pending": [str(inside / "rocket.webm")]}
    assert told[-1]["finished"] == [str(inside / "rocket.webm")]
    with pytest.raises(UsageError, match="no video that this server may read"):
        asked(tasks, do="add", path=str(inside / "folder"), roots=[str(inside)])


@pytest.mark.parametrize(
    ("segments", "words"),
    [
        ([((0, 12), (33, 45))], "shares 12 s, from 0:33"),
        ([((0, 4), (5, 9)), ((10, 30), (70, 90))], "shares 24 s in 2 stretches, from 1:10"),
        ([], "no shared footage found"),
    ],
)
def test_in_words(segments: list[Any], words: str) -> None:
    assert in_words([Segment(query, target, 0.9) for query, target in segments]) == words


def test_footage_that_runs_backwards_is_said_to() -> None:
    assert in_words([Segment((0, 5), (7, 12), 0.9, reversed=True)]) == "shares 5 s, backwards, from 0:07"


def test_adding_follows_no_link_out_of_the_roots(tasks: Tasks, root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    (folder / "out").symlink_to(root)
    (folder / "made up").symlink_to("/proc")
    (folder / "out.mp4").symlink_to(root / "cut.mp4")
    with pytest.raises(UsageError, match="holds no video that this server may read"):
        asked(tasks, do="add", path=str(folder), roots=[str(folder)])
