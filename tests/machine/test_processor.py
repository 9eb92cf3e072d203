"""How many cores this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from visil.machine import processor
from visil.machine.processor import time_quota, usable_cores


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "250000 100000\n", "a/cpu.max": "max 100000\n"}, 2.5),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3.0),
        ("0::/\n", {}, math.inf),
        (
            "4:cpu,cpuacct:/box\n3:memory:/box\n",
            {"cpu/box/cpu.cfs_quota_us": "150000\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            1.5,
        ),
        (
            "4:cpu,cpuacct:/box\n",
            {"cpu/box/cpu.cfs_quota_us": "-1\n", "cpu/box/cpu.cfs_period_us": "100000\n"},
            math.inf,
        ),
        ("nonsense\n", {}, math.inf),
    ],
)
def test_what_control_groups_leave(
    tmp_path: Path, groups: str, files: dict[str, str], expected: float
) -> None:
    write(tmp_path / "cgroup", groups)
    for name, text in files.items():
        write(tmp_path / "sys" / name, text)
    assert time_quota(tmp_path / "cgroup", tmp_path / "sys") == expected
    assert time_quota(tmp_path / "none", tmp_path / "sys") == math.inf


def test_part_of_a_core_is_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    for quota, expected in ((math.inf, 8), (2.5, 3), (0.2, 1)):
        monkeypatch.setattr(processor, "time_quota", lambda *_, quota=quota: quota)
        assert usable_cores() == expected
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == (os.cpu_count() or 1)
