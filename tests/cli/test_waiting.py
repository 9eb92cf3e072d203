"""Threads wait asleep in our own commands, unless the user says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

COMMAND = """
import os, sys
from visil.cli import app, collection
app._root()
assert not {"numpy", "torch"} & set(sys.modules), "too late: they have read it"
print(os.environ["OMP_WAIT_POLICY"], os.environ["OPENBLAS_THREAD_TIMEOUT"])
"""


def test_set_before_anything_reads_it_and_only_where_nothing_is_said() -> None:
    mine = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    mine |= {"OPENBLAS_THREAD_TIMEOUT": "20"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], env=mine, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["PASSIVE", "20"]
