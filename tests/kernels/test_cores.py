"""How many cores a process may use, and who uses them."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest
import torch

from visil.kernels import cores
from visil.kernels.cores import on_all_cores, time_quota, usable_cores, using_cores


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
        monkeypatch.setattr(cores, "time_quota", lambda *_, quota=quota: quota)
        assert usable_cores() == expected
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == (os.cpu_count() or 1)


def test_cores_that_are_asked_for_are_used_whatever_torch_uses() -> None:
    meeting = threading.Barrier(3)

    def meet(_: int) -> None:
        meeting.wait(30)

    before = torch.get_num_threads()
    with using_cores(3):
        on_all_cores(meet, range(3), torch.device("cpu"))
        with using_cores(1):
            names: list[str] = []
            on_all_cores(
                lambda _: names.append(threading.current_thread().name), range(2), torch.device("cpu")
            )
    assert set(names) == {threading.current_thread().name}
    assert torch.get_num_threads() == before
