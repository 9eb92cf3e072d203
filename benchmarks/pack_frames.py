"""Make the packs that choose_default.py reads: every clip of a folder at 1 fps, and edited copies of some.

    python benchmarks/pack_frames.py VIDEOS PACKS [--queries 100]

A pack is one file of JPEG bytes with an index, small enough to carry to another machine.
"""

from __future__ import annotations

import argparse
import io
import random
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from PIL import Image

import visil
from shared.edits import EDITS, read_clip, write_clip
from shared.packs import write_packs
from visil.errors import VideoError
from visil.video import Sampling, is_video_path, read_frames


def jpegs(path: Path, sampling: Sampling, quality: int = 88) -> list[bytes]:
    """A video's frames as the model samples them, each a JPEG."""
    encoded = []
    for image in read_frames(path, sampling).images:
        buffer = io.BytesIO()
        Image.fromarray(image).save(buffer, "JPEG", quality=quality)
        encoded.append(buffer.getvalue())
    return encoded


def edited(job: tuple[Path, str, str, bool, Sampling]) -> tuple[str, list[bytes]]:
    """One edited copy of one clip: (name, frames)."""
    path, clip_id, kind, heavy, sampling = job
    strength = "heavy" if heavy else "mild"
    rng = random.Random(f"{clip_id}/{kind}/{strength}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.mp4"
        write_clip(EDITS[kind](read_clip(path), rng, heavy), copy)
        return f"{clip_id}|{kind}|{strength}", jpegs(copy, sampling)


def main() -> None:
    """Write the packs of originals and of copies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--model", help="whose sampling is followed")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    sampling = visil.load(args.model).config.sampling
    args.packs.mkdir(parents=True, exist_ok=True)
    paths = sorted(p for p in args.videos.rglob("*") if is_video_path(p))
    ids = {p: p.relative_to(args.videos).with_suffix("").as_posix() for p in paths}
    originals = []
    for path in paths:
        try:
            originals.append((ids[path], jpegs(path, sampling)))
        except VideoError as error:
            print(f"left out: {error}")
    write_packs(args.packs, "originals", originals)
    chosen = random.Random(0).sample(paths, args.queries)
    jobs = [
        (path, ids[path], kind, heavy, sampling)
        for path in chosen
        for kind in EDITS
        for heavy in (False, True)
    ]
    with ProcessPoolExecutor(args.workers) as pool:
        copies = list(pool.map(edited, jobs, chunksize=4))
    write_packs(args.packs, "copies", copies)


if __name__ == "__main__":
    main()
