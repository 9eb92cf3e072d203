"""The processor's part of ``visil bench``: similarity, backbones, decoding, codes, memory, against plain formulas.

Ours and the plain formula run in turns in one process, and the median counts: a busy machine slows both alike.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from visil.bench.results import Measurement
from visil.kernels import Scorer
from visil.kernels.cpu_backbones import FastBackbone
from visil.kernels.cpu_hamming import coded_scores
from visil.kernels.precision import ON_CPU, fastest, has_int8, integer_product
from visil.machine.processes import NEUTRAL, environment, python
from visil.model.backbones import BACKBONES, Backbone
from visil.model.codes import Codes, encode
from visil.model.comparator import Comparator
from visil.model.formula import Formula
from visil.video import Sampling, stream_frames
from visil.video.writer import write_video

FRAMES = 103
"""Of a video: the mean of FIVR-200K."""

TARGETS = 16
"""Compared at once with one query."""

LENGTHS = (10, 30, 103, 300, 1000)
LONGEST_PLAIN = 300
"""Frames beyond which the plain formula would take gigabytes."""

DEFAULT = Formula(frame_pool=("max", "top3"), symmetric=True)
"""The default model's."""

MODELS: dict[str, tuple[int, int, Callable[[], Formula]]] = {
    "comparator, R=9, C=512": (9, 512, lambda: Formula(comparator=Comparator().eval())),
    "default model, R=14, C=256": (14, 256, lambda: DEFAULT),
}
"""Regions, channels, and the formula."""


