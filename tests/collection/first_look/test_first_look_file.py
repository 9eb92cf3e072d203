"""The file of signs that a first look goes by: made once, extended, and whatever may befall it."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable
from io import BufferedWriter
from pathlib import Path

import numpy as np
import pytest
import torch

import visil
from collection.random_collection import Made, put, query, same_hits, write
from forked import fork
from visil.collection import first_look, sign_file
from visil.collection.first_look import FILE
from visil.collection.sign_file import HEAD, HEADER, SignFile
from visil.compare.visil import ViSiL

from ..inside import signs
from .conftest import COUNT
from .sign_truth import true_scores


@pytest.fixture
def coded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of videos whose features are read for their signs, as they are."""
    numbers: list[int] = []
    real = sign_file.Record

    def record(number: int, name: str, signs: sign_file.Signs) -> sign_file.Record:
        numbers.append(number)
        return real(number, name, signs)

    monkeypatch.setattr(first_look, "Record", record)
    return numbers


def test_signs_are_made_once_and_extended(
    place: Path, made: list[Made], small: ViSiL, coded: list[int], tmp_path: Path
) -> None:
    write(tmp_path / "some", made[:30], small)
    told: list[tuple[int, int]] = []
    with visil.Index(tmp_path / "some", model=small) as index:
        index.prepare_first_look(lambda done, total: told.append((done, total)))
        assert told == [(n, 30) for n in range(1, 31)]
        index.prepare_first_look()
        first = (tmp_path / "some" / FILE).read_bytes()
        for video in made[30:]:
            put(index, video)
        assert len(index.search(query(made[35]), 99, first_look=39)) == 39
        assert coded == [*range(1, 31), *range(31, 41)]
        assert (tmp_path / "some" / FILE).read_bytes().startswith(first)
    with visil.Index(tmp_path / "some", model=small) as index:
        numbers, scores = signs(index).scores(query(made[1]), None)
        assert len(coded) == 40
    np.testing.assert_allclose(scores, true_scores(made[1], made, None), atol=1e-6)
    assert numbers.tolist() == list(range(1, 41))


def test_adding_extends_signs_that_are_there(
    empty: visil.Index, videos: Path, model: ViSiL, coded: list[int]
) -> None:
    empty.add(videos / "alone", workers=1)
    empty.close()
    with visil.Index(empty.folder, model=model) as index:
        (gone,) = [index.video(str(videos / "alone" / "retina.mp4"))]
        index.remove([gone.id])
        index.add(gone.path, workers=1)
        assert coded == [], "nobody has asked for a first look yet"
        index.prepare_first_look()
        index.remove([gone.id])
        coded.clear()
        index.add(gone.path, workers=1)
        assert coded == [index.video(gone.path).number]


def test_videos_that_were_removed_do_not_come_up(
    opened: visil.Index, made: list[Made], place: Path, coded: list[int]
) -> None:
    opened.prepare_first_look()
    size = (place / FILE).stat().st_size
    opened.remove([made[5].id])
    assert made[5].id not in {hit.id for hit in opened.search(query(made[5]), 99, first_look=38)}
    assert (place / FILE).stat().st_size == size
    opened.remove([video.id for video in made[10:25]])
    hits = opened.search(query(made[5]), 99, first_look=20)
    assert len(hits) == 20
    assert {hit.id for hit in hits} <= {video.id for video in (*made[:5], *made[6:10], *made[25:])}
    assert (place / FILE).stat().st_size < size, "written anew without them"
    assert len(coded) == COUNT, "and not from the features"
    put(opened, made[5])
    assert opened.search(query(made[5]), 1, first_look=3)[0].confidence > 0.5


