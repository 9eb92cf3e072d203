"""Small benchmarks in the layouts of the authors' annotation files."""

import json
import pickle
from pathlib import Path

import pytest


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """A folder with one small annotation file of each benchmark, called as ``NAMES`` of test_datasets says."""
    folder = tmp_path / "annotations"
    folder.mkdir()

    def pickled(name: str, content: object, protocol: int = 4) -> None:
        (folder / name).write_bytes(pickle.dumps(content, protocol))

    labels_of = {
        "q1": {"ND": ["a"], "DS": ["b"], "CS": ["c"], "DA": ["e"]},
        "q2": {"DS": ["c"], "IS": ["d", "q2", "elsewhere"]},
        "q3": {"DS": ["d"]},
    }
    small, large = {"a", "b", "c", "d", "e", "q2"}, {"a", "b", "c", "d", "e", "f", "q1", "q2", "q3"}
    fivr = {
        "annotation": labels_of,
        "5k": {"queries": ["q1", "q2"], "database": small},
        "200k": {"queries": ["q1", "q2", "q3"], "database": large},
    }
    pickled("fivr.pickle", fivr)
    (folder / "fivr.json").write_text(json.dumps(labels_of))
    (folder / "fivr5k_videos.json").write_text(
        json.dumps({"query": ["q1.mp4", "q2.mp4"], "database": [f"{v}.mp4" for v in sorted(small)]})
    )
    (folder / "youtube_ids.txt").write_text("\n".join(sorted(large)) + "\n")
    pickled(
        "cc_web_video.pickle",
        {
            "index": {"1/1_1_Y": 1, "1/1_2_Y": 2, "1/1_3_Y": 3, "1/1_4_Y": 4, "2/2_1_Y": 5, "2/2_2_Y": 6},
            "queries": ["1/1_1_Y", "2/2_1_Y"],
            # 99 is a video that nobody has any more; x is a label as X is.
            "ground_truth": [{1: "E", 2: "S", 3: "X", 4: "M"}, {5: "E", 6: "x", 99: "V"}],
            "excluded": [{3, 4}, set()],
        },
        3,
    )
    pickled(
        "evve.pickle",
        {
            "annotation": {"riots": ({"q1", "q2"}, {"a", "b"}, set()), "geyser": ({"q3"}, {"c"}, set())},
            "queries": ["q1", "q2", "q3"],
            "database": ["a", "b", "c", "d"],
        },
        3,
    )
    pickled("activity_net.pickle", {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}, "d": set()}, 3)
    (folder / "svd.txt").write_text(
        "q1.mp4 a.mp4 1\nq1.mp4 b.mp4 0\nq1.mp4 c.mp4 1\nq2.mp4 a.mp4 1\nq2.mp4 d.mp4 0\n"
    )
    (folder / "unlabeled.txt").write_text("u1.mp4\nu2.mp4\n")
    labels = {
        "a-a": [[0, 0, 30, 30]],
        "a-b": [[0, 10, 10, 20], [20, 30, 25, 35]],
        "a-c": [[0, 0, 5, 5]],
        "b-b": [[0, 0, 40, 40]],
        "c-c": [[0, 0, 9, 9]],
        "d-d": [[0, 0, 9, 9]],
    }
    (folder / "vcdb.json").write_text(json.dumps(labels))
    pickled(
        "vcdb.pickle",
        {
            "index": ["a", "b", "c", "bg1", "bg2"],
            "video_pairs": [
                {"videos": [0, 1], "overlap": [0.5, 1.0]},
                {"videos": [2, 0], "overlap": [0.1, 0.2]},
            ],
        },
        3,
    )
    pickled(
        "vcdb_s2vs.pickle",
        {
            "queries": ["a", "b", "c"],
            "positives": {"a": {"b", "c"}, "b": {"a"}, "c": {"a"}},
            "dataset": ["bg1"],
        },
    )
    (folder / "vcsl.json").write_text(
        json.dumps({"a-b": [[0, 0, 10, 10]], "a-c": [[0, 0, 10, 10], [9, 0, 3, 5]], "z-y": [[0, 0, 1, 1]]})
    )
    (folder / "vcsl_pairs.csv").write_text("query_id,reference_id\na,b\na,c\nd,b\nd,c\n")
    (folder / "dvsc.csv").write_text(
        "query_id,ref_id,query_start,query_end,ref_start,ref_end\nQ1,R1,0,10,0,10\nQ2,R2,5.0,15.0,20,30\n"
    )
    (folder / "dvsc_ids.csv").write_text("video_id,duration\nQ1,30\nQ2,30\nQ3,30\nR1,60\nR2,60\nR3,60\n")
    return folder
