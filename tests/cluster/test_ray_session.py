"""What can be wrong with a cluster is one line, and soon; none of it needs a cluster, and most of it no Ray."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from visil.cluster import ray_session as session
from visil.cluster.ray_session import NodeFacts, facts, mismatch
from visil.errors import UsageError
from visil.machine import processes

HERE = NodeFacts("1.0", "2.6", "17.0", None)

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'visil[ray]'"
)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("ray", "pyarrow") else real(name)
    )
    with pytest.raises(UsageError, match=r"needs ray and pyarrow.*pip install 'visil\[ray\]'"):
        session.require_ray()


@pytest.mark.parametrize("address", ["ray://host:10001", "host", "host:", ":6379", "host:port", ""])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a Ray cluster"):
        session.check_address(address)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.2", 0)) as made:
        yield made


def test_nobody_listens(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    listener.close()
    with pytest.raises(session.ClusterError, match=f"no Ray cluster answers at 127.0.0.2:{port}"):
        session.check_address(f"127.0.0.2:{port}")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", None])
def test_something_else_listens(
    listener: socket.socket, answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another protocol, one that hangs up, and one that never says a word."""
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.3)
    done = threading.Event()

    def serve() -> None:
        link, _ = listener.accept()
        with link:
            link.recv(1024)
            if answer is None:
                done.wait(5)
            else:
                link.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with pytest.raises(session.ClusterError, match="no Ray cluster answers at"):
            session.check_address(f"127.0.0.2:{listener.getsockname()[1]}")
    finally:
        done.set()
        thread.join()


def test_versions_that_differ() -> None:
    assert mismatch(HERE, HERE) == (None, None)
    wrong, _ = mismatch(HERE, replace(HERE, visil="0.9"))
    assert wrong == "has visil 0.9, and this machine 1.0: install the same"
    wrong, _ = mismatch(HERE, replace(HERE, cuda=False))
    assert wrong is not None
    assert "its torch cannot use" in wrong
    wrong, warning = mismatch(HERE, replace(HERE, av="16.0", cuda=True))
    assert wrong is None
    assert warning is not None
    assert "av 16.0 (here 17.0)" in warning


def test_the_facts_of_this_machine() -> None:
    found = facts(False)
    # torch itself may add a build to its version: 2.13.0+cu130
    assert (found.visil, found.torch, found.cuda) == (version("visil"), version("torch"), None)


def test_a_version_of_ray_that_differs_is_named() -> None:
    error = RuntimeError(
        "Version mismatch: The cluster was started with:\n    Ray: 2.1\n    Python: 3.9.1\n"
        "This process on node 10.0.0.1 was started with:\n    Ray: 2.60\n    Python: 3.11.7\n"
    )
    line = session.why_not_joined("10.0.0.1:6379", error)
    assert "\n" not in line
    assert "has other versions than this machine: The cluster was started with: Ray: 2.1" in line


def test_actors_for_each_share_of_a_gpu_or_each_cpu() -> None:
    cluster = session.Cluster("auto", 16, 3.0, ("a", "b"))
    assert cluster.actors(None, 0.0) == 16
    assert cluster.actors(4, 0.0) == 4
    assert cluster.actors(4, 0.5) == 6
    assert cluster.actors(4, 2.0) == 1


@needs_ray
def test_a_cluster_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "new.visil"
    words = ("add", str(folder), str(tmp_path), "--ray", "127.0.0.2:9")
    command = processes.python("-m", "visil.__main__", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("visil: no Ray cluster answers at 127.0.0.2:9 (")
    assert done.stderr.count("\n") == 1
    assert not folder.exists()
