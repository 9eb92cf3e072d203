"""Predictions of a method on a benchmark: scores of videos and matching segments, in memory and as files.

JSON, as the authors' scripts write it: ``{query: {target: score}}``. Where a benchmark asks for segments, a score may
be the object ``{"score": 0.9, "segments": [{"query": [0, 12], "target": [33, 45], "score": 0.94}]}``, as ``visil
compare --json`` gives it, or the list of segments alone; times are seconds. Of others, two more are read: VCSL's
``{"query-target": [[query start, target start, query end, target end], ...]}``, and DVSC-2023's CSV with the columns
``query_id, ref_id, score`` and, for segments, ``query_start, query_end, ref_start, ref_end``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from visil.errors import FileError, UsageError
from visil.evaluation.annotations import AnyPath, finite, one_line, read_csv, read_text
from visil.files import replacing
from visil.matching.localize import Segment

FORMAT = "{query: {target: score}}"
PAIR_COLUMNS = ("query_id", "ref_id", "score")
SPAN_COLUMNS = ("query_start", "query_end", "ref_start", "ref_end")

Pair = tuple[str, str]
"""Query and target."""

Segments = Mapping[Pair, Sequence[Segment]]
"""Where pairs match, in seconds; a pair that is not there matches nowhere."""


@dataclass(frozen=True, eq=False)
class QueryScores:
    """One query against many targets: their ids, each once, and as many finite scores."""

    targets: Sequence[str]
    values: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)


Scores = Mapping[str, QueryScores]
AnyScores = Mapping[str, QueryScores | Mapping[str, float]]
"""{query: {target: score}}, the authors' format, or the same with arrays."""


@dataclass(frozen=True)
class Predictions:
    """Scores of videos, and where they match, as far as given."""

    scores: Scores = field(default_factory=dict)
    segments: Segments | None = None


def as_scores(scores: AnyScores) -> Scores:
    """Checked: every score is a finite number, or the first that is not is named."""
    return {query: row if isinstance(row, QueryScores) else _row(query, row) for query, row in scores.items()}


def _row(query: str, row: Mapping[str, float]) -> QueryScores:
    if not isinstance(row, Mapping):
        raise UsageError(f"query {query!r}: its scores must be {{target: score}}, not {type(row).__name__}")
    values = []
    for target, value in row.items():
        number = finite(value)
        if number is None:
            raise UsageError(f"query {query!r}, target {target!r}: {value!r} is no finite number")
        values.append(number)
    return QueryScores(list(row), np.array(values, np.float64))


def read_predictions(path: AnyPath) -> Predictions:
    """Scores and segments of a file; whatever is wrong with one is named with its query and target."""
    if Path(path).suffix.lower() == ".csv":
        return _from_csv(path)
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise FileError(path, f"is no JSON: {one_line(error)}") from error
    if not isinstance(content, _Object):
        raise FileError(path, f"must be {FORMAT}, not a {type(content).__name__}")
    _no_twins(path, content, "query")
    reader = _Reader(path)
    for query, row in content.items():
        reader.take(query, row)
    return reader.result()


def write_predictions(path: AnyPath, predictions: Predictions) -> None:
    """Keep predictions as :func:`read_predictions` reads them, whole or not at all."""
    with replacing(path) as fresh, open(fresh, "w", encoding="utf-8") as file:
        for number, (query, row) in enumerate(_rows(predictions)):
            file.write(f"{',' if number else '{'}\n{json.dumps(query)}: {json.dumps(row)}")
        file.write("\n}\n" if predictions.scores or predictions.segments else "{}\n")


def _rows(predictions: Predictions) -> Iterator[tuple[str, dict[str, object]]]:
    segments: dict[str, dict[str, list[dict[str, object]]]] = {}
    for (query, target), found in (predictions.segments or {}).items():
        segments.setdefault(query, {})[target] = [segment.to_dict() for segment in found]
    for query, scores in predictions.scores.items():
        own = segments.pop(query, {})
        row: dict[str, object] = {}
        for target, value in zip(scores.targets, scores.values.tolist(), strict=True):
            row[target] = {"score": value, "segments": own.pop(target)} if target in own else value
        yield query, row | own
    for query, rest in segments.items():
        yield query, {**rest}


class _Object:
    """A JSON object as it stands in the file: keys may come twice; numbers in an array, as there may be millions."""

    __slots__ = ("keys", "numbers", "values")

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self.keys = [key for key, _ in pairs]
        self.numbers: NDArray[np.float64] | None = None
        self.values: list[object] = []
        values = [value for _, value in pairs]
        if all(type(value) is float for value in values):
            self.numbers = np.array(values, np.float64)
        else:
            self.values = values

    def items(self) -> Iterator[tuple[str, object]]:
        values: Iterable[object] = self.values if self.numbers is None else self.numbers.tolist()
        return zip(self.keys, values, strict=True)


