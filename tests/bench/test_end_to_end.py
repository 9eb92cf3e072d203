"""``visil bench --end-to-end``: what is measured, how figures relate, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from synthetic import moving_scene, write_video
from visil.bench import end_to_end
from visil.bench.end_to_end import added, decoded, measured, most_memory
from visil.cli.app import app
from visil.errors import FileError, VisilError


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clips")
    for seconds in (3, 5):
        frames = moving_scene(seconds, seconds, fps=5, size=(64, 48), shot=2)
        write_video(folder / f"{seconds}.mp4", frames, fps=5)
    (folder / "broken.mp4").write_text("no video")
    return folder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What was measured in processes, without any: decoding makes 100 samples/s a worker, adding ever less of it."""
    found: list[tuple[Any, ...]] = []

    def step(what: str, _: Path, workers: int, *more: object) -> dict[str, Any]:
        found.append((what, workers, *more[1:]))
        speed = 100 * workers if what == "decode" else 40 * workers**0.5
        return {"seconds": 1000 / speed, "samples": 1000, "memory": 300.0}

    def command(device: str, name: str, *_: object) -> float:
        found.append((name, device))
        return 2.5

    monkeypatch.setattr(end_to_end, "_step", step)
    monkeypatch.setattr(end_to_end, "_command", command)
    monkeypatch.setattr(end_to_end, "usable_cores", lambda: 6)
    return found


def test_every_number_of_workers_on_every_device(clips: Path, asked: list[tuple[Any, ...]]) -> None:
    told: list[str] = []
    result = measured(clips, devices=["cpu", "gpu"], tell=told.append)
    counts = (1, 2, 4, 6)
    assert asked == [
        *(("decode", count) for count in counts),
        *(("add", count, device) for device in ("cpu", "gpu") for count in counts),
        *((what, device) for device in ("cpu", "gpu") for what in ("search", "duplicates")),
    ]
    assert len(told) == len(asked) + 1
    rows = result["end to end"]["rows"]
    assert result["end to end"]["videos"] == 3
    last = next(row for row in rows if (row["what"], row["device"], row["workers"]) == ("add", "cpu", 4))
    assert last["efficiency"] == pytest.approx(80 / (4 * 40))
    assert last["of_decoding"] == pytest.approx(80 / 400)
    assert [row["queries"] for row in rows if row["what"] == "search"] == [3, 3]


@pytest.mark.usefixtures("asked")
def test_it_is_printed_drawn_and_shown_again(clips: Path, tmp_path: Path) -> None:
    def bench(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["bench", *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    kept, picture = tmp_path / "kept.json", tmp_path / "kept.png"
    told = bench("--end-to-end", str(clips), "--device", "cpu", "--out", str(kept), "--plot", str(picture))
    assert "3 videos, 1000 samples" in told
    assert picture.stat().st_size > 1000
    assert bench("--show", str(kept)) == told
    assert json.loads(bench("--show", str(kept), "--json")) == json.loads(kept.read_text())


def test_decoding_and_adding_count_the_same_samples(clips: Path, tmp_path: Path) -> None:
    for seconds, samples in (decoded(clips, 1), added(clips, 1, tmp_path / "new.visil", "cpu")):
        assert seconds > 0
        assert samples == 8


def test_memory_of_all_processes() -> None:
    with most_memory() as most:
        held = bytearray(b"x" * 50_000_000)
        while most[0] == 0:
            pass
        assert len(held) == 50_000_000
    assert most[0] > 50


def test_what_cannot_be_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileError, match="holds no videos to measure with"):
        measured(tmp_path, devices=["cpu"], tell=print)
    with pytest.raises(VisilError, match=r"ended with status 1: .*nowhere"):
        end_to_end._command("cpu", "search", tmp_path / "nowhere", "query.mp4")
    done = CliRunner().invoke(app, ["bench", "products", "--end-to-end", str(tmp_path)])
    assert "leave sections out" in str(done.exception)
    monkeypatch.setattr(end_to_end, "_run", lambda *_: '{"seconds": 1, "samples": 0, "memory": null}')
    (tmp_path / "a.mp4").write_text("no video")
    with pytest.raises(FileError, match="holds no video that can be read"):
        measured(tmp_path, devices=["cpu"], tell=print)
