"""Two Ray nodes on this machine: adding with a node killed on the way, resuming, shards, evaluation."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visil
from synthetic import moving_scene, write_video
from visil.cluster.ray_connection import RayConnection
from visil.cluster.ray_evaluation import spread_scores
from visil.cluster.ray_extraction import over
from visil.cluster.ray_session import Cluster, ClusterError, ray_session
from visil.collection.intake import AddProgress
from visil.collection.shards.create import create
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError
from visil.evaluation.scoring import score_videos
from visil.evaluation.videos import KnownVideos
from visil.video import Sampling

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("ray", "pyarrow")),
    reason="Ray is not installed: pip install 'visil[ray]'",
)

STORE_BYTES = 80_000_000
LOOPBACK = "127.0.0.2"
"""127.0.0.1 would be taken for the machine's outward address."""
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 10,
    "worker_niceness": 0,
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
}
"""How soon a dead node is noticed; and no processes but those asked for, which need not wait for all other tests."""


class Nodes:
    """A head and other nodes, each a Ray node of its own, on the loopback address."""

    def __init__(self, folder: str) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self.made = RayCluster(
            initialize_head=True,
            head_node_args={
                **self._settings(),
                "include_dashboard": False,
                "_system_config": QUICK,
                "temp_dir": folder,
            },
        )
        self.others: list[Any] = []
        self.address = str(self.made.address)

    def _settings(self) -> dict[str, Any]:
        return {"num_cpus": 1, "object_store_memory": STORE_BYTES, "node_ip_address": LOOPBACK}

    def add(self) -> None:
        """One node more."""
        self.others.append(self.made.add_node(**self._settings()))

    def kill(self) -> None:
        """End a node's processes without warning."""
        self.made.remove_node(self.others.pop(), allow_graceful=False)

    def keep_two(self) -> None:
        """A head and one more, whatever was killed."""
        if not self.others:
            self.add()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    folder = tempfile.mkdtemp(prefix="vr", dir="/tmp")  # short: the paths of sockets below it are limited
    with pytest.MonkeyPatch.context() as patch:
        # Ray's own folder for the cluster's address, which it takes to be there.
        patch.setenv("RAY_TMPDIR", folder)
        Path(folder, "ray").mkdir()
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        if "ray" not in sys.modules:  # Ray looks once, when it is imported
            patch.setenv("RAY_AUTH_MODE", "token")
            patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        made = Nodes(folder)
        try:
            made.add()
            yield made
        finally:
            made.made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def cluster(nodes: Nodes) -> Iterator[Cluster]:
    with ray_session(nodes.address) as joined:
        assert (joined.cpus, joined.gpus, len(joined.nodes)) == (2, 0.0, 2)
        yield joined


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The default model on small pictures: quick."""
    default = visil.load()
    small = ViSiL(default.config.replaced(sampling=Sampling(fps=2, resize=64, crop=64)))
    small.load_state_dict(default.state_dict())
    folder = tmp_path_factory.mktemp("model") / "small"
    small.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven videos, the last of which contains the first; a copy, a text file, and one of several batches."""
    folder = tmp_path_factory.mktemp("videos")
    for seed in range(6):
        write_video(folder / f"{seed:02}.mp4", moving_scene(seed, 5, 6, (64, 96)), 6)
    first = list(moving_scene(0, 5, 6, (64, 96)))
    write_video(folder / "06.mp4", [*moving_scene(40, 4, 6, (64, 96)), *first], 6)
    shutil.copy(folder / "03.mp4", folder / "copy of 03.mp4")
    (folder / "text.mp4").write_text("no video")
    write_video(folder / "long.mp4", moving_scene(50, 40, 6, (64, 96)), 6)
    return folder


@dataclass(frozen=True)
class Content:
    """All that a collection holds, times and numbers aside."""

    videos: dict[str, Any]
    vectors: dict[str, torch.Tensor]
    failed: list[str]