def _no_twins(path: AnyPath, content: _Object, what: str) -> None:
    if len(set(content.keys)) != len(content.keys):
        seen: set[str] = set()
        twin = next(key for key in content.keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileError(path, f"{what} {twin!r} is there twice")


class _Reader:
    """Gathers the entries of a file, query by query."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        self.scores: dict[str, QueryScores] = {}
        self.segments: dict[Pair, list[Segment]] = {}
        self.has_segments = False

    def result(self) -> Predictions:
        return Predictions(self.scores, self.segments if self.has_segments else None)

    def take(self, query: str, row: object) -> None:
        if isinstance(row, list):  # VCSL's way
            names = query.split("-")
            if len(names) != 2:
                raise FileError(
                    self.path, f"{query!r} must be two ids joined by one '-', or its value {FORMAT}"
                )
            self.has_segments = True
            self.segments[names[0], names[1]] = [self._box(names[0], names[1], box) for box in row]
            return
        if not isinstance(row, _Object):
            raise FileError(self.path, f"query {query!r}: its scores must be an object, not {_shown(row)}")
        _no_twins(self.path, row, f"query {query!r}: target")
        if row.numbers is not None and np.isfinite(row.numbers).all():
            self.scores[query] = QueryScores(row.keys, row.numbers)
            return
        targets, values = [], []
        for target, value in row.items():
            score = self._value(query, target, value)
            if score is not None:
                targets.append(target)
                values.append(score)
        self.scores[query] = QueryScores(targets, np.array(values, np.float64))

    def _value(self, query: str, target: str, value: object) -> float | None:
        """The score of a pair, None where only segments are given; its segments are kept."""
        if isinstance(value, list):
            self._keep(query, target, value)
            return None
        if isinstance(value, _Object):
            content = dict(value.items())
            if "segments" in content:
                self._keep(query, target, content["segments"])
            if "score" not in content:
                if "segments" not in content:
                    self._wrong(query, target, "has neither a score nor segments")
                return None
            value = content["score"]
        score = finite(value)
        if score is None:
            self._wrong(query, target, f"its score must be a finite number, not {_shown(value)}")
        return score

    def _keep(self, query: str, target: str, value: object) -> None:
        if not isinstance(value, list):
            self._wrong(query, target, f"its segments must be a list, not {_shown(value)}")
        self.has_segments = True
        self.segments[query, target] = [self._segment(query, target, item) for item in value]

    def _segment(self, query: str, target: str, item: object) -> Segment:
        if not isinstance(item, _Object):
            return self._box(query, target, item)
        content = dict(item.items())
        score = finite(content.get("score", 1.0))
        if score is None:
            self._wrong(query, target, f"a segment's score must be finite, not {_shown(content['score'])}")
        return Segment(
            self._span(query, target, content.get("query")),
            self._span(query, target, content.get("target")),
            score,
        )

    def _box(self, query: str, target: str, box: object) -> Segment:
        if not isinstance(box, list) or len(box) not in (4, 5):
            self._wrong(query, target, f"a segment has four times (and a score), not {_shown(box)}")
        score = finite(box[4]) if len(box) == 5 else 1.0
        if score is None:
            self._wrong(query, target, f"a segment's score must be finite, not {_shown(box[4])}")
        spans = [self._span(query, target, [box[i], box[i + 2]]) for i in (0, 1)]
        return Segment(spans[0], spans[1], score)

    def _span(self, query: str, target: str, value: object) -> tuple[float, float]:
        times = [finite(time) for time in value] if isinstance(value, list) else []
        known = [time for time in times if time is not None]
        if not len(times) == len(known) == 2 or known[0] > known[1]:
            self._wrong(query, target, f"{_shown(value)} is no stretch of time: [start, end] in seconds")
        return known[0], known[1]

    def _wrong(self, query: str, target: str, what: str) -> NoReturn:
        raise FileError(self.path, f"query {query!r}, target {target!r}: {what}")


def _from_csv(path: AnyPath) -> Predictions:
    header = read_text(path).split("\n", 1)[0]
    spans = all(column in header for column in SPAN_COLUMNS)
    rows: dict[str, dict[str, float]] = {}
    segments: dict[Pair, list[Segment]] = {}
    for line, row in read_csv(path, PAIR_COLUMNS + SPAN_COLUMNS if spans else PAIR_COLUMNS):
        query, target = row["query_id"], row["ref_id"]
        numbers = {name: _number(path, line, value) for name, value in row.items() if name[-3:] != "_id"}
        known = rows.setdefault(query, {})
        if target in known and not spans:
            raise FileError(path, f"line {line}: query {query!r}, target {target!r} is there twice")
        known[target] = max(known.get(target, -math.inf), numbers["score"])
        if spans:
            q, t = ((numbers[f"{v}_start"], numbers[f"{v}_end"]) for v in ("query", "ref"))
            if q[0] > q[1] or t[0] > t[1]:
                raise FileError(path, f"line {line}: a segment ends before it begins")
            segments.setdefault((query, target), []).append(Segment(q, t, numbers["score"]))
    scores = {
        query: QueryScores(list(row), np.array(list(row.values()), np.float64)) for query, row in rows.items()
    }
    return Predictions(scores, segments if spans else None)


def _number(path: AnyPath, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise FileError(path, f"line {line}: {text[:40]!r} is no finite number")
    return value


def _shown(value: object) -> str:
    if isinstance(value, _Object):
        return "an object"
    return repr(value)[:60]
