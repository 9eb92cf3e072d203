"""``visil bench --end-to-end``: what is measured, how figures relate, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from synthetic import moving_scene, write_video
from visil.bench import end_to_end
from visil.bench.end_to_end import added, decoded, grouped, measured, most_memory, searched, share
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

    def step(what: str, device: str, workers: int, _: Path, files: list[Path]) -> dict[str, Any]:
        found.append((what, device, workers, len(files)))
        if what in ("search", "duplicates"):
            return {"seconds": 2.5 / workers, "queries": len(files) or 3, "memory": 300.0}
        speed = 100 * workers if what == "decode" else 40 * workers**0.5
        return {"seconds": 1000 / speed, "samples": 1000, "memory": 300.0}

    monkeypatch.setattr(end_to_end, "_step", step)
    monkeypatch.setattr(end_to_end, "usable_cores", lambda: 6)
    return found


def test_every_number_of_workers_on_every_device(clips: Path, asked: list[tuple[Any, ...]]) -> None:
    told: list[str] = []
    result = measured(clips, devices=["cpu", "gpu"], tell=told.append)
    counts = {1: 2, 2: 2, 4: 2, 6: 3}  # workers, and the files that they are given
    assert asked == [
        *(("decode", "cpu", *count) for count in counts.items()),
        *(("add", "cpu", *count) for count in counts.items()),
        ("add", "gpu", 6, 3),
        *(("search", "cpu", *count) for count in counts.items()),
        ("search", "gpu", 6, 3),
        *(("duplicates", "cpu", count, 0) for count in counts),
        ("duplicates", "gpu", 6, 0),
    ]
    assert len(told) == len(asked) + 1
    rows = result["end to end"]["rows"]
    assert result["end to end"]["videos"] == 3
    last = next(row for row in rows if (row["what"], row["device"], row["workers"]) == ("add", "cpu", 4))
    assert last["efficiency"] == pytest.approx(80 / (4 * 40))
    assert last["of_decoding"] == pytest.approx(80 / 400)
    assert [row["queries"] for row in rows if row["what"] == "search"] == [2, 2, 2, 3, 3]
    asked_of_two = next(row for row in rows if (row["what"], row["workers"]) == ("search", 6))
    assert asked_of_two["efficiency"] == pytest.approx(3 / 2)
    asked.clear()
    measured(clips, devices=["cpu"], tell=told.append, workers=[3], only=["decode", "add"])
    assert asked == [("decode", "cpu", 3, 3), ("add", "cpu", 3, 3)]


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


def test_decoding_and_adding_count_the_same_samples_and_what_was_added_is_asked_for(
    clips: Path, tmp_path: Path
) -> None:
    files, index = sorted(clips.iterdir()), tmp_path / "new.visil"
    for found in (decoded(files, 1, index), added(files, 1, index)):
        assert found["seconds"] > 0
        assert found["samples"] == 8
    assert searched(files[:1], 1, index)["queries"] == 1
    assert grouped([], 1, index)["queries"] == 2


def test_fewer_workers_are_given_files_from_all_of_them() -> None:
    files = [Path(str(number)) for number in range(20)]
    assert [file.name for file in share(files, 4 / 16)] == ["0", "4", "8", "12", "16"]
    assert [file.name for file in share(files, 1 / 16)] == ["0", "10"]
    assert share(files[:1], 1.0) == files[:1]


def test_memory_of_all_processes() -> None:
    with most_memory() as most:
        held = bytearray(b"x" * 50_000_000)
        while most[0] == 0:
            pass
        assert len(held) == 50_000_000
    assert most[0] > 50


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no videos to measure with"):
        measured(tmp_path, devices=["cpu"], tell=print)
    with pytest.raises(VisilError, match=r"ended with status 1: .*workers must be at least 1"):
        end_to_end._step("search", "cpu", 0, tmp_path / "new.visil", [])
    for step, why in (("products", "no step is called products"), ("search", "name add, too")):
        done = CliRunner().invoke(app, ["bench", step, "--end-to-end", str(tmp_path)])
        assert why in str(done.exception)
    (tmp_path / "a.mp4").write_text("no video")
    with pytest.raises(FileError, match="holds no video that can be read"):
        measured(tmp_path, devices=["cpu"], tell=print)
