"""Joining a Ray cluster, or starting one on this machine: faults are found here, before any work."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from visil.errors import UsageError, VisilError, require_extra
from visil.machine.processes import NEUTRAL

logger = logging.getLogger("visil")

LOCAL = "local"
"""The address that starts a cluster of this machine alone, and ends it with the command."""

CONNECT_SECONDS = 5.0
"""How long the cluster's port may take to answer."""

# Ray speaks gRPC, which begins so. Ray itself would try for minutes to make sense of anything else.
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
HTTP2_SETTINGS = 4

NODE_SECONDS = 90.0
"""How long a node may take to start a process and say which versions it has."""

LOCAL_STORE_BYTES = 1 << 29
"""Shared memory of a cluster that was started here."""


class ClusterError(VisilError):
    """A cluster cannot be reached or used; earlier work is safe."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process has joined."""

    address: str
    cpus: int
    gpus: float
    nodes: tuple[str, ...]
    """Ids of the nodes that were alive."""

    def actors(self, workers: int | None, gpus_per_actor: float) -> int:
        """How many embedding actors there are to be: one for each share of a GPU, else one for each CPU used."""
        if gpus_per_actor > 0:
            return max(1, int(self.gpus / gpus_per_actor))
        return workers or self.cpus


def require_ray(what: str = "--ray") -> None:
    """Say how to install Ray where it is not."""
    require_extra(what, "ray", "ray", "pyarrow", "pandas")


@contextmanager
def ray_session(address: str, *, workers: int | None = None, gpus: float = 0.0) -> Iterator[Cluster]:
    """Join the cluster at ``address`` ("host:port", "auto", or "local" to start one), and leave it at the end.

    ``gpus`` is the share of a GPU that each actor is to have, 0 for none; ``workers`` is how many CPUs a local one
    has. A process that is in a cluster already stays in it. Nothing about its use is sent anywhere.
    """
    require_ray()
    if gpus < 0:
        raise UsageError(f"an actor cannot have {gpus:g} GPUs")
    if address == LOCAL:
        _make_token()
    ray = _imported()
    if ray.is_initialized():
        yield _checked(ray, address, gpus)
        return
    if address != LOCAL:
        check_address(address)
        _join(ray, address)
        try:
            yield _checked(ray, address, gpus)
        finally:
            ray.shutdown()
        return
    # A short name: the paths of sockets below it may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="visil-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        _start(ray, folder, workers)
        try:
            yield _checked(ray, address, gpus)
        finally:
            ray.shutdown()


def _make_token() -> None:
    """A token for a cluster started here, known to its own processes alone.

    Left to itself, Ray writes one into the home folder. Whoever has said how to authenticate is obeyed.
    """
    if "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:  # Ray looks once, when it is imported
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


def _imported() -> Any:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "5")  # tries to join, a second or more each
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it would report each repair on standard error
    import ray
    import ray.data

    _hush()
    return ray


def _hush() -> None:
    """Keep Ray's reports of faults that it mends by itself off standard output, where results are printed."""
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    import ray._private.worker as worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = _to_log


def _to_log(data: dict[str, Any], *_: object, **__: object) -> None:
    for line in data.get("lines", []):
        logger.debug("ray: %s", line)


def check_address(address: str) -> None:
    """A :class:`ClusterError` where nothing answers at an address, before Ray waits for it."""
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not host or not port.isdigit():
        raise UsageError(
            f"{address!r} is no address of a Ray cluster: give host:port (as `ray start --head` prints it), "
            "auto, or local"
        )
    _check_answer(address, host.strip("[]"), int(port))
    if host in ("localhost", "127.0.0.1", "[::1]"):
        # Ray itself takes these for the machine's outward address, and would look there for minutes.
        import ray.util

        outward = str(ray.util.get_node_ip_address())
        _check_answer(f"{outward}:{port}, which is what Ray makes of {address}", outward, int(port))


def _check_answer(named: str, host: str, port: int) -> None:
    """Something that speaks gRPC must answer, and soon."""
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as link:
            link.sendall(HTTP2_HELLO)
            answer = link.recv(9)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error) or "no answer").lower()
        raise ClusterError(f"no Ray cluster answers at {named} ({reason})") from error
    if len(answer) < 4 or answer[3] != HTTP2_SETTINGS:
        raise ClusterError(f"no Ray cluster answers at {named} (something else listens there)")


def _join(ray: Any, address: str) -> None:
    try:
        with _no_chatter(), chdir(NEUTRAL):  # Ray's processes look for modules where it is started
            ray.init(address=address, **_QUIET)
    except Exception as error:
        raise ClusterError(why_not_joined(address, error)) from error


