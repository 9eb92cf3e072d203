"""Score files as others write them, as we keep them, and as they should not be."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visil.errors import FileError, UsageError
from visil.evaluation import Predictions, QueryScores, read_predictions, write_predictions
from visil.matching.localize import Segment

NAMES = st.text(min_size=1, max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SPAN = st.tuples(st.floats(0, 50), st.floats(50, 99))
ONE = st.builds(Segment, SPAN, SPAN, st.floats(-1, 1))


def rows(predictions: Predictions) -> dict[str, dict[str, float]]:
    return {q: dict(zip(r.targets, r.values.tolist(), strict=True)) for q, r in predictions.scores.items()}


@given(
    st.dictionaries(NAMES, st.dictionaries(NAMES, NUMBERS)),
    st.dictionaries(st.tuples(NAMES, NAMES), st.lists(ONE)),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_kept_comes_back(
    tmp_path: Path, scores: dict[str, dict[str, float]], segments: dict[tuple[str, str], list[Segment]]
) -> None:
    file = tmp_path / "kept.json"
    arrays = {q: QueryScores(list(r), np.array(list(r.values()), np.float64)) for q, r in scores.items()}
    write_predictions(file, Predictions(arrays, segments or None))
    read = read_predictions(file)
    kept = {query: row for query, row in rows(read).items() if row}
    assert kept == {query: row for query, row in scores.items() if row}
    assert read.segments == (segments or None)
    write_predictions(file, Predictions(arrays))
    assert json.loads(file.read_text()) == scores  # the authors' format


def test_whole_numbers_and_mixed_values(tmp_path: Path) -> None:
    file = tmp_path / "mixed.json"
    file.write_text(
        '{"q": {"a": 1, "b": 0.5, "c": {"score": -2, "segments": [{"query": [0, 1], "target": [2, 3.5]}]},'
        ' "d": [[0, 1, 2, 3], [0, 1, 2, 3, 0.25]]}}'
    )
    read = read_predictions(file)
    assert rows(read) == {"q": {"a": 1, "b": 0.5, "c": -2}}
    assert read.segments == {
        ("q", "c"): [Segment((0, 1), (2, 3.5), 1.0)],
        ("q", "d"): [Segment((0, 2), (1, 3), 1.0), Segment((0, 2), (1, 3), 0.25)],
    }


def test_the_layouts_of_vcsl_and_dvsc(tmp_path: Path) -> None:
    file = tmp_path / "pairs.json"
    file.write_text('{"a-b": [[0, 10, 5, 15]], "a-c": []}')
    assert read_predictions(file).segments == {("a", "b"): [Segment((0, 5), (10, 15), 1.0)], ("a", "c"): []}
    table = tmp_path / "pairs.csv"
    table.write_text(
        "score,query_id,ref_id,query_start,query_end,ref_start,ref_end\n0.5,Q1,R1,0,1,2,3\n0.75,Q1,R1,4,5,6,7\n"
    )
    read = read_predictions(table)
    assert rows(read) == {"Q1": {"R1": 0.75}}  # a pair is as good as its best segment
    assert read.segments == {("Q1", "R1"): [Segment((0, 1), (2, 3), 0.5), Segment((4, 5), (6, 7), 0.75)]}
    table.write_text("query_id,ref_id,score\nQ1,R1,0.5\nQ1,R2,1e-3\n")
    assert rows(read_predictions(table)) == {"Q1": {"R1": 0.5, "R2": 0.001}}


BAD = {
    '{"q": {"t": NaN}}': "query 'q', target 't': .*not nan",
    '{"q": {"a": 0.5, "t": Infinity}}': "query 'q', target 't': .*not inf",
    '{"q": {"t": -Infinity}}': "query 'q', target 't'",
    '{"q": {"t": 1e999}}': "query 'q', target 't'",
    '{"q": {"t": 1' + "0" * 400 + "}}": "query 'q', target 't'",
    '{"q": {"t": null}}': "query 'q', target 't': .*not None",
    '{"q": {"t": true}}': "query 'q', target 't': .*not True",
    '{"q": {"t": "0.5"}}': "query 'q', target 't': .*not '0.5'",
    '{"q": {"t": {}}}': "query 'q', target 't': has neither",
    '{"q": {"t": {"score": "x"}}}': "query 'q', target 't'",
    '{"q": {"t": {"segments": 3}}}': "query 'q', target 't': its segments",
    '{"q": {"t": [[1, 2, 3]]}}': "query 'q', target 't': a segment has four",
    '{"q": {"t": [[5, 0, 3, 4]]}}': "query 'q', target 't': .*no stretch",
    '{"q": {"t": [{"query": [0, NaN], "target": [0, 1]}]}}': "query 'q', target 't': .*no stretch",
    '{"q": {"t": [{"query": [0, 1], "target": [0, 1], "score": NaN}]}}': "query 'q', target 't'",
    '{"q": {"t": 1, "t": 2}}': "query 'q': target 't' is there twice",
    '{"q": {"t": 0.1}, "q": {"t": 0.2}}': "query 'q' is there twice",
    '{"q": 3}': "query 'q': its scores must be an object",
    '{"q": {"t": 0.1}, "p": null}': "query 'p': its scores must be an object",
    '{"q": [1, 2]}': "two ids",
    "[]": "must be {query",
    "3": "must be {query",
    "": "is no JSON",
    '{"q": {"t": 0.5}': "is no JSON",
    "{'q': 1}": "is no JSON",
    "[" * 100_000: "is no JSON",
}


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_bad_files_are_one_line_that_names_the_place(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scores.json"
    file.write_text(content)
    with pytest.raises(FileError, match=BAD[content]) as said:
        read_predictions(file)
    assert str(said.value).startswith(f"{file}: ")
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("query_id,ref_id\nQ1,R1\n", "no column 'score'"),
        ("query_id,ref_id,score\nQ1,R1,nan\n", "line 2: 'nan' is no finite"),
        ("query_id,ref_id,score\nQ1,R1,x\n", "line 2: 'x'"),
        ("query_id,ref_id,score\nQ1,R1\n", "line 2: a field"),
        ("query_id,ref_id,score\nQ1,R1,1\nQ1,R1,2\n", "line 3: query 'Q1', target 'R1' is there twice"),
        (
            "query_id,ref_id,score,query_start,query_end,ref_start,ref_end\nQ,R,1,5,4,0,1\n",
            "line 2: a segment ends",
        ),
    ],
)
def test_bad_tables(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "scores.csv"
    file.write_text(content)
    with pytest.raises(FileError, match=reason):
        read_predictions(file)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_predictions(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b'{"\xe9": {}}')
    with pytest.raises(FileError, match="UTF-8"):
        read_predictions(tmp_path / "latin.json")
    with pytest.raises(UsageError, match="folder does not exist"):
        write_predictions(tmp_path / "nowhere" / "scores.json", Predictions())
