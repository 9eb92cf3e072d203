"""Our clips as data sets in the layouts of those that the paper learns from and is judged on: VCDB, and FIVR.

    python benchmarks/joined_clips.py DATA OUT [--topics 12] [--videos 120]

Clips are a few seconds long, so they are joined: one to four on end are a scene of 8 to 20 s, several scenes a video. A
scene is in several videos, cut and edited anew in each, and that is the truth:

- OUT/vcdb/core_dataset/TOPIC/*.mp4, OUT/vcdb/background_dataset/*.mp4 and OUT/vcdb/annotation/TOPIC.txt: a topic has 36
  scenes and 16 videos of seven; videos of two topics share nothing.
- OUT/fivr/videos/*.mp4, OUT/fivr/annotation.json and OUT/fivr/ids.json: every video draws seven scenes from all of them
  and is a query, too; those that share one with it are its duplicates ("DS").

No scene is in both sets. But both have scenes of every source (the first half of each is learned from, the second is to
be found) and edits of every strength (mild, the paper's or heavy, a third each), as VCDB and FIVR both have videos of
all kinds from one site. ``--apart`` keeps the sources of validation and test out of the first, ``--learn-edits mild
paper`` the heavy edits. Two videos of a topic share one or two scenes, as those to be found do.

Pictures are 256 px square, two a second. The same DATA, seed and numbers give the same footage.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from shared.footage_split import Split, items
from visil.edits.clips import Heavy, Mild, PaperPositive
from visil.machine.processor import usable_cores
from visil.video import Sampling, probe, stream_frames
from visil.video.writer import write_video

FPS = 2
SIDE = 256
READ_FPS = 8
"""Frames a second that clips are read at: two copies of a scene seldom show the same ones."""
SCENE_SECONDS = (8.0, 20.0)
TOPIC = (36, 16, 7)
"""Scenes of a topic, its videos, and the scenes of each."""
FOUND_SCENES = 7
"""Scenes of a video to be found."""
KEPT = (0.7, 1.0)
"""Share of a scene that a video shows."""
EDITS = {"mild": Mild, "paper": PaperPositive, "heavy": Heavy}


@dataclass(frozen=True)
class Part:
    """A scene as one video shows it."""

    scene: int
    edit: str
    start: float
    """Where in the scene it begins, as a share of it."""
    share: float
    seed: int


@dataclass(frozen=True)
class Placed:
    """From when to when a video shows which stretch of a scene, in seconds."""

    scene: int
    shown: tuple[float, float]
    video: tuple[float, float]


def scenes_of(data: Path, split: Split) -> list[list[list[Path]]]:
    """Clips on end, as many as make a scene: the scenes of each source."""
    sources: dict[str, list[list[Path]]] = {}
    for item in items(data, "videos", split):
        if item.source not in sources:
            sources[item.source], waiting, seconds = [], [], 0.0
        waiting.append(data / item.file)
        seconds += probe(data / item.file).duration or 0.0
        if seconds >= SCENE_SECONDS[0]:
            sources[item.source].append(waiting)
            waiting, seconds = [], 0.0
    return list(sources.values())


def divided(data: Path, apart: bool) -> tuple[list[list[Path]], list[list[Path]]]:
    """Scenes to learn from, and scenes to be found: half of every source, or whole sources."""
    learned, found = scenes_of(data, "train"), scenes_of(data, "validation") + scenes_of(data, "test")
    if not apart:
        both = learned + found
        learned = [own[: (len(own) + 1) // 2] for own in both]
        found = [own[(len(own) + 1) // 2 :] for own in both]
    return [scene for own in learned for scene in own], [scene for own in found for scene in own]


def parts_of(scenes: Sequence[int], edits: Sequence[str], rng: np.random.Generator) -> list[Part]:
    """Scenes for a video, each cut and edited in its own way."""
    parts = []
    for scene in scenes:
        share = float(rng.uniform(*KEPT))
        edit = edits[int(rng.integers(len(edits)))]
        parts.append(Part(scene, edit, float(rng.uniform(0, 1 - share)), share, int(rng.integers(1 << 31))))
    return parts


def read_scene(files: Sequence[Path]) -> Tensor:
    """Its pictures, uint8 [T, H, W, 3], eight a second."""
    pictures: list[NDArray[np.uint8]] = []
    for file in files:
        with stream_frames(file, Sampling(fps=READ_FPS, resize=SIDE, crop=SIDE)) as stream:
            pictures += [np.array(batch.images) for batch in stream]
    return torch.from_numpy(np.concatenate(pictures)[: round(SCENE_SECONDS[1] * READ_FPS)])


def make_video(work: tuple[Path, list[Part]], scenes: Sequence[Sequence[Path]]) -> list[Placed]:
    """Write a video of some scenes; what it shows when."""
    path, parts = work
    step = READ_FPS // FPS
    shown: list[Placed] = []
    clips: list[Tensor] = []
    at = 0.0
    for part in parts:
        whole = read_scene(scenes[part.scene])
        count = max(step, int(part.share * len(whole)) // step * step)
        first = min(int(part.start * len(whole)), len(whole) - count)
        pixels = whole[first : first + count : step].permute(0, 3, 1, 2)[None].float() / 255
        changed = EDITS[part.edit]()(pixels, [part.seed])[0].clamp(0, 1)
        clips.append((changed * 255).round().to(torch.uint8).permute(0, 2, 3, 1))
        span = (first / READ_FPS, (first + count) / READ_FPS)
        shown.append(Placed(part.scene, span, (at, at + span[1] - span[0])))
        at += span[1] - span[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, iter(torch.cat(clips).contiguous().numpy()), FPS, crf=26, threads=1)
    return shown


def shared_stretches(
    one: Sequence[Placed], other: Sequence[Placed]
) -> list[tuple[float, float, float, float]]:
    """Stretches that two videos have in common: from and to in one, from and to in the other."""
    found = []
    for a in one:
        for b in other:
            begin, end = max(a.shown[0], b.shown[0]), min(a.shown[1], b.shown[1])
            if a.scene == b.scene and end - begin >= 1:
                found.append(tuple(p.video[0] + when - p.shown[0] for p in (a, b) for when in (begin, end)))
    return [(a, b, c, d) for a, b, c, d in found]


def clock(seconds: float) -> str:
    """As VCDB's annotation has it, whole seconds."""
    whole = round(seconds)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"


