"""Each benchmark's figures on small annotation files in the authors' layouts, worked out by hand and by plain loops."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from visil.errors import FileError, UsageError
from visil.evaluation import (
    DATASETS,
    Benchmark,
    Figures,
    Predictions,
    Task,
    evaluate_scores,
    read_dataset,
)
from visil.evaluation.datasets.cc_web_video import read_cc_web_video
from visil.evaluation.datasets.fivr import read_fivr
from visil.evaluation.predictions import as_scores
from visil.matching.localize import Segment

NAMES = {
    "fivr-200k": "fivr.pickle",
    "fivr-5k": "fivr.pickle",
    "cc-web-video": "cc_web_video.pickle",
    "evve": "evve.pickle",
    "activitynet": "activity_net.pickle",
    "vcdb": "vcdb.json",
    "svd": "svd.txt",
    "vcsl": "vcsl.json",
    "dvsc-2023": "dvsc.csv",
}

Rows = dict[str, dict[str, float]]


def seg(q0: float, q1: float, t0: float, t1: float, score: float = 1.0) -> Segment:
    return Segment((q0, q1), (t0, t1), score)


def ranked(*names: str) -> dict[str, float]:
    """Scores in which the first is the best."""
    return {name: 1 - 0.01 * place for place, name in enumerate(names)}


def test_every_dataset_has_a_toy() -> None:
    assert set(NAMES) == set(DATASETS)


# ---------------------------------------------------------------------- FIVR


def test_fivr_by_hand(annotations: Path) -> None:
    fivr = read_dataset("fivr-5k", annotations / "fivr.pickle")
    assert fivr.queries == ("q1", "q2")
    figures = fivr.evaluate(
        {"q1": ranked("a", "d", "b", "c", "e", "q2"), "q2": ranked("q2", "a", "c", "d", "b", "e")}
    )
    # q1: a, b relevant at 1 and 3; with c at 4. q2 itself has no rank: c at 2; with d at 3, and q2 of three to find.
    q1, q1c = (1 + 2 / 3) / 2, (1 + 2 / 3 + 3 / 4) / 3
    assert figures["DSVR"] == pytest.approx((q1 + 1 / 2) / 2)
    assert figures["CSVR"] == pytest.approx((q1c + 1 / 2) / 2)
    assert figures["ISVR"] == pytest.approx((q1c + (1 / 2 + 2 / 3) / 3) / 2)
    assert figures["queries"] == 2
    assert figures["videos"] == 6
    assert [figures[k] for k in ("missing_queries", "missing_videos", "missing_scores", "unknown_ids")] == [
        0
    ] * 4


def test_fivr_counts_what_is_missing(annotations: Path) -> None:
    fivr = read_dataset("fivr-5k", annotations / "fivr.pickle")
    figures = fivr.evaluate({"q1": ranked("stranger", "b", "a"), "nobody": ranked("a")})
    assert figures["DSVR"] == 1  # the stranger has no rank
    assert figures["CSVR"] == pytest.approx(2 / 3)  # c was not found
    assert figures["missing_queries"] == 1
    assert figures["missing_videos"] == 4  # c, d, e, q2
    assert figures["missing_scores"] == 4
    assert figures["unknown_ids"] == 2
    # Where c could not be had, it is not to be found either.
    some = fivr.evaluate({"q1": ranked("b", "a", "c")}, available={"q1", "a", "b"})
    assert (some["CSVR"], some["videos"], some["missing_videos"]) == (1, 2, 4)
    none = fivr.evaluate({"q1": ranked("a"), "q2": ranked("a")}, available={"q1", "q2", "a"})
    assert (none["DSVR"], none["queries_without_truth"]) == (1, 1)


def test_fivr_from_json_needs_ids(annotations: Path) -> None:
    scores: Rows = {"q1": ranked("a", "d", "b", "c", "e", "q2"), "q2": ranked("q2", "a", "c", "d", "b", "e")}
    expected = read_fivr("5k", annotations / "fivr.pickle").evaluate(scores)
    for ids in ("fivr5k_videos.json", "fivr.pickle"):
        assert read_fivr("5k", annotations / "fivr.json", annotations / ids).evaluate(scores) == expected
    large = read_fivr("200k", annotations / "fivr.json", annotations / "youtube_ids.txt")
    assert large == read_fivr("200k", annotations / "fivr.pickle")
    with pytest.raises(UsageError, match="--ids"):
        read_fivr("5k", annotations / "fivr.json")
    with pytest.raises(FileError, match="queries too"):
        read_fivr("5k", annotations / "fivr.json", annotations / "youtube_ids.txt")


# ---------------------------------------------------------------------- CC_WEB_VIDEO


def test_cc_web_by_hand(annotations: Path) -> None:
    cc = read_dataset("cc-web-video", annotations / "cc_web_video.pickle")
    one = ranked("1/1_1_Y", "2/2_2_Y", "1/1_3_Y", "1/1_2_Y", "1/1_4_Y", "2/2_1_Y")
    two = ranked("2/2_1_Y", "1/1_1_Y", "2/2_2_Y", "1/1_2_Y", "1/1_3_Y", "1/1_4_Y")
    figures = cc.evaluate({"1/1_1_Y": one, "2/2_1_Y": two})
    # The query is its own first hit. Set 2 has two relevant videos, one of which nobody has.
    second = 1 / 2
    assert figures["cc_web"] == pytest.approx(((1 + 2 / 3 + 3 / 4) / 3 + second) / 2)
    assert figures["cc_web*"] == pytest.approx(((1 + 2 / 4 + 3 / 5) / 3 + second) / 2)
    # Without 1_3 and 1_4: two relevant ones at 1 and 2 of the set, at 1 and 3 of all.
    assert figures["cc_web_c"] == pytest.approx((1 + second) / 2)
    assert figures["cc_web_c*"] == pytest.approx(((1 + 2 / 3) / 2 + second) / 2)


def test_cc_web_missing_videos_are_not_found(annotations: Path) -> None:
    cc = read_cc_web_video(annotations / "cc_web_video.pickle")
    figures = cc.evaluate({"1/1_1_Y": ranked("1/1_1_Y", "1/1_2_Y")}, available={"1/1_1_Y", "1/1_2_Y"})
    assert figures["cc_web"] == pytest.approx(2 / 3)
    assert figures["cc_web_c"] == 1
    assert figures["missing_videos"] == 4
    assert "1/1_1_Y" in cc.candidates("1/1_1_Y")


# ---------------------------------------------------------------------- EVVE, ActivityNet, SVD


def test_evve_by_hand(annotations: Path) -> None:
    evve = read_dataset("evve", annotations / "evve.pickle")
    figures = evve.evaluate(
        {"q1": ranked("a", "b", "c", "d"), "q2": ranked("c", "a", "d", "b"), "q3": ranked("d", "c")}
    )
    # Trapezoids: for q2 (0/1 + 1/2)/2 and (1/3 + 2/4)/2, halved; for q3 (0 + 1/2)/2.
    q2, q3 = (1 / 4 + 5 / 12) / 2, 1 / 4
    assert figures["mAP"] == pytest.approx((1 + q2 + q3) / 3)  # over queries, not over events
    assert figures["events"] == pytest.approx({"geyser": q3, "riots": (1 + q2) / 2})
    some = evve.evaluate({"q3": ranked("c")}, available={"q3", "a"})
    assert some["mAP"] == 0  # nothing to find is nothing found, as in the authors' code
    assert some["events"] == {"geyser": 0, "riots": None}
    assert some["queries_without_truth"] == 1


def test_activitynet_by_hand(annotations: Path) -> None:
    net = read_dataset("activitynet", annotations / "activity_net.pickle")
    scores = {
        "a": ranked("a", "d", "b", "c"),
        "b": ranked("a", "c", "d"),
        "c": ranked("b", "a"),
        "d": ranked("a"),
    }
    figures = net.evaluate(scores)
    assert figures["mAP"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1 + 1 / 2) / 3)
    assert figures["queries_without_truth"] == 1
    assert figures["queries"] == 4
    assert figures["missing_scores"] == 0 + 0 + 1 + 2


def test_svd_by_hand(annotations: Path) -> None:
    svd = read_dataset("svd", annotations / "svd.txt")
    scores: Rows = {
        "q1.mp4": {"a.mp4": 0.5, "b.mp4": 0.5, "c.mp4": 0.1, "u1.mp4": 0.9, "d.mp4": 1.0},
        "q2.mp4": {"a.mp4": 0.3, "d.mp4": 0.2, "u1.mp4": 0.1, "u2.mp4": 0.1},
    }
    # a and b at once: precision 1/2 for the first half of recall, then 2/3. What is labelled for others has no rank.
    assert svd.evaluate(scores)["mAP"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1) / 2)
    wide = read_dataset("svd", annotations / "svd.txt", annotations / "unlabeled.txt").evaluate(scores)
    assert wide["mAP"] == pytest.approx(((1 / 3 + 2 / 4) / 2 + 1) / 2)
    assert wide["missing_scores"] == 1  # u2 of q1


# ---------------------------------------------------------------------- VCDB


def test_vcdb_retrieval_by_hand(annotations: Path) -> None:
    scores = {
        "a": ranked("a", "b", "d", "c"),
        "b": {"a": 0.5, "c": 0.9, "d": 0.4},
        "c": {"a": 0.3, "b": 0.2, "d": 0.1},
        "d": {"a": 0.05},
    }
    figures = read_dataset("vcdb", annotations / "vcdb.json").evaluate(scores)
    assert figures["mAP"] == pytest.approx(((1 + 2 / 3) / 2 + 1 / 2 + 1) / 3)
    # All together: ab .99 +, ad .98, ac .97 +, bc .9, ba .5 +, bd .4, ca .3 +, … of four true (ordered) pairs.
    assert figures["uAP"] == pytest.approx((1 + 2 / 3 + 3 / 5 + 4 / 7) / 4)
    assert figures["queries_without_truth"] == 1
    # Other annotations of the same pairs, where d is not known and others are background.
    for name, database in (("vcdb.pickle", 5), ("vcdb_s2vs.pickle", 4)):
        other = read_dataset("vcdb", annotations / name)
        assert len(other.database) == database
        known = {q: {t: s for t, s in row.items() if t != "d"} for q, row in scores.items() if q != "d"}
        assert other.evaluate(known)["mAP"] == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_vcdb_segments_by_hand(annotations: Path) -> None:
    vcdb = read_dataset("vcdb", annotations / "vcdb.json")
    assert vcdb.measures == {"scores", "segments"}
    segments = {
        ("b", "a"): [seg(10, 20, 0, 10, 0.9)],  # turned round, this is the first of a-b
        ("a", "c"): [seg(0, 5, 5, 9, 0.2)],  # touches on the target side only
        ("c", "a"): [seg(0, 5, 0, 5, 0.8)],  # not taken: a-c is there
        ("a", "a"): [seg(0, 30, 0, 30, 1.0)],  # itself: not taken
        ("d", "c"): [seg(0, 9, 0, 9, 0.1)],  # false
    }
    figures = vcdb.evaluate({}, segments=segments)
    assert figures["segments"]["precision"] == pytest.approx(1 / 3)
    assert figures["segments"]["recall"] == pytest.approx(1 / 3)
    assert figures["segments"]["best_F1"] == pytest.approx(2 * 1 / 3 / (1 + 1 / 3))
    assert figures["coverage"]["precision"] == pytest.approx(1 / 3, rel=1e-5)
    assert figures["coverage"]["recall"] == pytest.approx((10 / 15) ** 2 / 2, rel=1e-5)
    assert (figures["true_pairs"], figures["true_segments"]) == (2, 3)


# ---------------------------------------------------------------------- VCSL, DVSC


def test_vcsl_by_hand(annotations: Path) -> None:
    segments = {("a", "b"): [seg(0, 5, 0, 10)], ("d", "b"): [seg(0, 1, 0, 1)], ("a", "c"): [], ("z", "z"): []}
    for listing in (annotations / "vcsl_pairs.csv", annotations / "vcsl_pairs.csv.gz"):
        if listing.suffix == ".gz":
            listing.write_bytes(gzip.compress((annotations / "vcsl_pairs.csv").read_bytes()))
        vcsl = read_dataset("vcsl", annotations / "vcsl.json", listing)
        figures = vcsl.evaluate({}, segments=segments)
        assert figures["precision"] == pytest.approx(1 / 2, rel=1e-5)
        assert figures["recall"] == pytest.approx(1 / 4, rel=1e-5)
        assert figures["macro_recall"] == pytest.approx((1 / 4 + 1) / 2, rel=1e-5)
        counts = {k: figures[k] for k in ("pairs", "positive_pairs", "missing_pairs", "unknown_ids")}
        assert counts == {"pairs": 4, "positive_pairs": 2, "missing_pairs": 1, "unknown_ids": 1}
        assert (figures["unlisted_labels"], figures["unusable_labels"]) == (1, 1)
    assert vcsl.evaluate({}, {"a", "b"}, segments=segments)["pairs"] == 1
    assert read_dataset("vcsl", annotations / "vcsl.json").evaluate({}, segments=segments)["pairs"] == 3
    with pytest.raises(UsageError, match="segments"):
        vcsl.evaluate({"a": {"b": 1.0}})


def test_dvsc_by_hand(annotations: Path) -> None:
    listed = read_dataset("dvsc-2023", annotations / "dvsc.csv", annotations / "dvsc_ids.csv")
    assert listed.queries == ("Q1", "Q2", "Q3")
    scores: Rows = {"Q1": {"R1": 0.9, "R2": 0.8, "R9": 1.0}, "Q2": {"R2": 0.7}, "Q3": {"R3": 0.95}}
    segments = {("Q1", "R1"): [seg(0, 10, 0, 5, 0.9)], ("Q3", "R3"): [seg(0, 5, 0, 5, 0.1)]}
    figures = listed.evaluate(scores, segments=segments)
    assert figures["descriptor_uAP"] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert figures["matching_uAP"] == pytest.approx(1 * (10 / 20 * 5 / 20) ** 0.5)
    assert (figures["unknown_ids"], figures["missing_queries"]) == (1, 0)
    # Without a list, R9 counts as a video without a copy.
    open_end = read_dataset("dvsc-2023", annotations / "dvsc.csv").evaluate(scores)
    assert open_end["descriptor_uAP"] == pytest.approx((1 / 3 + 2 / 5) / 2)


def test_dvsc_takes_so_many_pairs_only(annotations: Path) -> None:
    dvsc = read_dataset("dvsc-2023", annotations / "dvsc.csv", annotations / "dvsc_ids.csv")
    many = {f"R{n}": 1.0 - n / 1000 for n in range(10, 10 + 25 * 3)}
    scores: Rows = {"Q1": {**many, "R1": 0.1}, "Q2": {"R2": 2.0}}
    open_end = read_dataset("dvsc-2023", annotations / "dvsc.csv").evaluate(scores)
    assert open_end["descriptor_uAP"] == pytest.approx(1 / 2)  # R1 stands at 77 of 50 taken
    assert dvsc.evaluate(scores)["descriptor_uAP"] == pytest.approx((1 + 2 / 2) / 2)  # the many are strangers


# ---------------------------------------------------------------------- every benchmark


def some_scores(benchmark: Benchmark, rng: np.random.Generator) -> Rows:
    return {q: {t: float(rng.random()) for t in sorted(benchmark.candidates(q))} for q in benchmark.queries}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vcsl"])
def test_order_and_strangers_change_nothing(annotations: Path, name: str) -> None:
    ids = annotations / "dvsc_ids.csv" if name == "dvsc-2023" else None
    benchmark = read_dataset(name, annotations / NAMES[name], ids)
    scores = some_scores(benchmark, np.random.default_rng(0))
    figures = flat(benchmark.evaluate(scores))
    turned = {q: dict(reversed(row.items())) for q, row in reversed(scores.items())}
    assert flat(benchmark.evaluate(turned)) == pytest.approx(figures)
    strange = {q: {"stranger": 9.0, **row} for q, row in scores.items()}
    counted = flat(benchmark.evaluate(strange))
    assert counted == pytest.approx(figures | {"unknown_ids": 1})


def flat(figures: Figures) -> Figures:
    return figures | figures.pop("events", {})


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vcsl"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), None, "0.5", True])
def test_scores_that_are_no_numbers(annotations: Path, name: str, bad: float) -> None:
    benchmark = read_dataset(name, annotations / NAMES[name])
    scores = some_scores(benchmark, np.random.default_rng(0))
    query, row = next(iter(scores.items()))
    target = next(iter(row))
    row[target] = bad
    with pytest.raises(UsageError, match=f"query '{query}', target '{target}'"):
        benchmark.evaluate(scores)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "vcsl"])
def test_scores_of_something_else(annotations: Path, name: str) -> None:
    benchmark = read_dataset(name, annotations / NAMES[name])
    for scores in ({}, {"who": {"what": 1.0}}):
        with pytest.raises(UsageError, match="no scores of any"):
            benchmark.evaluate(scores)


def cut(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": cut,
    "noise": lambda _: bytes(range(256)),
    "another pickle": lambda _: pickle.dumps([1, 2]),
    "empty dictionary": lambda _: pickle.dumps({}),
    "wrong types": lambda _: pickle.dumps({"annotation": 3, "index": {"a": "b"}, "x": [None], "queries": 5}),
    "json list": lambda _: b"[1, 2]",
    "json of others": lambda _: json.dumps({"x": {"y": 1}, "a-b": 3}).encode(),
    "text": lambda _: b"some words\nthat mean nothing here at all\n",
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", WRONG)
def test_wrong_annotation_files_are_one_line(annotations: Path, name: str, kind: str) -> None:
    file = annotations / NAMES[name]
    file.write_bytes(WRONG[kind](file.read_bytes()))
    if kind == "cut" and name in ("svd", "dvsc-2023"):
        file.write_bytes(file.read_bytes()[:-1] + b"?")  # half a text may be whole lines
    with pytest.raises(FileError) as said:
        read_dataset(name, file)
    assert str(said.value).startswith(f"{file}: ")
    assert "\n" not in str(said.value)


def test_lists_and_names_that_make_no_sense(annotations: Path) -> None:
    with pytest.raises(UsageError, match="no benchmark 'trecvid'"):
        read_dataset("trecvid", annotations / "evve.pickle")
    with pytest.raises(UsageError, match="has no list"):
        read_dataset("evve", annotations / "evve.pickle", annotations / "youtube_ids.txt")
    with pytest.raises(FileError, match="no id such as"):
        read_dataset("dvsc-2023", annotations / "dvsc.csv", annotations / "youtube_ids.txt")


def test_scored_only_leaves_out_what_nobody_scored(annotations: Path) -> None:
    task = Task("fivr-5k", annotations / "fivr.pickle")
    predictions = Predictions(as_scores({"q1": ranked("a", "b")}))
    strict = evaluate_scores(task, predictions)
    lenient = evaluate_scores(task, predictions, scored_only=True)
    assert strict.figures["CSVR"] == pytest.approx(2 / 3)
    assert lenient.figures["CSVR"] == 1
    assert lenient.figures["missing_videos"] == strict.figures["missing_videos"] == 4
