"""Two Ray nodes on this machine, for the benchmarks: each with processes and an object store of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOPBACK = "127.0.0.2"
"""127.0.0.1 would be taken for the machine's outward address."""

STORE_BYTES = 300_000_000


class TwoNodes:
    """A head and a second node, one CPU each."""

    def __init__(self, folder: str) -> None:
        from ray.cluster_utils import Cluster

        quick = {
            "health_check_initial_delay_ms": 0,
            "health_check_period_ms": 1000,
            "health_check_failure_threshold": 5,
        }
        self._made = Cluster(
            initialize_head=True,
            head_node_args={
                **self._settings(),
                "include_dashboard": False,
                "_system_config": quick,
                "temp_dir": folder,
            },
        )
        self._second: Any = self._made.add_node(**self._settings())
        self.address = str(self._made.address)

    def _settings(self) -> dict[str, Any]:
        return {"num_cpus": 1, "object_store_memory": STORE_BYTES, "node_ip_address": LOOPBACK}

    def kill_second(self) -> None:
        """End the second node's processes without warning."""
        self._made.remove_node(self._second, allow_graceful=False)

    def close(self) -> None:
        """End both."""
        self._made.shutdown()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    """Starts them, with a token that only their processes and this one know, and ends them."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }
    folder = tempfile.mkdtemp(prefix="vr", dir="/tmp")  # short: the paths of sockets below it are limited
    nodes = TwoNodes(folder)
    try:
        yield nodes
    finally:
        nodes.close()
        shutil.rmtree(folder, ignore_errors=True)