def unfinished(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def unfinished_head(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\x07" * (HEAD.size - 1))


def empty_file(file: Path) -> None:
    file.write_bytes(b"")


def flipped(place: int) -> Callable[[Path], None]:
    def flip(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[place] ^= 0x10
        file.write_bytes(data)

    return flip


DAMAGE = {
    "its end is missing": unfinished,
    "half a record follows": unfinished_head,
    "it is empty": empty_file,
    "the header": flipped(3),
    "the fingerprint": flipped(20),
    "a number": flipped(HEADER.size + 1),
    "a length": flipped(HEADER.size + 30),
    "a sign": flipped(HEADER.size + HEAD.size + 1),
    "a sign at the end": flipped(-1),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_file_is_mended(
    place: Path, made: list[Made], small: ViSiL, coded: list[int], damage: Callable[[Path], None]
) -> None:
    with visil.Index(place, model=small) as index:
        index.prepare_first_look()
    sound = (place / FILE).read_bytes()
    damage(place / FILE)
    expected = true_scores(made[2], made, None)
    for again in (False, True):
        coded.clear()
        with visil.Index(place, model=small) as index:
            numbers, scores = signs(index).scores(query(made[2]), None)
            assert numbers.tolist() == list(range(1, COUNT + 1))
            np.testing.assert_allclose(scores, expected, atol=1e-6)
        assert not (again and coded), "it was mended for good"
    assert sorted((place / FILE).read_bytes()) == sorted(sound)


def test_only_what_is_damaged_is_made_anew(
    opened: visil.Index, place: Path, small: ViSiL, coded: list[int]
) -> None:
    opened.prepare_first_look()
    flipped(HEADER.size + HEAD.size + 1)(place / FILE)
    coded.clear()
    with visil.Index(place, model=small) as index:
        index.prepare_first_look()
    assert coded == [1]


def test_signs_of_another_model_are_not_taken(
    place: Path, made: list[Made], opened: visil.Index, small: ViSiL, coded: list[int]
) -> None:
    other = SignFile(place / FILE, "0" * 32, small.dim)
    other.write_anew({})
    with other.appending() as append:
        append(sign_file.Record(1, made[0].id, first_look.signs_of(query(made[9]))))
    _, scores = signs(opened).scores(query(made[2]), None)
    np.testing.assert_allclose(scores, true_scores(made[2], made, None), atol=1e-6)
    assert coded == list(range(1, COUNT + 1))


def test_a_number_that_was_another_video_s(
    place: Path, made: list[Made], opened: visil.Index, small: ViSiL, coded: list[int]
) -> None:
    """As where an older catalogue was put back, and others were added since."""
    opened.prepare_first_look()
    coded.clear()
    file = SignFile(place / FILE, small.fingerprint(), small.dim)
    file.load()
    with file.appending() as append:
        append(sign_file.Record(4, made[9].id, first_look.signs_of(query(made[9]))))
    with visil.Index(place, model=small) as index:
        _, scores = signs(index).scores(query(made[2]), None)
    np.testing.assert_allclose(scores, true_scores(made[2], made, None), atol=1e-6)
    assert coded == [4]


IN_A_RECORD = """
import os, signal
from visil.collection.sign_file import Record
real, calls = Record.to_bytes, []
def halves(self):
    calls.append(1)
    data = real(self)
    return data + real(self)[:50] if len(calls) == 20 else data
Record.to_bytes = halves
import visil.collection.first_look as first_look
signs_of = first_look.signs_of
def killed(video):
    if len(calls) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    return signs_of(video)
first_look.signs_of = killed
from pathlib import Path
opened = Path.open
Path.open = lambda self, mode="r", *rest: opened(self, mode, 0 if mode == "ab" else -1)
"""

WHILE_WRITING_ANEW = """
import os, signal
import visil.files
def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)
visil.files.os.replace = killed
"""


@pytest.mark.parametrize(("trap", "left"), [(IN_A_RECORD, 20), (WHILE_WRITING_ANEW, 0)])
def test_a_killed_process_leaves_nothing_wrong(
    place: Path, made: list[Made], small: ViSiL, coded: list[int], tmp_path: Path, trap: str, left: int
) -> None:
    """Half a record at the end, or a new file that did not take its place."""

    def prepare() -> None:
        exec(trap, {})
        with visil.Index(place, model=small) as index:
            index.prepare_first_look()

    assert fork(prepare, tmp_path).wait(60) == -signal.SIGKILL
    assert (place / FILE).exists() == bool(left)
    assert len(list(place.glob(".visil-*.signs"))) == (not left)
    with visil.Index(place, model=small) as index:
        _, scores = signs(index).scores(query(made[2]), None)
        assert len(coded) == COUNT - left, "what was whole is used"
        np.testing.assert_allclose(scores, true_scores(made[2], made, None), atol=1e-6)
        assert {problem.what for problem in index.verify()} == {"frames.faiss"}, "no search by votes yet"
    assert not list(place.glob(".visil-*"))


def test_two_processes_share_one_file(place: Path, made: list[Made], small: ViSiL, coded: list[int]) -> None:
    with visil.Index(place, model=small) as one, visil.Index(place, model=small) as other:
        one.prepare_first_look()
        other.prepare_first_look()
        assert len(coded) == COUNT
        one.remove([made[0].id])
        put(one, made[0])
        one.prepare_first_look()
        hits = other.search(query(made[0]), 99, first_look=39)
        assert len(coded) == COUNT + 1, "what one has written the other reads"
        same_hits(hits, one.search(query(made[0]), 99, first_look=39))


@pytest.mark.parametrize("known", [0, 25, COUNT])
def test_a_folder_that_cannot_be_written_to(
    tmp_path: Path,
    made: list[Made],
    small: ViSiL,
    coded: list[int],
    monkeypatch: pytest.MonkeyPatch,
    known: int,
) -> None:
    write(tmp_path / "i", made[:known], small)
    with visil.Index(tmp_path / "i", model=small) as index:
        if known:
            index.prepare_first_look()
        for video in made[known:]:
            put(index, video)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    monkeypatch.setattr("visil.collection.storage.can_write", lambda _: False)
    coded.clear()
    with visil.Index(tmp_path / "i", model=small) as index:
        for _ in range(2):
            _, scores = signs(index).scores(query(made[2]), None)
            np.testing.assert_allclose(scores, true_scores(made[2], made, None), atol=1e-6)
        assert coded == list(range(known + 1, COUNT + 1))
    kept = {path: changed for path, changed in before.items() if "catalogue" not in path.name}
    assert {path: path.stat().st_mtime_ns for path in kept if path.is_file()} == {
        path: changed for path, changed in kept.items() if path.is_file()
    }
    assert (tmp_path / "i" / FILE).exists() == bool(known)


@pytest.mark.parametrize("room", [0, 1000])
def test_a_full_disk_is_no_reason_not_to_answer(
    place: Path, opened: visil.Index, made: list[Made], monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    real = Path.open

    class Full:
        def __init__(self, file: BufferedWriter) -> None:
            self.file, self.room = file, room

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            self.room -= len(data)
            if self.room < 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            return self.file.write(data)

    def small_disk(self: Path, mode: str = "r", *rest: object) -> object:
        file = real(self, mode, *rest)  # type: ignore[call-overload]
        return Full(file) if "signs" in self.name and mode != "rb" else file

    monkeypatch.setattr(Path, "open", small_disk)
    _, scores = signs(opened).scores(query(made[2]), None)
    np.testing.assert_allclose(scores, true_scores(made[2], made, None), atol=1e-6)


def test_features_that_cannot_be_read_are_left_out_with_a_warning(
    place: Path, opened: visil.Index, made: list[Made], caplog: pytest.LogCaptureFixture
) -> None:
    opened.store.path(made[3].id).unlink()
    vectors = torch.full((2, 2, 16), torch.inf, dtype=torch.float16)
    damaged = opened.store.path(made[4].id)
    data = bytearray(damaged.read_bytes())
    data[8 + 1024 : 8 + 1024 + 8] = vectors.numpy().tobytes()[:8]
    damaged.write_bytes(data)
    numbers, _ = signs(opened).scores(query(made[2]), None)
    assert set(range(1, COUNT + 1)) - set(numbers.tolist()) == {4, 5}
    assert [record.getMessage().partition(" is left out: ")[0] for record in caplog.records] == [
        made[3].path,
        made[4].path,
    ]
    assert len(opened.search(query(made[2]), 99, first_look=10)) == 10