def why_not_joined(address: str, error: Exception) -> str:
    """Ray's failure, in a line."""
    text = " ".join(str(error).split())
    if "ersion mismatch" in text:
        return f"the Ray cluster at {address} has other versions than this machine: {_versions(text)}"
    if address == "auto" or "node_ip_address" in text or "Can't find" in text:
        return (
            f"no Ray node runs on this machine that belongs to {address}: start one with "
            "`ray start --address=HOST:PORT`, or run this where one does"
        )
    if "Failed to connect" in text or "uthenticat" in text:
        return (
            f"the Ray cluster at {address} does not let this process in: if it asks for a token, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as on its nodes"
        )
    return f"the Ray cluster at {address} cannot be joined ({text[:200] or type(error).__name__})"


def _versions(text: str) -> str:
    start = text.find("The cluster was started with")
    return (text[start:] if start >= 0 else text)[:240]


def _start(ray: Any, folder: str, workers: int | None) -> None:
    from visil.machine.processor import usable_cores

    try:
        with _no_chatter(), chdir(NEUTRAL):  # Ray's processes look for modules where it is started
            ray.init(
                address="local",
                num_cpus=workers or usable_cores(),
                object_store_memory=LOCAL_STORE_BYTES,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                _temp_dir=folder,
                **_QUIET,
            )
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise ClusterError(f"no Ray cluster could be started on this machine ({reason})") from error


@contextmanager
def _no_chatter() -> Iterator[None]:
    """Ray's native part greets on standard error, past Python; what goes wrong there is raised as well."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


_QUIET: dict[str, Any] = {
    "log_to_driver": False,
    "logging_level": logging.ERROR,
    "configure_logging": False,
}


def _checked(ray: Any, address: str, gpus: float) -> Cluster:
    """The cluster, once each node has said that it can do the work."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    total = ray.cluster_resources()
    cluster = Cluster(
        address,
        max(1, int(total.get("CPU", 0))),
        float(total.get("GPU", 0)),
        tuple(node["NodeID"] for node in alive),
    )
    most = max((float(node["Resources"].get("GPU", 0)) for node in alive), default=0.0)
    if gpus > most:
        there = f"none of its nodes has more than {most:g}" if most else "it has none"
        raise ClusterError(f"{gpus:g} GPUs an actor were asked for, but in the cluster {address} {there}")
    _check_nodes(ray, address, alive, gpus)
    return cluster


def _check_nodes(ray: Any, address: str, nodes: list[dict[str, Any]], gpus: float) -> None:
    """Each node must have this visil; other versions of what decodes and computes are worth a warning."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = {}
    for node in nodes:
        with_gpu = gpus if float(node["Resources"].get("GPU", 0)) >= gpus else 0.0
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(facts).options(
            num_cpus=0, num_gpus=with_gpu, scheduling_strategy=there, max_retries=0
        )
        asked[task.remote(with_gpu > 0)] = node["NodeManagerAddress"]
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=NODE_SECONDS)
    if late:
        raise ClusterError(
            f"the node {asked[late[0]]} of the cluster {address} starts no process within {NODE_SECONDS:g} s"
        )
    for answer in ready:
        try:
            theirs = ray.get(answer)
        except Exception as error:
            reason = str(error).strip().splitlines()[-1][:200]
            raise ClusterError(
                f"the node {asked[answer]} of the cluster {address} cannot run visil: {reason}"
            ) from error
        wrong, warning = mismatch(facts(False), theirs)
        if wrong is not None:
            raise ClusterError(f"the node {asked[answer]} of the cluster {address} {wrong}")
        if warning is not None:
            logger.warning("the node %s of the cluster %s %s", asked[answer], address, warning)


@dataclass(frozen=True)
class NodeFacts:
    """Versions by package, as installed."""

    visil: str
    torch: str
    av: str
    cuda: bool | None
    """Whether torch sees a GPU; None where nobody asked."""


def facts(look_for_gpu: bool) -> NodeFacts:
    """Of this machine. Looking for a GPU imports torch, which takes seconds."""
    cuda = None
    if look_for_gpu:
        import torch

        cuda = torch.cuda.is_available()
    return NodeFacts(_version("visil"), _version("torch"), _version("av"), cuda)


def mismatch(here: NodeFacts, there: NodeFacts) -> tuple[str | None, str | None]:
    """Why a node cannot be used, and what may make its features differ; None where nothing does."""
    if there.visil != here.visil:
        return f"has visil {there.visil}, and this machine {here.visil}: install the same", None
    if there.cuda is False:
        return "has a GPU that its torch cannot use: install torch for CUDA there", None
    ours, theirs = asdict(here), asdict(there)
    other = [name for name in ("torch", "av") if ours[name] != theirs[name]]
    if not other:
        return None, None
    named = ", ".join(f"{name} {theirs[name]} (here {ours[name]})" for name in other)
    return None, f"has other versions: {named}; its features may differ in their last bits"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