def interleaved(works: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Median seconds of each piece of work, all of them once a round, after one round to warm up."""
    took: dict[str, list[float]] = {name: [] for name in works}
    with torch.inference_mode():
        for _ in range(rounds + 1):
            for name, work in works.items():
                start = time.perf_counter()
                work()
                took[name].append(time.perf_counter() - start)
    return {name: median(times[1:]) for name, times in took.items()}


def vectors(frames: int, regions: int, channels: int, seed: int, device: str = "cpu") -> Tensor:
    """Unit vectors in random directions, as a collection keeps them: float16 [frames, regions, channels]."""
    generator = torch.Generator(device).manual_seed(seed)
    noise = torch.randn(frames, regions, channels, device=device, generator=generator)
    return F.normalize(noise, dim=-1).half()


def plain_score(query: Tensor, target: Tensor, formula: Formula) -> Tensor:
    """CS_v as the paper writes it: einsum, maximum, mean, network, Chamfer similarity."""
    matrix = formula.frame_matrix(query, target.float())
    return formula.video_similarity(formula.output_matrix(matrix))


def products() -> Iterator[Measurement]:
    """The speed of matrix products here: the bound of all that follows."""
    left, right = (torch.randn(1024, 512, generator=torch.Generator().manual_seed(i)) for i in (0, 1))
    halves = left.bfloat16(), right.bfloat16()
    steps = tuple((part * 30).clamp(-127, 127).to(torch.int8) for part in (left, right))
    works: dict[str, Callable[[], object]] = {
        "fp32": lambda: left @ right.T,
        "bf16": lambda: halves[0] @ halves[1].T,
    }
    if has_int8():
        works["int8"] = lambda: integer_product(steps[0], steps[1])
    operations = 2 * 1024 * 1024 * 512 / 1e9
    found = {name: operations / took for name, took in interleaved(works, 9).items()}
    for name, speed in found.items():
        yield Measurement(f"{name} matrix product", speed, "GFLOP/s", found["fp32"], speed / found["fp32"])
    yield Measurement("threads", torch.get_num_threads(), "", note=f"precision auto is {fastest()}")


def similarity() -> Iterator[Measurement]:
    """Video pairs a second from features in memory to scores."""
    for name, (regions, channels, made) in MODELS.items():
        formula = made()
        query = vectors(FRAMES, regions, channels, 0).float()
        targets = [vectors(FRAMES, regions, channels, i) for i in range(1, TARGETS + 1)]

        works: dict[str, Callable[[], object]] = {"plain": partial(plain_score, query, targets[0], formula)}
        for chosen in ON_CPU:
            works[chosen] = partial(Scorer(formula, precision=chosen).scores, query, targets)
        took = interleaved(works)
        for chosen in ON_CPU:
            speed, base = TARGETS / took[chosen], 1 / took["plain"]
            bound = 2 * (FRAMES * regions) ** 2 * channels * speed / 1e9
            yield Measurement(
                f"{chosen}, {name}", speed, "pairs/s", base, speed / base, f"{bound:.0f} GFLOP/s of products"
            )


def lengths() -> Iterator[Measurement]:
    """Time of a pair against the videos' length, in the fastest arithmetic, with the comparator.

    One query meets several targets, as in a search; the plain formula takes them one by one.
    """
    formula = Formula(comparator=Comparator().eval())
    scorer = Scorer(formula, precision="auto")
    for length in LENGTHS:
        count = TARGETS if length <= FRAMES else 1
        query = vectors(length, 9, 512, 0)
        targets = [vectors(length, 9, 512, 1 + number) for number in range(count)]

        def ours(query: Tensor = query, targets: list[Tensor] = targets) -> object:
            return scorer.scores(query, targets)

        def plain(query: Tensor = query, targets: list[Tensor] = targets) -> object:
            return [plain_score(query.float(), target, formula) for target in targets]

        works: dict[str, Callable[[], object]] = {"ours": ours}
        if length <= LONGEST_PLAIN:
            works["plain"] = plain
        took = interleaved(works, 3 if length > FRAMES else 7)
        base = took.get("plain")
        yield Measurement(
            f"time of a pair of {length} frames",
            1e3 * took["ours"] / count,
            "ms",
            None if base is None else 1e3 * base / count,
            None if base is None else base / took["ours"],
            f"{count} targets" if count > 1 else "",
        )


def backbones() -> Iterator[Measurement]:
    """Frames a second; speed does not depend on the weights."""
    for name, size, last in (("efficientnet-lite0", 288, 3), ("resnet50", 224, 3)):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            network = BACKBONES[name].build().eval()
        frames = torch.randint(0, 256, (16, size, size, 3), dtype=torch.uint8)
        ways: dict[str, Backbone] = {
            "plain": network,
            "fp32": FastBackbone(network, last),
            "bf16": FastBackbone(network, last, torch.bfloat16),
        }
        took = interleaved({kind: partial(_maps, way, frames) for kind, way in ways.items()}, 3)
        for kind in ("fp32", "bf16"):
            speed, base = len(frames) / took[kind], len(frames) / took["plain"]
            yield Measurement(f"{name}, {size} px, {kind}", speed, "frames/s", base, speed / base)


def _maps(network: Backbone, frames: Tensor) -> list[Tensor]:
    return network.stages(network.preprocess(frames))


def decoding() -> Iterator[Measurement]:
    """Video frames a second of one thread, 720p H.264 to samples; plain: every frame decoded, and no more."""
    import av

    seconds = 10
    sampling = Sampling(fit="whole", resize=288, crop=288)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clip.mp4"
        write_clip(file, seconds)

        def plain() -> None:
            with av.open(str(file)) as container:
                container.streams.video[0].thread_count = 1
                for _ in container.decode(video=0):
                    pass

        def ours(fast: bool) -> None:
            with stream_frames(file, sampling, fast=fast) as stream:
                for _ in stream:
                    pass

        took = interleaved({"plain": plain, "exact": lambda: ours(False), "fast": lambda: ours(True)})
    notes = {"exact": "the same samples, resized", "fast": "samples some tenths of a second early"}
    for kind, note in notes.items():
        speed, base = 25 * seconds / took[kind], 25 * seconds / took["plain"]
        yield Measurement(f"decode, {kind}", speed, "frames/s", base, speed / base, note)


def write_clip(path: Path, seconds: int) -> None:
    """Moving texture in 1280×720 H.264 at 25 frames a second."""
    canvas = np.random.default_rng(0).integers(0, 256, (90, 160, 3), np.uint8).repeat(10, 0).repeat(10, 1)
    corners = ((int(90 + 80 * np.sin(i / 40)), int(160 + 150 * np.cos(i / 55))) for i in range(25 * seconds))
    pictures = (canvas[top : top + 720, left : left + 1280] for top, left in corners)
    write_video(path, pictures, fps=25, crf=26)


def codes() -> Iterator[Measurement]:
    """Pairs a second of the default model's features in fewer bytes, compared as they are."""
    regions, channels, _ = MODELS["default model, R=14, C=256"]
    query = vectors(FRAMES, regions, channels, 0)
    targets = [vectors(FRAMES, regions, channels, i) for i in range(1, TARGETS + 1)]
    works: dict[str, Callable[[], object]] = {
        "plain": partial(plain_score, query.float(), targets[0], DEFAULT),
        "fp16": partial(Scorer(DEFAULT, precision="fp32").scores, query, targets),
    }
    kinds: tuple[Codes, ...] = ("int8", "binary")
    for kind in kinds:
        first, *others = (encode(video, kind) for video in (query, *targets))
        works[kind] = partial(coded_scores, first, others, DEFAULT)
    took = interleaved(works)
    sizes = {"fp16": 2 * channels, "int8": channels + 2, "binary": channels // 8 + 2}
    for name, size in sizes.items():
        speed, base = TARGETS / took[name], 1 / took["plain"]
        note = f"{regions * size * 3600 / 1e6:.1f} MB an hour"
        yield Measurement(f"{name} codes", speed, "pairs/s", base, speed / base, note)


def memory() -> Iterator[Measurement]:
    """Memory to score one pair, beyond its features; each in a process of its own. Not known on Windows."""
    if sys.platform == "win32":
        return
    for length, with_plain in ((300, True), (1000, False), (2000, False)):
        ours = _peak(length, "ours")
        plain = _peak(length, "plain") if with_plain else None
        ratio = None if plain is None or ours <= 0 else plain / ours
        yield Measurement(f"memory for a pair of {length} frames", ours, "MB", plain, ratio)


def _peak(length: int, how: str) -> float:
    """:func:`peak` in a process of its own."""
    code = f"from visil.bench.cpu import peak; print(peak({length}, {how!r}))"
    run = subprocess.run(
        python("-c", code), cwd=NEUTRAL, env=environment(), check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def _largest() -> int:
    """The largest size so far, in KB; Linux's own figure, since ``ru_maxrss`` begins with the parent's."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
    except (OSError, StopIteration):
        if sys.platform == "win32":
            return 0  # not asked there
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak // 1024 if sys.platform == "darwin" else peak


def peak(length: int, how: Literal["ours", "plain"]) -> float:
    """Growth of this process's largest size, in MB; once a small pair has loaded the libraries."""
    formula = Formula(comparator=Comparator().eval())

    def score(frames: int) -> int:
        query, target = vectors(frames, 9, 512, 0).float(), vectors(frames, 9, 512, 1)
        before = _largest()
        with torch.inference_mode():
            if how == "plain":
                plain_score(query, target, formula)
            else:
                Scorer(formula, precision="auto").scores(query, [target])
        return _largest() - before

    score(8)
    return score(length) / 1024


SECTIONS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "products": products,
    "similarity": similarity,
    "length": lengths,
    "backbones": backbones,
    "decode": decoding,
    "codes": codes,
    "memory": memory,
}
