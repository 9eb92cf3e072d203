"""What it costs to look at key frames alone: ranking, verdicts and segments of a copy set, and processor time.

    python benchmarks/keyframe_sampling.py COPYSET WORK [--every 2 4] [--file VIDEO...]

The database is encoded again with a key frame every so many seconds (players and services ask for 2 to 4), and added
twice, as ``visil add`` and as ``visil add --sampling keyframes`` do. Every query, at a frame a second, is compared with
all of it. Seconds are this process's, to decode the database alone; of each ``--file``, those to decode and to embed an
hour of such video on one core, and the hours of it that one core takes in a day. Writes results/keyframe_sampling.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import av
import torch

import visil
from answers import HALVES, _judged, _queries, read_truth
from shared.answer_figures import figures
from shared.results import keep
from visil.collection.local_engine import Decode, decode_here, decode_keyframes
from visil.compare.repeats import Repeats
from visil.errors import FileError, VisilError

WAYS: Mapping[str, Decode] = {"a frame a second": decode_here, "key frames": decode_keyframes}


def encoded(source: Path, out: Path, every: float) -> None:
    """A video again, with a key frame every so many seconds and where scenes change, as encoders do."""
    if out.exists():
        return
    half = out.with_suffix(".part.mp4")
    with av.open(str(source)) as old, av.open(str(half), "w") as new:
        shown = old.streams.video[0]
        rate = shown.average_rate or 25
        stream = new.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = shown.width, shown.height, "yuv420p"
        stream.options = {"g": str(round(every * float(rate))), "crf": "23", "preset": "veryfast"}
        for frame in old.decode(shown):
            frame.pict_type = av.video.frame.PictureType.NONE
            new.mux(stream.encode(frame))
        new.mux(stream.encode())
    half.rename(out)


def seconds_to_decode(model: visil.ViSiL, files: list[Path], decode: Decode) -> float:
    """Processor time to read all samples."""
    start = time.process_time()
    for file in files:
        with decode(file, model.config.sampling) as stream:
            for _ in stream:
                pass
    return time.process_time() - start


def judged(
    model: visil.ViSiL, copyset: Path, work: Path, database: Path, decode: Decode, name: str
) -> dict[str, Any]:
    """The figures of both halves for a database that was read in one way."""
    truth = read_truth(copyset)
    with visil.Index(work / f"{name}.visil", model=model) as index:
        report = index.add(database, decode=decode)
        if report.failed:
            raise FileError(*report.failed[0])
        found = [
            _judged(query, Path(hit.path).name, hit)
            for query, seen in _queries(model, copyset, truth, work)
            for hit in index.search(seen, len(index), exhaustive=True)
        ]
    wanted = ("mAP", "segment F1")
    halves = {name: figures(truth, found, half) for half, name in HALVES.items()}
    return {half: {key: row[key] for key in wanted if key in row} for half, row in halves.items()}


def main() -> None:
    """Encode, add, judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("copyset", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--file", dest="files", type=Path, nargs="*", default=[], metavar="VIDEO")
    parser.add_argument("--every", type=float, nargs="+", default=[2.0, 4.0], metavar="SECONDS")
    args = parser.parse_args()
    try:
        found = _measured(args.copyset, args.work, args.every)
        torch.set_num_threads(1)
        keep("keyframe_sampling", found | {"one core": [one_core(file) for file in args.files]})
    except VisilError as error:
        sys.exit(f"error: {error}")


def one_core(file: Path) -> dict[str, Any]:
    """What an hour of such a video costs, in both ways."""
    model = visil.load()
    found: dict[str, Any] = {}
    for way, decode in WAYS.items():
        decoding, embedding, repeats = 0.0, 0.0, Repeats()
        start = time.process_time()
        with decode(file, model.config.sampling) as stream:
            for batch in stream:
                decoded = time.process_time()
                model.embed_frames(batch, repeats=repeats)
                embedded = time.process_time()
                decoding, embedding, start = (
                    decoding + decoded - start,
                    embedding + embedded - decoded,
                    embedded,
                )
            info, hours = stream.info, stream.duration / 3600
        both = (decoding + embedding) / hours
        found[way] = {
            "decode, s": round(decoding / hours, 1),
            "embed, s": round(embedding / hours, 1),
            "hours a day": round(86400 / both),
        }
    return {"video": f"{info.codec} {info.width}x{info.height}, {hours * 3600:.0f} s", **found}


def _measured(copyset: Path, work: Path, every: list[float]) -> dict[str, Any]:
    model = visil.load()
    found: dict[str, Any] = {"model": model.config.name, "set": copyset.name}
    for seconds in every:
        folder = work / f"key frames every {seconds:g} s"
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted((copyset / "database").iterdir()):
            encoded(source, folder / source.name, seconds)
        files = sorted(folder.iterdir())
        ways: dict[str, Any] = {}
        for way, decode in WAYS.items():
            name = f"{way}, {seconds:g}"
            ways[way] = judged(model, copyset, work, folder, decode, name)
            ways[way]["seconds to decode"] = round(min(map(partial(_timed, model, files), [decode] * 2)), 2)
        found[f"a key frame every {seconds:g} s"] = ways
    return found


def _timed(model: visil.ViSiL, files: list[Path], decode: Decode) -> float:
    return seconds_to_decode(model, files, decode)


if __name__ == "__main__":
    main()