def make_all(
    videos: dict[Path, list[Part]], scenes: Sequence[Sequence[Path]], workers: int
) -> dict[Path, list[Placed]]:
    """Write all videos; what each shows when."""
    with ProcessPoolExecutor(workers, initializer=partial(torch.set_num_threads, 1)) as pool:
        made = pool.map(partial(make_video, scenes=scenes), list(videos.items()))
        return dict(zip(videos, made, strict=True))


def small_vcdb(
    scenes: Sequence[Sequence[Path]],
    out: Path,
    topics: int,
    topic_size: Sequence[int],
    edits: Sequence[str],
    seed: int,
    workers: int,
) -> int:
    """Videos to learn from in VCDB's layout; how many."""
    topic_scenes, topic_videos, each = topic_size
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(len(scenes)).tolist()
    topics = min(topics, len(scenes) // topic_scenes)
    videos: dict[Path, list[Part]] = {}
    members: list[list[Path]] = []
    for topic in range(topics):
        own = order[topic * topic_scenes : (topic + 1) * topic_scenes]
        members.append(
            [out / f"core_dataset/topic{topic:02}/t{topic:02}v{n}.mp4" for n in range(topic_videos)]
        )
        for path in members[-1]:
            videos[path] = parts_of(rng.choice(own, each, replace=False).tolist(), edits, rng)
    rest = order[topics * topic_scenes :]
    for first in range(0, len(rest) - each + 1, each):
        path = out / f"background_dataset/b{first:03}.mp4"
        videos[path] = parts_of(rest[first : first + each], ("mild",), rng)
    shown = make_all(videos, scenes, workers)
    (out / "annotation").mkdir(exist_ok=True)
    for topic, paths in enumerate(members):
        lines = [
            ",".join((a.name, b.name, *map(clock, stretch)))
            for place, a in enumerate(paths)
            for b in paths[place + 1 :]
            for stretch in shared_stretches(shown[a], shown[b])
        ]
        (out / "annotation" / f"topic{topic:02}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return len(videos)


def small_fivr(scenes: Sequence[Sequence[Path]], out: Path, count: int, seed: int, workers: int) -> int:
    """Videos to be found in FIVR's layout, each of them a query; how many pairs of duplicates there are."""
    rng = np.random.default_rng([seed, 1])
    paths = [out / "videos" / f"v{number:04}.mp4" for number in range(count)]
    videos = {
        path: parts_of(rng.choice(len(scenes), FOUND_SCENES, replace=False).tolist(), tuple(EDITS), rng)
        for path in paths
    }
    shown = make_all(videos, scenes, workers)
    labels = {
        query.stem: {"DS": [p.stem for p in paths if p != query and shared_stretches(shown[query], shown[p])]}
        for query in paths
    }
    (out / "annotation.json").write_text(json.dumps(labels), "utf-8")
    ids = {"query": list(labels), "database": [path.stem for path in paths]}
    (out / "ids.json").write_text(json.dumps(ids), "utf-8")
    return sum(len(one["DS"]) for one in labels.values()) // 2


def main() -> None:
    """Make both."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="the folder that holds videos/")
    parser.add_argument("out", type=Path)
    parser.add_argument("--videos", type=int, default=120, help="of the small FIVR")
    parser.add_argument("--topics", type=int, default=12, help="of the small VCDB")
    parser.add_argument(
        "--topic", type=int, nargs=3, default=TOPIC, metavar=("SCENES", "VIDEOS", "EACH"), help="its size"
    )
    parser.add_argument("--apart", action="store_true", help="no source is in both")
    parser.add_argument("--learn-edits", nargs="+", choices=EDITS, default=tuple(EDITS), metavar="EDIT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=usable_cores())
    args = parser.parse_args()
    to_learn, to_find = divided(args.data, args.apart)
    learned = small_vcdb(
        to_learn, args.out / "vcdb", args.topics, args.topic, args.learn_edits, args.seed, args.workers
    )
    pairs = small_fivr(to_find, args.out / "fivr", args.videos, args.seed, args.workers)
    print(
        f"{args.out}: {learned} videos to learn from; {args.videos} to be found, {pairs} pairs of duplicates"
    )


if __name__ == "__main__":
    main()
