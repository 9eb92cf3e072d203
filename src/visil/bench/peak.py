"""``python -m visil.bench.peak FRAMES ours|plain``: megabytes that scoring one pair takes beyond its features."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import torch

from visil.bench.cpu import plain_score, vectors
from visil.compare.many_scores import matrix_scores
from visil.model.comparator import Comparator


def largest() -> int:
    """The largest size so far, in KB; Linux's own figure, since ``ru_maxrss`` begins with the parent's."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak(length: int, how: str) -> float:
    """Growth of this process's largest size, in MB; once a small pair has loaded the libraries."""
    comparator = Comparator().eval()

    def score(frames: int) -> int:
        query, target = vectors(frames, 9, 512, 0).float(), vectors(frames, 9, 512, 1)
        before = largest()
        with torch.inference_mode():
            if how == "plain":
                plain_score(query, target, False, "mean", comparator)
            else:
                matrix_scores(query, [target], comparator=comparator, precision="auto")
        return largest() - before

    score(8)
    return score(length) / 1024


if __name__ == "__main__":
    print(peak(int(sys.argv[1]), sys.argv[2]))
