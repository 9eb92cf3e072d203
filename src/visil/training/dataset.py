"""The data that a run learns from and is judged by: footage split in two, and a sampler over mined pools."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from visil.collection.discover import discover
from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.files import make_folder, replacing
from visil.progress import Counted
from visil.training.cached_footage import CachedFootage
from visil.training.config import DataConfig, TrainConfig
from visil.training.distributed import Processes
from visil.training.feature_footage import FeatureFootage
from visil.training.footage import Footage, SomeFootage
from visil.training.hard_negatives import Miner, footage_words, related_groups
from visil.training.pools import AnnotatedPool, ArtificialPool, Pool, Related
from visil.training.segments import SegmentPair, located, positives, read_segments_of
from visil.training.triplets import TripletSampler
from visil.video import Sampling

NEGATIVES = "negatives-{}.json"
"""The result of mining: the same for every process, for a run that goes on, and for all that share frames."""

Tell = Callable[[str], None]
"""Called with a line for people."""


@dataclass(frozen=True)
class Split:
    """Videos to learn from and videos to validate on, and the annotated pairs among each."""

    training: Footage
    validation: Footage
    pairs: list[SegmentPair[int]]
    validation_pairs: list[SegmentPair[int]]

    def identity(self) -> dict[str, str]:
        """Tells collections apart: names and lengths of all videos."""
        parts = {"videos": self.training, "validation videos": self.validation}
        return {name: f"{len(footage)} ({_digest(footage)})" for name, footage in parts.items()}


def read_footage(
    config: DataConfig, sampling: Sampling, cache: Path, tell: Tell, progress: Counted | None = None
) -> Split:
    """Decode videos that are not decoded yet; unreadable ones are named and left out."""
    if not config.videos:
        raise UsageError("no videos to learn from: set data.videos, or give --videos")
    annotated: list[SegmentPair[str]] = []
    if config.annotations is not None:
        annotated = read_segments_of(config.annotations, discover([*config.videos, *config.validation]))
    footage = _read(config.videos, sampling, cache, tell, progress)
    pairs, missing = located(annotated, footage.names, footage.copies)
    if missing:
        tell(f"annotated but not there, and left out: {len(missing)} videos, such as {missing[0]}")
    if config.validation:
        held = _read(config.validation, sampling, cache, tell, progress)
        held_pairs, _ = located(annotated, held.names, held.copies)
        return _checked(Split(footage, held, pairs, held_pairs))
    return _checked(split(footage, pairs, config.held_out, most=config.held_out_most))


def split(
    footage: Footage,
    pairs: Sequence[SegmentPair[int]],
    share: float,
    seed: int = 0,
    *,
    most: int | None = None,
) -> Split:
    """Hold out about this share of the videos, at most ``most``; related ones stay together.

    Of many videos few are annotated, and these are what validation can be strict about: as large a share of them is
    held out where they are, before any others.
    """
    groups = related_groups(len(footage), [(pair.query, pair.target) for pair in pairs])
    members: dict[int, list[int]] = {}
    for video, group in enumerate(groups.tolist()):
        members.setdefault(group, []).append(video)
    order = np.random.default_rng(seed).permutation(np.unique(groups)).tolist()
    wanted = max(2, round(share * len(footage)))
    wanted = wanted if most is None else min(wanted, most)
    annotated = [group for group in order if len(members[group]) > 1]
    enough = min(wanted, round(share * sum(len(members[group]) for group in annotated)))
    held: set[int] = set()
    for group in annotated:
        if len(held) + len(members[group]) <= enough:
            held.update(members[group])
    for group in order:
        own = held.union(members[group])
        if len(held) < wanted and len(own) <= max(wanted, min(len(footage) // 2, most or len(footage))):
            held = own
    parts = [[v for v in range(len(footage)) if (v in held) == side] for side in (False, True)]
    numbered = [{video: number for number, video in enumerate(part)} for part in parts]
    found = [
        [
            SegmentPair(own[p.query], p.query_span, own[p.target], p.target_span)
            for p in pairs
            if p.query in own and p.target in own
        ]
        for own in numbered
    ]
    learned, held_out = (
        footage.some(part) if isinstance(footage, FeatureFootage) else SomeFootage(footage, part)
        for part in parts
    )
    return Split(learned, held_out, found[0], found[1])


def triplet_sampler(
    config: TrainConfig, model: ViSiL, data: Split, processes: Processes, *, anew: bool
) -> tuple[TripletSampler, Related]:
    """A sampler over both pools, and which videos may show the same; mined by the first process only.

    What was mined before, from the same videos in the same way, is used again unless ``anew``: it lies beside the
    frames, so that runs that share these, such as all rows of a table, mine once.
    """
    if config.data.negatives == "batch":
        return _unmined_sampler(config, data)
    key = _mining(config, model, data)
    folder = make_folder(config.data.cache or config.out, "the folder of what was mined")
    path = folder / NEGATIVES.format(hashlib.sha256(json.dumps(key).encode()).hexdigest()[:12])
    if processes.first and (anew or _mined(path, key) is None):
        mined = _mine(config, model, data)
        with replacing(path) as fresh:
            fresh.write_text(json.dumps({"key": key, **mined}), "utf-8")
    processes.wait()
    found = _mined(path, key)
    if found is None:
        raise UsageError(f"{path}: changed while training began; start again")
    pairs = positives(data.pairs)
    videos = list(range(len(data.training)))
    pools: list[Pool] = [ArtificialPool(videos, found["artificial"])]
    if pairs:
        pools.insert(0, AnnotatedPool(pairs, found["annotated"]))
    return _sampler(config, data, pools, [frozenset(some) for some in found["related"]])


def drawn_from(sampler: TripletSampler, data: Split) -> str:
    """The positives that triplets are drawn from, for people: some have no hard negatives or lie behind the end."""
    counts = []
    for pool in sampler.pools:
        if isinstance(pool, AnnotatedPool):
            counts.append(f"{len(pool)} of {len(data.pairs)} annotated pairs")
        else:
            counts.append(f"{len(pool)} of {len(data.training)} videos")
    return f"triplets are drawn from {' and '.join(counts)}"


def _unmined_sampler(config: TrainConfig, data: Split) -> tuple[TripletSampler, Related]:
    """Made positives of every video; its negative, which nothing looks at, is the next video."""
    count = len(data.training)
    pool = ArtificialPool(list(range(count)), [[(video + 1) % count] for video in range(count)])
    return _sampler(config, data, [pool], [frozenset((video,)) for video in range(count)])


def _sampler(
    config: TrainConfig, data: Split, pools: list[Pool], related: Related
) -> tuple[TripletSampler, Related]:
    sampler = TripletSampler(
        pools,
        [data.training.times(video) for video in range(len(data.training))],
        config.data.triplets,
        config.data.window,
        seed=config.seed,
        strings=config.data.strings,
        related=related,
    )
    return sampler, related


def _mine(config: TrainConfig, model: ViSiL, data: Split) -> dict[str, Any]:
    words, bags = footage_words(model, data.training, config.data.words, seed=config.seed)
    times = [data.training.times(video) for video in range(len(data.training))]
    miner = Miner(words, times, bags.vocabulary, data.pairs, fallback=config.data.without_hard)
    return {
        "annotated": miner.annotated(positives(data.pairs)),
        "artificial": miner.artificial(range(len(data.training))),
        "related": [sorted(some) for some in miner.related()],
    }


def _mining(config: TrainConfig, model: ViSiL, data: Split) -> dict[str, str]:
    """All that decides what mining finds."""
    of_features = isinstance(data.training, FeatureFootage)
    settings = (config.data.words, config.data.without_hard, config.seed)
    return {
        **data.identity(),
        "network": config.model.start if of_features else _network(model),
        "pairs": hashlib.sha256(repr(data.pairs).encode()).hexdigest()[:12],
        "settings": repr(settings),
    }


def _network(model: ViSiL) -> str:
    """Tells apart what words are made by: the stages of a backbone, its weights, the pictures that it sees."""
    config = model.config
    digest = hashlib.sha256(repr((config.backbone, config.stages, config.sampling)).encode())
    for tensor in model.backbone.state_dict().values() if model.backbone is not None else ():
        if tensor.is_floating_point():
            digest.update(tensor.detach().cpu().float().numpy().tobytes())
    return digest.hexdigest()[:12]


def _mined(path: Path, key: dict[str, Any]) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("key") == key else None


def _read(
    paths: Sequence[str], sampling: Sampling, cache: Path, tell: Tell, progress: Counted | None
) -> CachedFootage:
    footage = CachedFootage(paths, cache, sampling, progress=progress)
    for path, reason in footage.failed:
        tell(f"left out: {path}: {reason}")
    for path, first in footage.copies:
        tell(f"left out: {path}: the same as {first}")
    return footage


def _checked(data: Split) -> Split:
    for footage, what in ((data.training, "learn from"), (data.validation, "validate on")):
        if len(footage) < 2:
            raise UsageError(f"at least two readable videos are needed to {what}, found {len(footage)}")
    return data


def _digest(footage: Footage) -> str:
    digest = hashlib.sha256()
    for video, name in enumerate(footage.names):
        digest.update(
            f"{PurePath(name).name} {len(footage.times(video))}\n".encode("utf-8", "surrogateescape")
        )
    return digest.hexdigest()[:12]
