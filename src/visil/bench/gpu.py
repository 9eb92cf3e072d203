"""The GPU's part of ``visil bench``: kernels, engine, extraction and a training step, beside plain torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from statistics import median

import torch
from torch import Tensor

from visil.bench import cpu
from visil.bench.cpu import FRAMES, plain_score
from visil.bench.results import Measurement
from visil.compare.loading import load
from visil.compare.visil import ViSiL
from visil.kernels import Scorer
from visil.kernels.gpu_engine import GpuEngine
from visil.kernels.precision import Precision
from visil.kernels.ragged_axes import ragged_axis
from visil.kernels.triton_comparator import ComparatorWeights, chamfer_scores, compared
from visil.kernels.triton_frames import DTYPES, FP8, frame_products, prepared
from visil.model.comparator import Comparator
from visil.model.config import VISIL_F_W
from visil.model.formula import Formula
from visil.model.network import Network
from visil.model.similarity import Reduction, frame_matrix, pool, video_similarity
from visil.model.whitening import Whitening

REGIONS, CHANNELS = 9, 512

FIVR_PAIRS = 100 * 225_960
"""Queries times videos of FIVR-200K."""


def seconds(work: Callable[[], object], rounds: int = 20) -> float:
    """Median time of one run on the GPU, by its own clock."""
    for _ in range(3):
        work()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return median(times)


def vectors(frames: int, regions: int = REGIONS, channels: int = CHANNELS, seed: int = 0) -> Tensor:
    """Unit vectors of random directions, on the GPU: never zeros, which run faster than data does."""
    return cpu.vectors(frames, regions, channels, seed, "cuda")


def ceilings() -> Iterator[Measurement]:
    """The chip's best, measured: a large copy and large matrix products."""
    source = torch.randn(1 << 29, device="cuda")
    copy = torch.empty_like(source)
    moved = 2 * source.nbytes / seconds(partial(copy.copy_, source))
    yield Measurement("memory: copy, read and write", moved / 1e12, "TB/s")
    del source, copy
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    yield Measurement(
        "matrix product, bf16", 2 * size**3 / seconds(lambda: a @ b) / 1e12, "TFLOP/s", note="8192³"
    )
    try:
        one = torch.ones((), device="cuda")
        e, f = a.to(FP8), b.to(FP8).t().contiguous().t()
        fast = seconds(
            lambda: torch._scaled_mm(e, f, one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
        )
        yield Measurement("matrix product, fp8", 2 * size**3 / fast / 1e12, "TFLOP/s", note="8192³")
    except (RuntimeError, AttributeError, TypeError):
        return


def frame_kernels(frames: int = 8192) -> Iterator[Measurement]:
    """S_f of many videos with many: TFLOP/s, and frame pairs a second beside the plain formula."""
    few = vectors(FRAMES), vectors(FRAMES, seed=1)
    plain = FRAMES**2 / seconds(lambda: frame_matrix(few[0].float(), few[1].float()))
    settings: list[tuple[str, int, int, Reduction, bool]] = [
        ("R=9, C=512", REGIONS, CHANNELS, "mean", False),
        ("R=14, C=256, best three, symmetric", 14, 256, "top3", True),
    ]
    for name, regions, channels, outer, symmetric in settings:
        size = frames if not symmetric else frames // 2
        query, target = vectors(size, regions, channels), vectors(size, regions, channels, seed=1)
        out = torch.empty(size, size, dtype=torch.float16, device="cuda")
        for precision, dtype in DTYPES.items():
            q, t = prepared(query, dtype), prepared(target, dtype)
            took = seconds(partial(frame_products, q, t, out, outer=outer, symmetric=symmetric))
            work = 2 * regions**2 * channels * size**2 * (2 if symmetric else 1)
            pairs = size**2 / took
            yield Measurement(
                f"Tensor Dot + Chamfer, {precision}, {name}",
                pairs / 1e9,
                "G frame pairs/s",
                plain / 1e9 if not symmetric else None,
                pairs / plain if not symmetric else None,
                f"{work / took / 1e12:.0f} TFLOP/s",
            )


def comparators(videos: int = 80) -> Iterator[Measurement]:
    """Table 1 and Eq. 6 over videos × videos pairs, beside torch's convolutions on as many pairs as they like best."""
    module = Comparator("replicate").cuda().eval().requires_grad_(False)
    axis = ragged_axis([FRAMES] * videos, "replicate").to(torch.device("cuda"))
    matrix = (torch.randn(FRAMES * videos, FRAMES * videos, device="cuda") * 0.3).half()
    weights = ComparatorWeights.of(module, matrix.device)

    def fused() -> Tensor:
        return chamfer_scores(compared(matrix, axis, axis, weights), axis.cells, axis.cells)

    some = (
        matrix[: FRAMES * 8]
        .reshape(8, FRAMES, videos, FRAMES)
        .permute(0, 2, 1, 3)
        .reshape(-1, FRAMES, FRAMES)
        .float()
    )
    plain = some.numel() / seconds(lambda: video_similarity(module(some).clamp(-1, 1)))
    found = matrix.numel() / seconds(fused)
    yield Measurement(
        "comparator + Chamfer, fp16", found / 1e9, "G frame pairs/s", plain / 1e9, found / plain
    )


def engines(targets: int = 12_000, queries: int = 100) -> Iterator[Measurement]:
    """From features in host memory to the best ten of each query; the plain formula takes pair after pair."""
    module = Comparator("replicate").cuda().eval().requires_grad_(False)
    asked = [vectors(FRAMES, seed=i) for i in range(queries)]
    kept = [vectors(FRAMES, seed=1000 + i).cpu() for i in range(300)]
    one, other = asked[0].float(), kept[0].cuda().float()
    plain = 1 / seconds(partial(plain_score, one, other, Formula(comparator=module)))
    precisions: tuple[Precision, ...] = ("fp16", "bf16", "fp8")
    for precision in precisions:
        scorer = Scorer(Formula(comparator=module), "cuda", precision)

        def run(scorer: Scorer = scorer) -> None:
            scorer.best(asked, islice(cycle(kept), targets), 10)

        took = seconds(run, rounds=3)
        pairs = queries * targets / took
        yield Measurement(
            f"engine, {precision}: {queries} queries, features in host memory",
            pairs / 1e3,
            "k pairs/s",
            plain / 1e3,
            pairs / plain,
            f"{pairs * FRAMES**2 / 1e9:.2f} G frame pairs/s; the size of FIVR-200K in {FIVR_PAIRS / pairs:.0f} s",
        )


def lengths() -> Iterator[Measurement]:
    """Time of a pair by length: the kernels over many pairs, and the plain formula."""
    module = Comparator("replicate").cuda().eval().requires_grad_(False)
    for frames in (16, 32, 64, 128, 256, 512, 1024):
        count = max(1, 4096 // frames)
        asked = [vectors(frames, seed=i) for i in range(count)]
        engine = GpuEngine(asked, Formula(comparator=module), arithmetic="bf16")
        (chunk,) = engine.chunks([video.cpu() for video in asked])
        ours = seconds(partial(engine.chunk_scores, chunk), 10) / count**2
        plain: float | None = None
        if frames <= 512:
            one, other = asked[0].float(), asked[-1].float()
            plain = seconds(partial(plain_score, one, other, Formula(comparator=module)), 10)
        ratio = None if plain is None else plain / ours
        yield Measurement(
            f"time of a pair of {frames} frames", ours * 1e6, "µs", plain and plain * 1e6, ratio
        )


def training(window: int = 64) -> Iterator[Measurement]:
    """Forward and backward through S_f and the comparator, triplets a second, from vectors in memory."""
    from visil.kernels.triton_training import frame_matrices

    module = Comparator("replicate").cuda()

    def step(batch: int, kernel: bool) -> Callable[[], None]:
        sides = [
            torch.stack([vectors(window, seed=3 * i + side) for i in range(batch)]).requires_grad_()
            for side in range(3)
        ]

        def run() -> None:
            scores = []
            for other in sides[1:]:
                if kernel:
                    with torch.autocast("cuda", torch.bfloat16):
                        output = module(frame_matrices(sides[0], other)).float()
                else:
                    products = torch.einsum("bxrc,bysc->bxyrs", sides[0].float(), other.float())
                    output = module(pool(products))
                scores.append(video_similarity(output.clamp(-1, 1)))
            (scores[1] - scores[0] + 0.5).clamp(min=0).sum().backward()

        return run

    plain = 1 / seconds(step(1, kernel=False))
    together = 64 / seconds(step(64, kernel=False))
    found = 64 / seconds(step(64, kernel=True))
    yield Measurement(
        "training step, plain formula, batches of 64",
        together,
        "triplets/s",
        plain,
        together / plain,
        f"W={window}",
    )
    yield Measurement(
        "training step, kernels in bf16, batches of 64",
        found,
        "triplets/s",
        plain,
        found / plain,
        f"W={window}",
    )


def extraction() -> Iterator[Measurement]:
    """uint8 frames on the GPU to refined region vectors, beside the plain modules in float32."""
    torch.manual_seed(0)
    paper = ViSiL(VISIL_F_W.replaced(name="resnet50", dim=CHANNELS))
    paper.whitening = Whitening(
        torch.zeros(paper.channels), torch.randn(paper.channels, CHANNELS) / paper.channels**0.5
    )
    # Random weights let the deep maps of EfficientNet-Lite fall below what half precision can tell from zero.
    for model, sides in ((paper, (224,)), (load(), (224, 288))):
        model = model.cuda()
        network = Network(model.config)
        network.load_state_dict(model.state_dict())
        network = network.cuda()
        for side in sides:
            frames = torch.randint(0, 256, (512, side, side, 3), dtype=torch.uint8, device="cuda")
            with torch.inference_mode():
                part = frames[:64]
                plain = len(part) / seconds(partial(network.features, part), 5)
                found = len(frames) / seconds(partial(model.features, frames), 10)
            yield Measurement(
                f"extraction, {model.config.backbone}, {side} px",
                found / 1e3,
                "k frames/s",
                plain / 1e3,
                found / plain,
            )


SECTIONS: dict[str, Callable[[], Iterator[Measurement]]] = {
    "what the chip can do": ceilings,
    "similarity": frame_kernels,
    "comparator": comparators,
    "end to end": engines,
    "by length": lengths,
    "training": training,
    "extraction": extraction,
}
