"""MPEG-7 video signature: computed and compared by ffmpeg's filter ``signature``, whose log is read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from peer import Scores, Video

BATCH = 135
WHOLE = 1e6
MATCH = re.compile(r"matching of video (\d+) at [-\d.]+ and (\d+) at [-\d.]+, (\d+) frames matching")
NONE = re.compile(r"no matching of video (\d+) and (\d+)")


class Mpeg7:
    """Frames in the matching sequence; a match of the whole video is above all others, none at all is 0."""

    packages = ()
    note = (
        "detectmode=full, other settings as they come; score: frames matched, plus a million for a whole match. "
        f"All pairs; {BATCH} queries share a run with the whole database"
    )

    def describe(self, video: Video) -> Path:
        """The file: the filter reads it itself."""
        return video.path

    def compare(self, queries: Mapping[str, Path], targets: Mapping[str, Path]) -> dict[str, Scores]:
        """One variant."""
        scores: Scores = {}
        names = list(queries)
        for first in range(0, len(names), BATCH):
            batch = {name: queries[name] for name in names[first : first + BATCH]}
            scores |= together(batch, targets)
        return {"mpeg7-signature": scores}


def version() -> str:
    """The ffmpeg on the path."""
    done = subprocess.run(["ffmpeg", "-version"], capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[0].split(" Copyright")[0]


def together(queries: Mapping[str, Path], targets: Mapping[str, Path]) -> Scores:
    """One run of ffmpeg over many files; the filter compares every two of its inputs."""
    names = [*queries, *targets]
    files = [*queries.values(), *targets.values()]
    inputs = [word for file in files for word in ("-threads", "1", "-i", str(file))]
    pads = "".join(f"[{i}:v]" for i in range(len(files)))
    command = ["ffmpeg", "-hide_banner", "-nostdin", "-nostats", *inputs, "-filter_complex"]
    command += [
        f"{pads}signature=nb_inputs={len(files)}:detectmode=full[out]",
        "-map",
        "[out]",
        "-f",
        "null",
        "-",
    ]
    log = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stderr
    return read_log(log, names, len(queries))


def read_log(log: str, names: list[str], queries: int) -> Scores:
    """Scores of the pairs of a query (the first inputs) and a target; every pair must have its line."""
    scores: Scores = {name: {} for name in names[:queries]}
    last: tuple[str, str] | None = None
    for line in log.splitlines():
        if found := NONE.search(line) or MATCH.search(line):
            a, b = int(found[1]), int(found[2])
            last = (names[a], names[b]) if a < queries <= b else None
            if last:
                frames = float(found[3]) if found.re is MATCH else 0.0
                scores[last[0]][last[1]] = max(frames, scores[last[0]].get(last[1], 0.0))
        elif "whole video matching" in line and last:
            scores[last[0]][last[1]] += WHOLE
    missing = sum(len(names) - queries - len(row) for row in scores.values())
    if missing:
        raise RuntimeError(
            f"ffmpeg's signature filter left out {missing} pairs; version 5.1 reports them all"
        )
    return scores
