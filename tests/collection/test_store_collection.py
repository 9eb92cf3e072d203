"""A collection at a URL gives the answers of one in a folder; two writers keep each other's work."""

from __future__ import annotations

import itertools
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

fsspec = pytest.importorskip("fsspec", reason="needs the extra visil[store]")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from collection.inside import part, remote  # noqa: E402
from collection.stored import features, fill, identity, put  # noqa: E402
from visil.collection.catalogue import Catalogue, NewVideo  # noqa: E402
from visil.collection.database import Database  # noqa: E402
from visil.collection.identity import Stamp  # noqa: E402
from visil.collection.index import Index  # noqa: E402
from visil.collection.remote.merge import memory, merged  # noqa: E402
from visil.collection.remote.objects import Objects, StoreError  # noqa: E402
from visil.collection.storage import FolderStorage  # noqa: E402
from visil.compare.visil import ViSiL  # noqa: E402
from visil.errors import IndexFolderError, UsageError  # noqa: E402
from visil.model.codes import Codes  # noqa: E402

URL = "memory://bucket/all.visil"
NAMES = ["cat", "cat copy", "dog", "cow", "cow copy", "hen"]


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def other_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From here on nothing is cached."""
    numbers = itertools.count()
    return lambda: monkeypatch.setenv("VISIL_CACHE", str(tmp_path / f"machine-{next(numbers)}"))


def at(url: str, model: ViSiL, **options: Any) -> Index:
    return Index(url, model=model, **options)


def answers(index: Index) -> list[Any]:
    hits = [
        index.search(features(9, like=features(int(identity("cow")[:6], 16))), 4),
        index.search(identity("cat"), 3),
    ]
    groups = [[video.id for video in group.videos] for group in index.duplicates()]
    return [[[(hit.id, hit.path, hit.score, hit.confidence) for hit in some] for some in hits], groups]


def names_on_store() -> set[str]:
    return {name.removeprefix("/bucket/all.visil/") for name in fsspec.filesystem("memory").store}


def check_whole(model: ViSiL) -> set[str]:
    """Everything that the newest catalogue names is there and sound. Returns the videos."""
    with at(URL, model, create=False) as index:
        assert index.verify() == []
        assert remote(index).database.objects() <= names_on_store()
        return {video.id for video in index.catalogue.videos()}


@pytest.mark.parametrize("codes", ["fp16", "int8", "binary"])
def test_answers_are_those_of_a_folder(
    codes: Codes, tmp_path: Path, model: ViSiL, other_machine: Callable[[], None]
) -> None:
    with Index(tmp_path / "here.visil", model=model, codes=codes) as here:
        fill(here, NAMES)
        here.judge(identity("cat"), identity("dog"), "same")
        expected = answers(here)
    with at(URL, model, codes=codes) as index:
        fill(index, NAMES)
        index.judge(identity("cat"), identity("dog"), "same")
        assert answers(index) == expected
    other_machine()
    with at(URL, model, create=False) as again:
        assert answers(again) == expected
        state = again.info()
        assert (state.folder, state.codes, state.videos, state.frames) == (URL, codes, 6, 30)
        assert state.bytes == sum(size for size, _ in remote(again).objects.sizes("features").values())
        assert not (again.folder / "catalogue.sqlite").exists()


def test_nothing_is_there_for_others_before_it_is_published(model: ViSiL) -> None:
    with at(URL, model) as writer:
        fill(writer, ["cat", "dog"])
        with at(URL, model, create=False) as reader:
            assert len(reader) == 0
            part(writer).keep()
            part(reader).renew(0.0)
            assert len(reader) == 2


def test_two_writers_keep_each_others_work(model: ViSiL) -> None:
    with at(URL, model) as first:
        fill(first, NAMES)
    with at(URL, model) as one, at(URL, model) as two:
        put(one, "pig", features(1))
        put(one, "ant", features(2))
        put(two, "bee", features(3))
        put(two, "ant", features(2))  # the same content from elsewhere
        one.remove([identity("hen")])
        two.judge(identity("cat"), identity("dog"), "different")
    expected = {identity(name) for name in [*NAMES, "pig", "ant", "bee"]} - {identity("hen")}
    assert check_whole(model) == expected
    with at(URL, model) as index:
        assert index.catalogue.verdicts() == {tuple(sorted((identity("cat"), identity("dog")))): "different"}
        # Of the two uploads of "ant", and of what was removed, nothing is left behind.
        assert {name for name in names_on_store() if name.startswith("features/")} == remote(
            index
        ).database.objects()
        for name, seed in (
            ("pig", 1),
            ("bee", 3),
        ):  # numbers moved on the way: the candidates are the right ones
            assert index.search(features(seed), 1)[0].id == identity(name)


def test_the_second_of_two_makers_gives_way(model: ViSiL) -> None:
    with at(URL, model, codes="int8") as one:
        two = at(URL, model)  # sees nothing settled yet
        part(two).settle_codes("binary")
        put(two, "dog", features(1))
        put(one, "cat", features(0))
        part(one).keep()
        with pytest.raises(IndexFolderError, match=r"all\.visil: another process .* codes is int8 now"):
            two.close()
    assert check_whole(model) == {identity("cat")}


class Killed(BaseException):
    """A process ends, and does nothing any more."""


@pytest.mark.parametrize("change", ["add", "remove"])
def test_killed_at_every_request(change: str, model: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever request a writer dies before or after, others find a whole collection, and it can be done again."""
    with at(URL, model) as index:
        fill(index, ["cat", "dog"])
    store = fsspec.filesystem("memory").store
    before = dict(store)
    asked = Objects._asked

    def work() -> None:
        with at(URL, model) as index:
            if change == "add":
                put(index, "hen", features(1))
                part(index).keep()
                put(index, "cow", features(2))
            else:
                index.remove([identity("dog")])

    start = {identity("cat"), identity("dog")}
    end = start | {identity("hen"), identity("cow")} if change == "add" else start - {identity("dog")}
    seen = set()
    for requests in itertools.count():
        store.clear()
        store.update(before)
        left = iter(range(requests))

        def dying(self: Objects, *arguments: Any, left: Iterator[int] = left, **options: Any) -> Any:
            if next(left, None) is None:
                raise Killed
            return asked(self, *arguments, **options)

        with monkeypatch.context() as context:
            context.setattr(Objects, "_asked", dying)
            try:
                work()
                finished = True
            except Killed:
                finished = False
        found = check_whole(model)
        seen.add(frozenset(found))
        assert found <= start | end
        assert found >= start & end
        if finished:
            assert found == end
            break
        if change == "add":
            work()
            assert check_whole(model) == end
    assert requests > 5
    assert seen == (
        {frozenset(start), frozenset(start | {identity("hen")}), frozenset(end)}
        if change == "add"
        else {frozenset(start), frozenset(end)}
    )


