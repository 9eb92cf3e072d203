"""Lines in a map: all speeds in one pass find what each would find by itself."""

import numpy as np
import pytest
from numpy.typing import NDArray

from visil.matching.straight import HALF, SPEEDS, Relief, _at_speeds

TRIED = [(speed, way) for speed in SPEEDS for way in (1, -1)]


def plainly(value: NDArray[np.float32], speed: float, price: float) -> float:
    """What the best way down a map is worth, cell by cell: on any line of the speed, or on none."""
    if speed < 1:
        value, speed = value.T, 1 / speed
    rows, columns = value.shape
    lines = np.arange(-int(np.ceil(rows * speed)) * HALF, columns * HALF) / HALF
    off, on = 0.0, dict.fromkeys(lines, -np.inf)
    for row in range(rows):
        before = off
        for line in lines:
            place = int(np.rint(row * speed + line))
            gain = value[row, place] if 0 <= place < columns else -1.0
            on[line] = max(on[line], before - price) + gain
            off = max(off, on[line])
    return off


@pytest.mark.parametrize("seed", range(4))
def test_all_speeds_at_once_are_worth_what_each_is_by_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value = rng.choice([-1.0, -0.25, 0.5, 1.0], (9 + seed, 14 - seed), p=[0.5, 0.2, 0.2, 0.1])
    value = value.astype(np.float32)
    for (speed, way), runs in zip(TRIED, _at_speeds(value, TRIED, 1.0), strict=True):
        seen = value[:, ::way]
        assert sum(run.worth for run in runs) == pytest.approx(plainly(seen, speed, 1.0))
        for run in runs:
            assert seen[run.cells[:, 0], run.cells[:, 1]].sum() - 1.0 == pytest.approx(run.worth)


def test_a_copy_that_runs_backwards_at_half_the_speed_is_one_line() -> None:
    worth = np.full((12, 12), -1.0, np.float32)
    worth[np.arange(12), 8 - np.arange(12) // 2] = 1.0
    (run,) = Relief(worth, worth).runs()
    assert run.speed == -0.5
    assert len(run.cells) >= 6
