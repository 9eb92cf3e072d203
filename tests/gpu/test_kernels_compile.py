"""The kernels compile for real chips, and what they need fits into them: no GPU is needed to see that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_kernels_compile_and_fit(tmp_path: Path) -> None:
    script = Path(__file__).with_name("compiling.py")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, str(script)],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert len(found) == 14
    for kernel in found:
        assert kernel["shared"] <= kernel["memory"], kernel
