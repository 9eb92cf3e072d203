"""Names of every kind, in every output: spaces, line breaks, 255 bytes, bytes that are no text."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import NoReturn

import pytest

import visil

from .conftest import Command


def forbidden(*_: object, **__: object) -> NoReturn:
    raise AssertionError("nothing was to be decoded")


NAMES = {
    "unicode": "Übung 日本 🎬.mp4".encode(),
    "spaces": b"  two  words .mp4",
    "line breaks": b"one\ntwo\r\n\tthree.mp4",
    "255 bytes": b"x" * 251 + b".mp4",
    "not UTF-8": b"caf\xe9 \xff.mp4",
    "quotes": b'"it\'s" $HOME `ls` \\n %s {0} [red].mp4',
    "dash": b"-k.mp4",
    "like a protocol": b"http:x.mp4",
}


@pytest.fixture(scope="module")
def named(videos: Path, tmp_path_factory: pytest.TempPathFactory, model: visil.ViSiL) -> tuple[Path, Path]:
    """A collection of copies of one footage under every kind of name, each a little different as a file."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "films").mkdir()
    content = (videos / "alone" / "astronaut.mp4").read_bytes()
    for number, name in enumerate(NAMES.values()):
        path = folder / "films" / os.fsdecode(name)
        path.write_bytes(content + b"\0\0\0\x09free" + bytes([number]))
    (folder / "films" / os.fsdecode(b"bad \xe9\n.mp4")).write_text("no")
    with visil.Index(folder / "i", model=model) as index:
        report = index.add(folder / "films")
    assert (report.added, report.unchanged, len(report.failed)) == (len(NAMES), 0, 1)
    return folder / "i", folder / "films"


@pytest.mark.parametrize("kind", NAMES)
def test_any_name_is_found_by_path_and_told_as_json(
    named: tuple[Path, Path], run: Command, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, films = named
    path = films / os.fsdecode(NAMES[kind])
    monkeypatch.setattr(visil.ViSiL, "embed", forbidden)
    done = run("search", folder, path, "--json")
    assert done.status == 0
    answer = done.json
    assert os.fsencode(answer["query"]) == os.fsencode(path)
    assert {os.fsencode(hit["path"]) for hit in answer["hits"]} == {
        os.fsencode(films) + b"/" + name for name in NAMES.values()
    }
    assert {hit["verdict"] for hit in answer["hits"]} == {"copy"}
    told = run("search", folder, path)
    assert told.status == 0
    assert told.out.count("copy") == len(NAMES), "one line each"


def test_any_name_in_every_output(named: tuple[Path, Path], run: Command, tmp_path: Path) -> None:
    folder, films = named
    (failure,) = run("info", folder, "--json").json["failed"]
    assert os.fsencode(failure["path"]) == os.fsencode(films) + b"/bad \xe9\n.mp4"
    (listed,) = run("info", folder, "--failed").out.splitlines()
    assert "bad \\udce9\\n.mp4: " in listed
    table = tmp_path / "pairs.csv"
    done = run("duplicates", folder, "--json", "--csv", table)
    (group,) = done.json["groups"]
    assert len(group["videos"]) == len(NAMES)
    with table.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        told = {row["query"] for row in csv.DictReader(file)} | {group["videos"][-1]["path"]}
    assert {os.fsencode(path) for path in told} <= {os.fsencode(v["path"]) for v in group["videos"]}
    assert run("duplicates", folder).out.count(" s  ") == len(NAMES)
    assert run("verify", folder).out == "sound\n"
