"""The split of footage by source, and the videos that the wide benchmark makes of it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from visil.errors import FileError
from visil.video.writer import write_video

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)
DECK = "CppCon/CppCon2021"


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("shared.footage_split")


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("wide_footage")


def squares(seed: int, width: int = 128, height: int = 64) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Coloured squares of 16 pixels, which differ between seeds."""
    small = np.random.default_rng(seed).integers(0, 256, (height // 16, width // 16, 3), dtype=np.uint8)
    return np.kron(small, np.ones((16, 16, 1), np.uint8)).astype(np.uint8)


def some_data(root: Path) -> Path:
    """A DATA of three parts: two videos, three clips, and 24 slides of a test source beside one of training."""
    for folder in ("videos/dream", "videos/shorts", "clips/screen", "pictures/slide"):
        (root / folder).mkdir(parents=True)
    for folder in ("dream", "shorts"):
        write_video(root / f"videos/{folder}/1.mp4", [squares(1)] * 60, 15)
    clips = ["file,kind,source,licence,path"]
    for i, seconds in enumerate((4, 4, 1)):
        write_video(root / f"clips/screen/{i}.mp4", [squares(10 + i)] * (15 * seconds), 15)
        clips.append(f"screen/{i}.mp4,screen,godotengine/godot-docs,MIT,{'abc'[i]}.gif")
    (root / "clips/SOURCES.csv").write_text("\n".join(clips) + "\n")
    slides = ["file,kind,source,licence,path"]
    for i in range(24):
        Image.fromarray(squares(100 + i)).save(root / f"pictures/slide/{i}.png")
        slides.append(f"slide/{i}.png,slide,{DECK if i else 'someone/else'},MIT,00{i // 12}_{i:04}.png")
    (root / "pictures/SOURCES.csv").write_text("\n".join(slides) + "\n")
    return root


def test_no_source_is_in_two_splits(split: ModuleType) -> None:
    for part, splits in split.HELD_OUT.items():
        named = [source for sources in splits.values() for source in sources]
        assert len(named) == len(set(named)), part
        assert {split.split_of(part, source) for source in splits["test"]} == {"test"}
    assert split.split_of("pictures", "a source that nobody has named") == "train"


def test_every_file_is_in_the_split_of_its_source(split: ModuleType, tmp_path: Path) -> None:
    data = some_data(tmp_path)
    assert [item.file for item in split.items(data, "videos", "train")] == ["videos/dream/1.mp4"]
    (short,) = split.items(data, "videos", "test")
    assert (short.source, short.kind) == ("shorts", "phone video")
    assert {item.kind for item in split.items(data, "clips", "test")} == {"screencast"}
    assert len(split.items(data, "pictures", "test")) == 23
    assert [item.source for item in split.items(data, "pictures", "train")] == ["someone/else"]
    with pytest.raises(FileError, match="not there"):
        split.items(tmp_path / "nowhere", "clips", "test")


def test_videos_of_one_deck_share_no_slide(wide: ModuleType, tmp_path: Path) -> None:
    data, out = some_data(tmp_path / "data"), tmp_path / "out"
    taken = {"clips": {"godotengine/godot-docs": 5}, "pictures": {DECK: 2}}
    made = wide.build(data, out, "test", 0, taken, processes=1)
    decks = [one for one in made if one.kind == "slide"]
    assert len(decks) == 2
    assert not set(decks[0].made_of) & set(decks[1].made_of)
    # The clip of one second is too short to be copied from.
    assert sorted(one.made_of[0] for one in made if one.kind == "screencast") == [
        "clips/screen/0.mp4",
        "clips/screen/1.mp4",
    ]
    told = json.loads((out / "footage.json").read_text())
    assert all((out / one["file"]).is_file() for one in told["files"])
    with pytest.raises(FileError, match="footage already"):
        wide.build(data, out, "test", 0, taken)


def test_one_of_what_shows_the_same_is_used(wide: ModuleType) -> None:
    names = ["HTML/ca/marble/routing-1.png", "HTML/de/marble/routing-1.png", "HTML/de/marble/routing-2.png"]
    found = [
        wide.Item("pictures", f"{i}.png", "map", "deb:marble-data", name) for i, name in enumerate(names)
    ]
    assert [item.name for item in wide.distinct(found)] == [names[0], names[2]]


@pytest.mark.parametrize("dressing", ["black", "title"])
def test_what_is_around_a_clip_is_not_its_content(wide: ModuleType, dressing: str) -> None:
    frames = [squares(i) for i in range(30)]
    around, (start, end) = wide.dressed(frames, dressing, wide.random.Random(1))
    first, last = round(start * 15), round(end * 15)
    assert 22 <= first <= 45
    assert all(a is b for a, b in zip(around[first:last], frames, strict=True))
    assert np.abs(around[first - 1].astype(int) - frames[0]).mean() > 20


def test_plain_frames_are_counted(wide: ModuleType) -> None:
    dot = np.full((64, 128, 3), 255, np.uint8)
    dot[:8, :8] = 0
    assert wide.plain_share([dot] * 30) == 1.0
    assert wide.plain_share([dot] * 15 + [squares(1)] * 15) == 0.5
