"""A collection through a cluster of two nodes, one of which is killed after a third; then searched in shards.

    python benchmarks/ray_885.py VIDEOS LOCAL.visil

LOCAL.visil is the same collection, added on one machine. What is written to --out: how the run went, whether the
features are those of the local collection, and whether shards (as actors of what is left of the cluster) find the same.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import visil
from shared.results import RESULTS, as_text, machine, write
from shared.two_nodes import TwoNodes, two_nodes
from visil.cluster.ray_connection import RayConnection
from visil.cluster.ray_extraction import over
from visil.cluster.ray_session import ray_session
from visil.collection.intake import AddProgress
from visil.collection.shards.create import create

QUERIES = 20
SHARDS = 4


def main() -> None:
    """Run, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path)
    parser.add_argument("local", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "ray_885.json")
    parser.add_argument("--keep", type=Path, help="A folder for the collections that are made.")
    parser.add_argument("--most", type=int, help="Only so many of the local collection's videos.")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        two_nodes() as nodes,
        ray_session(nodes.address) as cluster,
        visil.Index(arguments.local, create=False) as local,
        visil.Index((arguments.keep or Path(temporary)) / "cluster.visil") as index,
    ):
        work = arguments.keep or Path(temporary)
        paths = [video.path for video in local.catalogue.videos()][: arguments.most]
        known = {video.id for video in local.catalogue.videos() if video.path in set(paths)}
        below = str(arguments.videos.resolve())
        assert all(path.startswith(below) for path in paths), "LOCAL.visil holds other videos than VIDEOS"
        watch = Watch(nodes, len(paths))
        report = index.add(paths, progress=watch, engine=over(cluster))
        result: dict[str, Any] = {
            "machine": machine(),
            "versions": {name: version(name) for name in ("ray", "torch", "av")},
            "nodes": {"before": len(cluster.nodes), "after": _alive()},
            "run": {
                "files": len(paths),
                "added": report.added,
                "unchanged": report.unchanged,
                "failed": len(report.failed),
                **watch.told(),
            },
            "sound": index.verify() == [] and sorted(index.store.ids()) == sorted(known),
            "features": features(index, local),
            "search": search(index, local, work / "shards"),
        }
    result["run"]["note"] = "both nodes share two cores: not a measure of speed"
    write(arguments.out, result)
    print(as_text(result))


class Watch:
    """Kills the second node when a third of the files is done, and keeps a log."""

    def __init__(self, nodes: TwoNodes, total: int) -> None:
        self.nodes = nodes
        self.total = total
        self.started = time.monotonic()
        self.killed: dict[str, float] | None = None
        self.log: list[dict[str, float]] = []

    def __call__(self, state: AddProgress) -> None:
        """Where ``add`` stands."""
        now = round(time.monotonic() - self.started, 1)
        entry = {"seconds": now, "files": state.files, "frames": state.frames}
        if not self.log or now - self.log[-1]["seconds"] >= 15 or state.files == self.total:
            self.log.append(entry)
        if self.killed is None and state.files >= self.total / 3:
            self.killed = entry
            self.nodes.kill_second()

    def told(self) -> dict[str, Any]:
        """What the log says."""
        return {"second_node_killed_at": self.killed, "log": self.log}


def features(index: visil.Index, local: visil.Index) -> dict[str, Any]:
    """Each video's features here and there."""
    videos = list(index.catalogue.videos())
    equal, worst, shapes = 0, 0.0, 0
    for video in videos:
        here, there = index.store.read(video.id), local.store.read(video.id)
        assert here.blank is not None
        assert there.blank is not None
        shapes += bool(
            here.vectors.shape == there.vectors.shape
            and torch.equal(here.timestamps, there.timestamps)
            and torch.equal(here.blank, there.blank)
            and here.duration == there.duration
        )
        equal += bool(torch.equal(here.vectors, there.vectors))
        worst = max(worst, float((here.vectors.float() - there.vectors.float()).abs().max()))
    return {
        "videos": len(videos),
        "same_frames_times_blanks_and_duration": shapes,
        "same_bits": equal,
        "largest_difference": worst,
    }


def search(index: visil.Index, local: visil.Index, folder: Path) -> dict[str, Any]:
    """The same questions to shards in actors, to the same videos unsharded, and to the local collection."""
    create(folder, SHARDS, source=index.folder)
    names = [video.id for video in index.catalogue.videos()]
    queries = names[:: max(1, len(names) // QUERIES)][:QUERIES]
    with visil.Index(folder, connect=RayConnection) as shards:
        found = {query: shards.search(query) for query in queries}
    as_dicts = {query: [hit.to_dict() for hit in hits] for query, hits in found.items()}
    identical = sum(as_dicts[query] == [hit.to_dict() for hit in index.search(query)] for query in queries)
    return {
        "shards": SHARDS,
        "queries": len(queries),
        "identical_to_the_same_collection_unsharded": identical,
        "with_the_local_collection": against(found, local),
    }


def against(found: dict[str, visil.Hits], other: visil.Index) -> dict[str, Any]:
    """Hits of each query, held against what another collection finds."""
    same, score, confidence = 0, 0.0, 0.0
    for query, hits in found.items():
        there = {hit.id: hit for hit in other.search(query)}
        related = {hit.id for hit in hits if hit.verdict != "unrelated"}
        same += related == {name for name, hit in there.items() if hit.verdict != "unrelated"}
        for hit in hits:
            if hit.id in there:
                score = max(score, abs(hit.score - there[hit.id].score))
                confidence = max(confidence, abs(hit.confidence - there[hit.id].confidence))
    return {
        "same_related_hits": same,
        "largest_difference_of_score": score,
        "largest_difference_of_confidence": confidence,
    }


def _alive() -> int:
    import ray

    return sum(bool(node["Alive"]) for node in ray.nodes())


if __name__ == "__main__":
    main()