def test_an_answer_that_was_lost_counts(model: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store wrote the catalogue, the connection dropped: the second attempt meets the first one's object."""
    with at(URL, model) as index:
        fill(index, ["cat"])
        write = remote(index).objects.fs.pipe_file
        dropped: list[str] = []

        def dropping(path: str, data: bytes, **options: Any) -> None:
            write(path, data, **options)
            if "/catalogue/" in path and not dropped:
                dropped.append(path)
                raise ConnectionResetError

        monkeypatch.setattr(remote(index).objects.fs, "pipe_file", dropping)
        part(index).keep()
        assert dropped
        assert remote(index).database.generation == 1
    assert check_whole(model) == {identity("cat")}


def test_features_that_could_not_be_sent_are_never_named(
    model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store takes the catalogue but no features: nothing is published, however often it is tried."""
    with at(URL, model) as index:
        fill(index, ["cat"])
        part(index).keep()
        send = remote(index).objects.upload
        refused = StoreError("it", "no")

        def refusing(name: str, file: Path) -> None:
            raise refused

        monkeypatch.setattr(remote(index).objects, "upload", refusing)
        put(index, "dog", features(1))
        for _ in range(2):
            with pytest.raises(StoreError):
                part(index).keep()
            assert check_whole(model) == {identity("cat")}
        monkeypatch.setattr(remote(index).objects, "upload", send)
        part(index).keep()
        assert check_whole(model) == {identity("cat"), identity("dog")}
        assert not list((index.folder / "cache").rglob("*.sending"))


def test_a_store_that_overwrites_is_refused(model: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    with at(URL, model):
        pass
    index = at(URL, model)
    put(index, "cat", features(0))
    write = remote(index).objects.fs.pipe_file
    monkeypatch.setattr(remote(index).objects.fs, "pipe_file", lambda path, data, **_: write(path, data))
    with pytest.raises(StoreError, match="overwrites objects that it was told not to"):
        index.close()
    assert not [name for name in names_on_store() if name.startswith("catalogue/")]


def test_a_damaged_state_gives_way_to_the_one_before(
    model: ViSiL, other_machine: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("cat", "dog"):
        with at(URL, model) as index:
            put(index, name, features(1))
    fs = fsspec.filesystem("memory")
    fs.pipe_file(
        "/bucket/all.visil/catalogue/0000000002", fs.cat("/bucket/all.visil/catalogue/0000000002")[:-9]
    )
    other_machine()
    with at(URL, model) as index:
        assert len(index) == 1
        put(index, "hen", features(2))
    assert "catalogue/0000000002 is damaged; the state before it is used" in caplog.text
    assert check_whole(model) == {identity("cat"), identity("hen")}
    for name in [name for name in names_on_store() if name.startswith("catalogue/")]:
        fs.pipe_file(f"/bucket/all.visil/{name}", b"{}")
    other_machine()
    with pytest.raises(IndexFolderError, match=r"catalogue/0000000003: the catalogue is damaged"):
        at(URL, model)


def test_places_that_are_no_collection(model: ViSiL) -> None:
    with pytest.raises(IndexFolderError, match=r"none\.visil: no collection here; `visil add` makes one"):
        at("memory://bucket/none.visil", model, create=False)
    fsspec.filesystem("memory").pipe_file("/bucket/photos/a.jpg", b"")
    with pytest.raises(IndexFolderError, match="other things here"):
        at("memory://bucket/photos", model)
    with pytest.raises(UsageError, match=r"^ftp://host/x: put no password into a URL") as refused:
        at("ftp://me:hunter2@host/x", model)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(UsageError, match="no store of that kind is known"):
        at("nosuch://host/x", model)
    fsspec.filesystem("memory").pipe_file("/bucket/odd/visil.json", b"[]")
    with pytest.raises(IndexFolderError, match="not the mark of a collection"):
        at("memory://bucket/odd", model)


def test_without_the_extra_one_line_says_what_to_install(
    model: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(
        UsageError, match=r"stores need fsspec, not installed here: pip install 'visil\[store\]'$"
    ):
        at(URL, model)


def test_a_file_url_is_a_folder(model: ViSiL, tmp_path: Path) -> None:
    with Index((tmp_path / "a b.visil").as_uri(), model=model) as index:
        assert isinstance(part(index).storage, FolderStorage)
        assert index.folder == tmp_path / "a b.visil"


# ---------------------------------------------------------------------- two histories become one

Change = tuple[str, Any]
CONTENT = [identity(str(i)) for i in range(4)]


def changes(paths: list[str], content: list[str], own: list[str]) -> st.SearchStrategy[list[Change]]:
    """To files of ``paths``, which hold some ``content``; to remove and to judge, what is this side's ``own``."""
    adds = st.tuples(st.just("add"), st.tuples(st.sampled_from(content), st.sampled_from(paths)))
    fails = st.tuples(st.just("fail"), st.sampled_from(paths))
    removes = st.tuples(st.just("remove"), st.sampled_from(own))
    words = st.tuples(st.sampled_from(own), st.sampled_from(["same", "different"]))
    return st.lists(st.one_of(adds, fails, removes, st.tuples(st.just("judge"), words)), max_size=6)


class InMemory(Database):
    """On the bytes of a catalogue, or a given connection."""

    def __init__(self, data: bytes | sqlite3.Connection | None) -> None:
        super().__init__("x")
        self._db = data if isinstance(data, sqlite3.Connection) else memory(data, "x")

    def serialized(self) -> bytes:
        return self._db.serialize()


class Plain(Catalogue):
    """A catalogue that says what is in it."""

    database: InMemory

    def __init__(self, data: bytes | sqlite3.Connection | None) -> None:
        super().__init__(InMemory(data))

    def do(self, change: Change) -> None:
        match change:
            case "add", (content, path):
                new = NewVideo(content, 1, 1.0, 1, 1, "h264", None, 1, 0)
                self.add(new, path, Stamp(1, 1), place=lambda: self._place(content))
            case "fail", path:
                self.fail(path, "broken", Stamp(2, 2))
            case "remove", content:
                self.remove(content)
            case "judge", (content, verdict):
                self.judge(content, "f" * 32, verdict)

    def _place(self, content: str) -> None:
        self.database.rows(
            "INSERT OR REPLACE INTO objects VALUES (?, ?, 1, 1)", content, f"{content} {id(self)}"
        )

    def state(self) -> tuple[Any, ...]:
        files = set(
            self.database.rows("SELECT f.path, v.id FROM files f JOIN videos v ON v.number = f.video")
        )
        videos = {row[0] for row in self.database.rows("SELECT id FROM videos")}
        return files, videos, {f.path for f in self.failures()}, self.verdicts()


@given(
    changes(["/base/1", "/base/2", "/base/3"], CONTENT, CONTENT),
    changes(["/one/1", "/one/2"], CONTENT[:3], CONTENT[:1]),
    changes(["/two/1", "/two/2"], CONTENT[1:], CONTENT[3:]),
)
@settings(max_examples=80, deadline=None)
def test_two_histories_become_one(base: list[Change], one: list[Change], two: list[Change]) -> None:
    """Changes to different files, of whatever content, in either order: as if they had been made one after another."""
    start = Plain(None)
    with patch("os.path.lexists", return_value=True):  # no file here was moved
        for change in base:
            start.do(change)
        common = start.database.serialized()
        ours, theirs, both = Plain(common), Plain(common), Plain(common)
        for change in one:
            ours.do(change)
        for change in two:
            theirs.do(change)
        for change in [*one, *two]:
            both.do(change)
    history = (ours.database.serialized(), common, theirs.database.serialized())
    connection, unused = merged(*history, "x")
    result = Plain(connection)
    assert result.state() == both.state()
    named = {row[0] for row in result.database.rows("SELECT object FROM objects")}
    assert {name.split()[0] for name in named} == result.state()[1]
    assert not named & set(unused)
