"""Peak memory and processor time of the commands on long and strange files: three hours at a frame a second, frames of
15,000 x 8,000 pixels, and a small file of pictures that are held for hours.

python benchmarks/strange_files.py                  # makes the files, then runs the commands
python benchmarks/strange_files.py --seconds 600    # a shorter long one
python benchmarks/strange_files.py --workers 1      # in one process
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.video.stream import VideoStream

from shared.results import keep
from visil.bench.end_to_end import memory_of
from visil.video import Image

LOOK_S = 0.1
"""Seconds between two looks at the memory of a command's processes."""


def write(path: Path, pictures: Iterable[Image], size: tuple[int, int], seconds: float) -> Path:
    """Pictures of one size, each shown for so many seconds."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=1, options={"preset": "ultrafast", "crf": "30"})
        assert isinstance(stream, VideoStream)
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = round(1000 * number * seconds), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def changing(count: int, size: tuple[int, int]) -> Iterable[Image]:
    """Pictures of which no two are the same."""
    cells = np.random.default_rng(0).integers(0, 256, (9, 16, 3), dtype=np.uint8)
    rows, columns = np.arange(size[1]) * 9 // size[1], np.arange(size[0]) * 16 // size[0]
    plain = cells[rows][:, columns]
    for number in range(count):
        picture = np.roll(plain, 3 * number, axis=0)
        left = 5 * number % (size[0] - 40)
        picture[:, left : left + 40] = number % 256
        yield picture


def measured(*arguments: str | os.PathLike[str]) -> dict[str, float]:
    """What a command takes at its peak, all of its processes together, and in processor time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [sys.executable, "-m", "visil", *(os.fspath(argument) for argument in arguments)]
    command = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    most = 0.0
    while command.poll() is None:
        most = max(most, memory_of(command.pid))
        time.sleep(LOOK_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if command.returncode:
        raise SystemExit(f"{' '.join(words)} ended with status {command.returncode}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "peak MiB": most * 1e6 / 2**20,
        "CPU s": used,
        "s": time.perf_counter() - started,
    }


def main() -> None:
    """Make the files, run the commands, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=3 * 3600, help="length of the long file")
    parser.add_argument("--workers", help="as of `visil add`; the result is printed, and not kept")
    options = parser.parse_args()
    seconds, workers = options.seconds, ["--workers", options.workers] if options.workers else []
    result: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "held": write(folder / "held.mkv", changing(4, (320, 240)), (320, 240), 3000),
            "large": write(folder / "large.mkv", changing(4, (15000, 8000)), (15000, 8000), 1),
            "long": write(folder / "long.mkv", changing(seconds, (640, 360)), (640, 360), 1),
        }
        for kind, file in files.items():
            known = {"file kB": file.stat().st_size / 1000}
            result[f"add, {kind}"] = known | measured("add", folder / f"{kind}.visil", file, *workers)
            print(kind, result[f"add, {kind}"], flush=True)
        others = {
            "large": write(folder / "other.mkv", changing(3, (15000, 8000)), (15000, 8000), 1),
            "long": write(folder / "longer.mkv", changing(seconds + 60, (480, 270)), (480, 270), 1),
        }
        for kind, other in others.items():
            result[f"compare, {kind}"] = measured("compare", files[kind], other)
            print("compare", kind, result[f"compare, {kind}"], flush=True)
    if not workers:
        keep("strange_files", {"seconds of the long file": seconds, **result})


if __name__ == "__main__":
    main()
