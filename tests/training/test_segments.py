"""Annotation files, written here by hand, and what is read from them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from visil.errors import FileError, UsageError
from visil.training.segments import (
    SegmentPair,
    located,
    positives,
    read_csv,
    read_json,
    read_segments,
    read_segments_of,
    read_vcdb,
    within,
)

HEADER = "query,query_start,query_end,target,target_start,target_end\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


# ---------------------------------------------------------------- formats


def test_activitynet_pairs_stretches_of_one_action(tmp_path: Path) -> None:
    def stretches(*found: tuple[float, float, str]) -> dict[str, object]:
        return {
            "duration": 60.0,
            "annotations": [{"segment": [s, e], "label": label} for s, e, label in found],
        }

    database = {
        "abc": stretches((1.0, 9.5, "Rafting"), (20.0, 30.0, "Rafting")),
        "d-e": stretches((2.0, 8.0, "Rafting"), (9.0, 15.0, "Skiing")),
        "fgh": stretches((4.0, 4.0, "Rafting"), (0.0, 12.0, "Skiing")),
        "xyz": stretches(),
    }
    file = write(tmp_path / "activity_net.v1-3.min.json", json.dumps({"taxonomy": [], "database": database}))
    rafting = ("abc", (1.0, 9.5)), ("abc", (20.0, 30.0)), ("d-e", (2.0, 8.0))
    skiing = ("d-e", (9.0, 15.0)), ("fgh", (0.0, 12.0))
    expected = [  # each with those of other videos, the next ones first; a stretch without length is none
        SegmentPair(*a, *b)
        for a, b in (
            *((rafting[0], rafting[2]), (rafting[1], rafting[2]), (rafting[2], rafting[0])),
            *((rafting[2], rafting[1]), (skiing[0], skiing[1]), (skiing[1], skiing[0])),
        )
    ]
    assert read_segments(file) == expected
    names = ["/videos/v_abc.mp4", "/videos/v_d-e.mkv"]  # as its files are called
    assert {(pair.query, pair.target) for pair in located(expected, names)[0]} == {(0, 1), (1, 0)}
    database["bad"] = {"annotations": [{"segment": [1], "label": "x"}]}
    with pytest.raises(FileError, match="'bad': needs annotations"):
        read_segments(write(file, json.dumps({"database": database})))


def test_csv_in_seconds_or_on_the_clock(tmp_path: Path) -> None:
    file = write(
        tmp_path / "own.csv",
        "\ufeff" + HEADER + 'a.mp4, 1.5, 00:00:12, "b, c.mp4", 1:02, 01:00:00.25\n\nb.mp4,0,5,a.mp4,5,10\n',
    )
    expected = [
        SegmentPair("a.mp4", (1.5, 12.0), "b, c.mp4", (62.0, 3600.25)),
        SegmentPair("b.mp4", (0.0, 5.0), "a.mp4", (5.0, 10.0)),
    ]
    assert read_csv(file) == read_segments(file) == expected


def test_csv_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    text = "note,target,target_start,target_end,query_end,query_start,query\nx,t,1,2,4,3,q\n"
    assert read_csv(write(tmp_path / "own.csv", text)) == [SegmentPair("q", (3, 4), "t", (1, 2))]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("a,0,x,b,0,5", "line 3: 'x' is no time"),
        ("a,0,nan,b,0,5", "line 3: 'nan' is no time"),
        ("a,-1,4,b,0,5", "line 3: '-1' is no time"),
        ("a,0,1e999,b,0,5", "line 3: '1e999' is no time"),
        ("a,5,5,b,0,5", "line 3: a segment from 5 to 5 has no length"),
        ("a,6,5,b,0,5", "line 3: a segment from 6 to 5 has no length"),
        (",0,5,b,0,5", "line 3: names no video"),
        ("a,0,5", "line 3: names no video"),
        ("a,0,5,b,0", "line 3: None is no time"),
    ],
)
def test_bad_csv_rows_are_named_by_file_and_line(tmp_path: Path, row: str, said: str) -> None:
    file = write(tmp_path / "own.csv", f"{HEADER}a,0,5,b,0,5\n{row}\n")
    with pytest.raises(FileError, match=said) as caught:
        read_csv(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no column 'query_end'"):
        read_csv(write(tmp_path / "own.csv", "query,query_start,target,target_start,target_end\n"))
    with pytest.raises(FileError, match="no column 'query'"):
        read_csv(write(tmp_path / "empty.csv", ""))


def test_vcdb_text_one_file_or_a_folder(tmp_path: Path) -> None:
    first = write(tmp_path / "a.txt", "x.flv,y.flv,00:00:10,00:00:25,00:01:00,00:01:15\r\n\r\n")
    write(tmp_path / "b.txt", "x.flv,z.flv,00:00:00,00:00:05,01:00:00,01:00:05")
    write(tmp_path / "readme.md", "not an annotation")
    one = SegmentPair("x.flv", (10, 25), "y.flv", (60, 75))
    assert read_vcdb(first) == read_segments(first) == [one]
    assert read_segments(tmp_path) == [one, SegmentPair("x.flv", (0, 5), "z.flv", (3600, 3605))]


def test_bad_vcdb_lines_are_named(tmp_path: Path) -> None:
    good = "x.flv,y.flv,00:00:10,00:00:25,00:01:00,00:01:15\n"
    with pytest.raises(FileError, match="line 2: has 5 fields, not 6"):
        read_vcdb(write(tmp_path / "a.txt", good + "x.flv,y.flv,00:00:10,00:00:25,00:01:00\n"))
    with pytest.raises(FileError, match="line 2: '00:0a:00' is no time"):
        read_vcdb(write(tmp_path / "a.txt", good + good.replace("00:01:00", "00:0a:00")))
    (tmp_path / "none").mkdir()
    with pytest.raises(FileError, match=r"no \.txt"):
        read_vcdb(tmp_path / "none")


def test_label_file_gives_starts_then_ends(tmp_path: Path) -> None:
    labels = {
        "ab-cd": [[21, 0, 39, 18], [43, 40, 45.5, 42]],
        "ab-ab": [[0, 0, 72, 72]],
        "e-f": [[9, 0, 4, 5], [1, 5, 9, 5]],
    }
    file = write(tmp_path / "labels.json", json.dumps(labels))
    assert (
        read_json(file)
        == read_segments(file)
        == [
            SegmentPair("ab", (21, 39), "cd", (0, 18)),
            SegmentPair("ab", (43, 45.5), "cd", (40, 42)),
            SegmentPair("ab", (0, 72), "ab", (0, 72)),
        ]
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "must be an object"),
        ('{"a-b-c": []}', "joined by one '-'"),
        ('{"a-b": [[1, 2, 3]]}', "entry 'a-b': a segment has four times"),
        ('{"a-b": [[1, 2, "x", 3]]}', "entry 'a-b': 'x' is no time"),
        ('{"a-b": [[1, 2, true, 3]]}', "entry 'a-b': True is no time"),
        ('{"a-b": 3}', "must be a list"),
    ],
)
def test_bad_label_files(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FileError, match=said):
        read_json(write(tmp_path / "labels.json", text))


def test_unknown_and_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="are read from"):
        read_segments(tmp_path / "pairs.xlsx")
    with pytest.raises(FileError, match="cannot be read: no such file"):
        read_segments(tmp_path / "pairs.csv")
    (tmp_path / "pairs.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        read_segments(tmp_path / "pairs.csv")


# ---------------------------------------------------------------- the pickle


# ---------------------------------------------------------------- what is made of them


def test_positives_share_five_seconds_of_two_videos() -> None:
    long = SegmentPair("a", (0, 20), "b", (3, 8))
    short = SegmentPair("a", (0, 20), "b", (3, 7.9))
    own = SegmentPair("a", (0, 20), "a", (0, 20))
    assert [pair.overlap for pair in (long, short)] == [5, pytest.approx(4.9)]
    assert positives([long, short, own]) == [long]
    assert positives([long, short, own], 4) == [long, short]


def test_names_are_found_by_the_end_of_the_path() -> None:
    names = ["/v/one/a.mp4", "/v/two/a.mp4", "/v/two/b.flv", "/v/two/b.c.flv"]
    pairs = [
        SegmentPair("one/a.mp4", (0, 5), "b", (0, 6)),
        SegmentPair("b.flv", (0, 7), "/v/two/a.mp4", (0, 8)),
        SegmentPair("b.c", (0, 7), "two/a", (0, 8)),
        SegmentPair("gone.mp4", (0, 7), "b", (0, 8)),
    ]
    found, missing = located(pairs, names)
    assert found == [
        SegmentPair(0, (0, 5), 2, (0, 6)),
        SegmentPair(2, (0, 7), 1, (0, 8)),
        SegmentPair(3, (0, 7), 1, (0, 8)),
    ]
    assert missing == ["gone.mp4"]
    converted = SegmentPair("one/a.flv", (0, 5), "b.c.avi", (0, 6))  # b.c is no name with a suffix
    assert located([converted], names) == ([SegmentPair(0, (0, 5), 3, (0, 6))], [])
    assert located([SegmentPair("b.c.txt", (0, 5), "b.d", (0, 6))], names)[1] == ["b.c.txt", "b.d"]
    with pytest.raises(UsageError, match=r"'a\.mp4' could be /v/one/a\.mp4 or /v/two/a\.mp4"):
        located([SegmentPair("a.mp4", (0, 5), "b", (0, 6))], names)


def test_an_annotation_of_other_videos_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "a.txt", "x.flv,y.flv,00:00:10,00:00:25,00:01:00,00:01:15\n")
    assert read_segments_of(file, [tmp_path / "x.mp4", tmp_path / "y.mp4"]) == read_segments(file)
    with pytest.raises(
        FileError, match=r"a\.txt: has no pair of the videos to learn from: it names x\.flv and y"
    ):
        read_segments_of(file, [tmp_path / "x.mp4", tmp_path / "z.mp4"])


def test_a_copy_is_found_as_what_it_is_a_copy_of() -> None:
    names, copies = ["/v/a.mp4", "/v/b.mp4"], [("/w/a.mp4", "/v/a.mp4"), ("/w/c.mp4", "/v/b.mp4")]
    pair = SegmentPair("a.mp4", (0, 5), "w/c.mp4", (0, 6))
    assert located([pair], names, copies) == ([SegmentPair(0, (0, 5), 1, (0, 6))], [])
    assert located([pair], names) == ([], ["w/c.mp4"])


def test_a_pair_is_cut_on_both_sides_alike() -> None:
    pair = SegmentPair(0, (10, 30), 1, (0, 10))
    assert within(pair, 30, 10) == pair
    assert within(pair, 20, 10) == SegmentPair(0, (10, 20), 1, (0, 5))
    assert within(pair, 20, 4) == SegmentPair(0, (10, 18), 1, (0, 4))
    assert within(pair, 10, 10) is None