def content(index: visil.Index) -> Content:
    found = {video.id: replace(video, number=0) for video in index.catalogue.videos()}
    vectors = {video: index.store.read(video).vectors.clone() for video in found}
    assert index.verify() == []
    assert sorted(index.store.ids()) == sorted(found)
    return Content(found, vectors, [os.path.basename(one.path) for one in index.catalogue.failures()])


@pytest.fixture(scope="module")
def local(videos: Path, model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All videos, added on this machine alone."""
    folder = tmp_path_factory.mktemp("local") / "all.visil"
    with visil.Index(folder, model=str(model_folder)) as index:
        report = index.add(videos, workers=1)
    assert (report.added, report.unchanged, len(report.failed)) == (8, 1, 1)
    return folder


def same(found: Content, expected: Content) -> None:
    assert found.videos == expected.videos
    assert found.failed == expected.failed
    for video, vectors in expected.vectors.items():
        # Here batches are put together by chance, and small ones may round otherwise: half a unit in float16.
        torch.testing.assert_close(found.vectors[video], vectors, atol=5e-4, rtol=1e-3)


def test_add_gives_what_one_machine_gives(
    cluster: Cluster, videos: Path, local: Path, model_folder: Path, tmp_path: Path
) -> None:
    """Also the long one, with the bits of the whole; and again, when there is nothing left to do."""
    states: list[AddProgress] = []
    with visil.Index(tmp_path / "new.visil", model=str(model_folder)) as index, visil.Index(local) as one:
        report = index.add(videos, progress=states.append, engine=over(cluster))
        assert (report.added, report.unchanged) == (8, 1)
        assert [os.path.basename(path) for path, _ in report.failed] == ["text.mp4"]
        assert (states[-1].files, states[-1].total) == (10, 10)
        assert states[-1].frames == sum(video.frames for video in index.catalogue.videos())
        same(content(index), content(one))
        long = index.video(str(videos / "long.mp4"))
        assert long.frames == 80
        whole = index.model.embed(videos / "long.mp4")  # its batches are those of the task
        assert torch.equal(index.store.read(long.id).vectors, whole.vectors.half())
        again = index.add(videos, engine=over(cluster))
        assert (again.added, again.unchanged, len(again.failed)) == (0, 9, 1)


DRIVER = """
import sys, time
import visil
from visil.cluster.ray_extraction import over
from visil.cluster.ray_session import ray_session
folder, model, address, videos = sys.argv[1:]
with ray_session(address) as cluster, visil.Index(folder, model=model) as index:
    index.add(videos, engine=over(cluster), progress=lambda state: time.sleep(0.2 * (state.path is not None)))
"""
"""Adds, slowly enough to be killed on the way."""


def test_a_driver_and_then_a_node_killed_on_the_way_lose_and_double_nothing(
    nodes: Nodes, cluster: Cluster, videos: Path, local: Path, model_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "new.visil"
    child = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), str(model_folder), nodes.address, str(videos)]
    )
    try:
        while child.poll() is None and len(list(folder.glob("features/??/[!.]*"))) < 2:
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    killed: list[int] = []

    def kill(state: AddProgress) -> None:
        if state.frames and not killed:
            killed.append(state.files)
            nodes.kill()

    with visil.Index(folder, model=str(model_folder)) as index, visil.Index(local) as one:
        before = len(index)
        assert 1 <= before < 8
        report = index.add(videos, progress=kill, engine=over(cluster))
        assert killed
        assert report.added == 8 - before
        same(content(index), content(one))
    nodes.keep_two()


def test_shards_answer_as_one_index_even_when_their_processes_die(
    cluster: Cluster, local: Path, tmp_path: Path
) -> None:
    create(tmp_path / "many", 2, source=local)
    with (
        visil.Index(local) as one,
        visil.Index(tmp_path / "many", connect=RayConnection) as many,
    ):
        connection = many.parts.connection
        assert isinstance(connection, RayConnection)
        names = [video.id for video in one.catalogue.videos()][:2]
        for name in names:
            assert [hit.to_dict() for hit in many.search(name)] == [hit.to_dict() for hit in one.search(name)]
        before = connection.processes
        assert len(set(before)) == 2
        os.kill(before[0], signal.SIGKILL)
        for name in names:
            assert [hit.to_dict() for hit in many.search(name)] == [hit.to_dict() for hit in one.search(name)]
        assert connection.processes[1:] == before[1:]  # those that lived stayed warm
        groups = one.duplicates(prove=False)
        assert groups
        for here, there in zip(groups, many.duplicates(prove=False), strict=True):
            assert (there.keep, there.notes) == (here.keep, here.notes)
            assert [video.id for video in there.videos] == [video.id for video in here.videos]
            for two, pair in zip(there.pairs, here.pairs, strict=True):
                assert (two.query, two.target, two.verdict) == (pair.query, pair.target, pair.verdict)
                assert two.confidence == pytest.approx(pair.confidence, abs=1e-4)  # other batches
    shutil.rmtree(tmp_path / "many" / "shard-001.visil")
    with pytest.raises(IndexFolderError, match="shard-001"):
        visil.Index(tmp_path / "many", connect=RayConnection)


@dataclass(frozen=True)
class Toy:
    """As much of a benchmark as scoring asks for."""

    truth: dict[str, list[str]]
    measures: frozenset[str] = frozenset({"scores"})

    @property
    def queries(self) -> list[str]:
        return list(self.truth)

    def candidates(self, query: str) -> list[str]:
        return self.truth[query]


def test_scores_of_a_cluster_are_those_of_one_machine(cluster: Cluster, local: Path) -> None:
    from ray import cloudpickle

    # Nodes do not have the tests.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with visil.Index(local) as index:
        known = {os.path.basename(video.path): video.id for video in index.catalogue.videos()}
        names = sorted(known)
        toy: Any = Toy({name: names[place % 3 :] for place, name in enumerate(names)})
        entries = {video.id: video for video in index.catalogue.videos()}
        expected = score_videos(
            index.model, lambda name: index.store.try_read(entries[known[name]]), names, toy.candidates
        ).predictions
        found = spread_scores(cluster, index, KnownVideos(toy, known)).predictions
    assert list(found.scores) == list(expected.scores)
    for name in names:
        assert list(found.scores[name].targets) == list(expected.scores[name].targets)
        np.testing.assert_array_equal(found.scores[name].values, expected.scores[name].values)


def test_actors_look_for_no_module_where_the_command_runs(cluster: Cluster) -> None:
    import ray

    found = ray.get(ray.remote(lambda: (os.getcwd(), sys.path)).remote())
    assert found[1]
    assert not {os.getcwd(), ""} & set(found[1])


def test_no_gpu_where_one_was_asked_for(cluster: Cluster) -> None:
    with (
        pytest.raises(
            ClusterError, match=r"1 GPUs an actor were asked for, but in the cluster .* it has none"
        ),
        ray_session(cluster.address, gpus=1.0),
    ):
        raise AssertionError


def test_a_file_that_only_the_driver_sees(
    cluster: Cluster, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from visil.cluster import ray_extraction
    from visil.cluster.ray_work import FoundFile

    monkeypatch.setattr(
        ray_extraction, "looked", lambda _: FoundFile(0, None, "does not exist", None, False, "10.0.0.7")
    )
    clip = write_video(tmp_path / "clip.mp4", moving_scene(1, 1, 6, (64, 96)), 6)
    with visil.Index(tmp_path / "new.visil", model=str(model_folder)) as index:
        with pytest.raises(ClusterError, match=r"the node 10\.0\.0\.7 of the cluster does not see this file"):
            index.add(clip, engine=over(cluster))
        assert len(index) == 0
        assert index.catalogue.failures() == []
