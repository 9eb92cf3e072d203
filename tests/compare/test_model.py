"""`ViSiL`: features to answers, what a match holds, and what is refused. Scores themselves: test_official.py."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

import visil.compare.visil as model_module
from family import DIM, FAMILY, LITE, built
from visil.compare import matches
from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.kernels import torch_engine
from visil.matching.calibration import Calibration
from visil.matching.match import Match
from visil.model.config import VISIL_F, ViSiLConfig
from visil.model.features import VideoFeatures


@pytest.fixture(scope="module", params=FAMILY)
def model(request: pytest.FixtureRequest) -> ViSiL:
    return built(FAMILY[request.param])


@pytest.fixture(scope="module")
def embedder() -> ViSiL:
    """Embeds with a network that no one trained: enough for shapes and equalities."""
    return built(FAMILY["v"], with_backbone=True)


def video(
    frames: int, seed: int = 0, *, step: float = 1.0, dtype: torch.dtype = torch.float32
) -> VideoFeatures:
    generator = torch.Generator().manual_seed(seed)
    vectors = F.normalize(torch.randn(frames, 9, DIM, dtype=torch.float64, generator=generator), dim=-1)
    return VideoFeatures(vectors.to(dtype), torch.arange(frames, dtype=torch.float64) * step)


def plain(model: ViSiL, query: VideoFeatures, target: VideoFeatures) -> float:
    """The plain formulas, in double."""
    with torch.no_grad():
        return float(deepcopy(model).double()(query.vectors.double(), target.vectors.double()))


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize(("x", "y"), [(1, 1), (1, 9), (2, 5), (9, 3), (4, 4), (5, 31), (37, 6)])
def test_compare_equals_the_plain_formula(model: ViSiL, x: int, y: int) -> None:
    query, target = video(x, 1), video(y, 2)
    assert model.compare(query, target).score == pytest.approx(plain(model, query, target), abs=1e-5)


def test_scores_in_these_tests_are_not_clipped(model: ViSiL) -> None:
    """Guards the comparisons in this file: clipped scores would all be equal."""
    scores = [plain(model, video(9, seed), video(12, seed + 1)) for seed in range(6)]
    assert np.std(scores) > 1e-3
    assert max(np.abs(scores)) < 0.99


def test_scores_equal_compare(model: ViSiL) -> None:
    query, targets = video(7, 1), [video(n, n) for n in (1, 4, 9, 21)]
    scores = model.scores(query, iter(targets))
    assert scores.dtype == np.float32
    assert scores.shape == (4,)
    assert scores.tolist() == pytest.approx([model.compare(query, t).score for t in targets], abs=1e-6)
    assert model.scores(query, []).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_features_in_any_precision(model: ViSiL, dtype: torch.dtype) -> None:
    """Half as an index stores them; double as numpy makes them."""
    query, target = video(9, 1, dtype=dtype), video(6, 2, dtype=dtype)
    match = model.compare(query, target)
    assert match.score == pytest.approx(plain(model, query, target), abs=1e-5)
    assert match.frame_matrix.dtype == np.float32
    assert model.scores(query, [video(6, 2)])[0] == pytest.approx(match.score, abs=0.05)


def test_videos_need_not_have_as_many_regions() -> None:
    model = built(FAMILY["v"])
    query, target = video(5, 1), video(6, 2)
    fewer = VideoFeatures(target.vectors[:, :4], target.timestamps)
    assert model.compare(query, fewer).score == pytest.approx(plain(model, query, fewer), abs=1e-5)


def test_forward_is_differentiable(model: ViSiL) -> None:
    query = video(6, 1).vectors.requires_grad_()
    model(query, video(5, 2).vectors).backward()
    assert query.grad is not None
    assert float(query.grad.abs().sum()) > 0


def test_embedded_features_can_be_trained_on(embedder: ViSiL) -> None:
    features = embedder.embed_frames(pixels(4, 40, 40))
    score = embedder(features.vectors, features.vectors)
    assert embedder.comparator is not None
    (gradient,) = torch.autograd.grad(score, [embedder.comparator.conv1.weight])
    assert torch.isfinite(gradient).all()


# ---------------------------------------------------------------- long videos


def chunk_mean(
    model: ViSiL, query: VideoFeatures, target: VideoFeatures, starts: list[tuple[int, int]]
) -> float:
    parts = [VideoFeatures(target.vectors[a:b], target.timestamps[a:b]) for a, b in starts]
    return float(np.mean([plain(model, query, part) for part in parts]))


@pytest.mark.parametrize(
    ("length", "chunks"),
    [
        (8, [(0, 8)]),
        (16, [(0, 8), (8, 16)]),
        (19, [(0, 8), (8, 16)]),  # three frames left over: dropped
        (20, [(0, 8), (8, 16), (16, 20)]),
        (3, [(0, 3)]),  # short from the start: kept, and doubled
    ],
)
def test_the_authors_way_with_long_targets(
    model: ViSiL, monkeypatch: pytest.MonkeyPatch, length: int, chunks: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(matches, "AUTHORS_CHUNK", 8)
    query, target = video(11, 1), video(length, 2)
    expected = chunk_mean(model, query, target, chunks)
    assert model.compare(query, target, long_videos="authors").score == pytest.approx(expected, abs=1e-5)
    assert model.scores(query, [target], long_videos="authors")[0] == pytest.approx(expected, abs=1e-5)
    assert model.compare(query, target).score == pytest.approx(plain(model, query, target), abs=1e-5)


def test_the_authors_chunk_is_2048_frames() -> None:
    assert matches.AUTHORS_CHUNK == 2048


# ---------------------------------------------------------------- what a match holds


def test_match(model: ViSiL) -> None:
    query, target = video(13, 1), video(22, 2)
    match = model.compare(query, target)
    assert isinstance(match, Match)
    assert isinstance(match.score, float)
    if model.comparator is not None:
        assert -1 <= match.score <= 1
        assert match.output_matrix.shape == (3, 5)
        assert float(np.abs(match.output_matrix).max()) <= 1
    else:
        assert match.output_matrix.shape == (13, 22)
        np.testing.assert_array_equal(match.output_matrix, match.frame_matrix)
    assert match.frame_matrix.shape == (13, 22)
    assert match.frame_matrix.dtype == match.output_matrix.dtype == np.float32
    assert 0 <= match.confidence <= 1
    assert match.verdict in ("copy", "related", "unrelated")
    assert match.calibrated is False
    assert match.query_times.tolist() == query.timestamps.tolist()
    assert match.target_times.tolist() == target.timestamps.tolist()


@pytest.mark.parametrize(
    ("x", "y", "cells"), [(1, 1, (1, 1)), (2, 9, (1, 2)), (3, 3, (1, 1)), (30, 1, (7, 1))]
)
def test_short_videos_show_their_own_frames_once(x: int, y: int, cells: tuple[int, int]) -> None:
    """The comparator reads them doubled; S_f as a user sees it has a row and a column per frame."""
    model = built(FAMILY["v"])
    match = model.compare(video(x, 1), video(y, 2))
    assert match.frame_matrix.shape == (x, y)
    assert match.output_matrix.shape == cells
    expected = torch.einsum("xrc,ysc->xyrs", video(x, 1).vectors, video(y, 2).vectors).amax(dim=3).mean(dim=2)
    np.testing.assert_allclose(match.frame_matrix, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize(("x", "y"), [(13, 22), (2, 3), (9, 1)])
def test_matrices_that_were_not_kept_are_the_same(
    model: ViSiL, monkeypatch: pytest.MonkeyPatch, x: int, y: int
) -> None:
    query, target = video(x, 1), video(y, 2)
    kept = model.compare(query, target)
    monkeypatch.setattr(matches, "KEPT_CELLS", x * y - 1)
    monkeypatch.setattr(torch_engine, "STRIP_CELLS", 1)
    again = model.compare(query, target)
    assert again.score == pytest.approx(kept.score, abs=1e-6)
    assert again.segments == kept.segments
    np.testing.assert_allclose(again.frame_matrix, kept.frame_matrix, atol=1e-6)
    np.testing.assert_allclose(again.output_matrix, kept.output_matrix, atol=1e-5)
    assert again.frame_matrix.dtype == again.output_matrix.dtype == np.float32
    assert again.frame_matrix is again.frame_matrix  # computed once


@pytest.mark.parametrize("frames", [1, 2, 4, 25])
def test_a_video_is_itself_from_end_to_end(frames: int) -> None:
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"), with_backbone=False)
    generator = torch.Generator().manual_seed(frames)
    vectors = F.normalize(torch.randn(frames, 9, model.dim, generator=generator), dim=-1)
    features = VideoFeatures(
        vectors, torch.arange(frames, dtype=torch.float64) * 2, duration=2.0 * frames - 0.5
    )
    match = model.compare(features, features)
    assert match.score == pytest.approx(1.0, abs=1e-6)
    assert match.confidence == pytest.approx(1.0, abs=1e-6)
    assert match.verdict == "copy"
    end = 2.0 * frames - 0.5 if frames > 1 else 1.0
    assert [(s.query, s.target) for s in match.segments] == [((0.0, end), (0.0, end))]
    assert match.segments[0].score == pytest.approx(1.0, abs=1e-6)


def test_segments_are_in_seconds_where_the_footage_is() -> None:
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"), with_backbone=False)
    generator = torch.Generator().manual_seed(0)
    vectors = F.normalize(torch.randn(30, 9, model.dim, generator=generator), dim=-1)
    fillers = F.normalize(torch.randn(20, 9, model.dim, generator=generator), dim=-1)
    query = VideoFeatures(vectors, torch.arange(30, dtype=torch.float64))
    target_vectors = torch.cat([fillers[:10], vectors[12:20], fillers[10:]])
    target = VideoFeatures(target_vectors, torch.arange(28, dtype=torch.float64) / 2)
    (segment,) = model.compare(query, target).segments
    assert segment.query == (12.0, 20.0)
    assert segment.target == (5.0, 9.0)
    assert segment.score == pytest.approx(1.0, abs=1e-5)


def test_a_model_that_moves_embeds_on() -> None:
    """The copy made for inference follows: here to another precision, as to another device."""
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"))
    frames = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    before = model.embed_frames(frames).vectors
    after = model.double().embed_frames(frames).vectors
    assert torch.allclose(before, after, atol=1e-5)
    assert not torch.equal(before, after)


def test_calibration_sets_confidence_and_verdict() -> None:
    curve = Calibration(bias=-3.0, score=1.0, stretch=2.0, stretch_cap=4.0, copy=0.75, related=0.2)
    model = built(LITE.replaced(comparator=None, attention=None, calibration=curve))
    query = video(8, 1)
    match = model.compare(query, query)
    # Eight frames of similarity 1 are 0.5 above the threshold; their length counts by its logarithm.
    assert match.confidence == pytest.approx(1 / (1 + np.exp(-(-3 + 1 + 2 * 0.5 * np.log2(9)))), abs=1e-4)
    assert match.verdict == "copy"
    assert match.calibrated
    stranger = model.compare(query, VideoFeatures(-query.vectors[:, :1], query.timestamps))
    assert stranger.confidence < 0.2
    assert stranger.verdict == "unrelated"


def test_to_dict_is_what_the_command_prints() -> None:
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"), with_backbone=False)
    vectors = F.normalize(torch.randn(5, 9, model.dim, generator=torch.Generator().manual_seed(0)), dim=-1)
    query = VideoFeatures(vectors, torch.arange(5, dtype=torch.float64), path="a.mp4")
    target = VideoFeatures(vectors, torch.arange(5, dtype=torch.float64), path="b.mp4")
    match = model.compare(query, target)
    (segment,) = match.segments
    assert match.to_dict() == {
        "query": "a.mp4",
        "target": "b.mp4",
        "score": match.score,
        "confidence": match.confidence,
        "verdict": "copy",
        "segments": [
            {
                "query": [0.0, 5.0],
                "target": [0.0, 5.0],
                "score": segment.score,
                "confidence": match.confidence,
                "reversed": False,
            }
        ],
        "note": "",
    }


# ---------------------------------------------------------------- pixels to features


def pixels(frames: int, height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize(("height", "width"), [(64, 64), (33, 50), (1, 1), (7, 90)])
def test_frames_of_any_size(embedder: ViSiL, height: int, width: int) -> None:
    features = embedder.embed_frames(pixels(2, height, width))
    assert features.vectors.shape == (2, 9, DIM)
    assert features.vectors.dtype == torch.float32
    assert torch.isfinite(features.vectors).all()


def test_batches_make_no_difference(embedder: ViSiL, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = pixels(3, 48, 48)
    whole = embedder.embed_frames(frames)
    monkeypatch.setattr(model_module, "BATCH", 2)
    torch.testing.assert_close(embedder.embed_frames(frames).vectors, whole.vectors, rtol=0, atol=1e-5)


def test_embed_frames_is_regions_then_refine(embedder: ViSiL) -> None:
    frames = pixels(2, 48, 48)
    with torch.inference_mode():
        raw = embedder.region_vectors(frames)
        assert raw.shape == (2, 9, 24 + 40 + 112 + 320)
        torch.testing.assert_close(embedder.refine(raw), embedder.embed_frames(frames).vectors)


def test_timestamps_follow_the_models_rate(embedder: ViSiL) -> None:
    frames = pixels(3, 32, 32)
    assert embedder.embed_frames(frames).timestamps.tolist() == [0.0, 1.0, 2.0]
    given = embedder.embed_frames(torch.from_numpy(frames), timestamps=[0.5, 0.75, 4])
    assert given.timestamps.tolist() == [0.5, 0.75, 4.0]


@pytest.mark.parametrize(
    "view",
    [
        lambda f: f[..., ::-1],  # BGR to RGB, as everyone writes it
        lambda f: f[::-1],
        lambda f: f[:, ::2, ::2],
        lambda f: np.asfortranarray(f),
    ],
)
def test_views_of_arrays_are_frames_too(
    embedder: ViSiL, view: Callable[[NDArray[np.uint8]], NDArray[np.uint8]]
) -> None:
    frames = view(pixels(3, 48, 48))
    expected = embedder.embed_frames(np.ascontiguousarray(frames))
    torch.testing.assert_close(embedder.embed_frames(frames).vectors, expected.vectors)


@pytest.mark.filterwarnings("error")
def test_frames_that_may_not_be_written_to(embedder: ViSiL) -> None:
    frames = pixels(2, 32, 32)
    frames.setflags(write=False)
    assert len(embedder.embed_frames(frames)) == 2


@pytest.mark.parametrize(
    "frames",
    [
        np.zeros((2, 32, 32, 3), np.float32),
        np.zeros((2, 32, 32, 3), np.int64),
        np.zeros((32, 32, 3), np.uint8),
        np.zeros((2, 3, 32, 32), np.uint8),
        np.zeros((2, 32, 32, 4), np.uint8),
        np.zeros((0, 32, 32, 3), np.uint8),
        np.zeros((2, 0, 32, 3), np.uint8),
    ],
)
def test_what_is_not_frames(embedder: ViSiL, frames: NDArray[np.uint8]) -> None:
    with pytest.raises(UsageError, match=r"uint8 \[T, H, W, 3\]"):
        embedder.embed_frames(frames)


def test_as_many_timestamps_as_frames(embedder: ViSiL) -> None:
    with pytest.raises(UsageError, match="3 frames need as many timestamps"):
        embedder.embed_frames(pixels(3, 32, 32), timestamps=[0.0, 1.0])


def test_a_folder_of_images_embeds_like_its_frames(embedder: ViSiL, tmp_path: Path) -> None:
    from PIL import Image

    from visil.video import read_frames

    for i, frame in enumerate(pixels(2, 60, 60)):
        Image.fromarray(frame).save(tmp_path / f"{i}.png")
    frames = read_frames(tmp_path, embedder.config.sampling)
    told: list[int] = []
    features = embedder.embed(tmp_path, progress=told.append)
    expected = embedder.embed_frames(frames)
    torch.testing.assert_close(features.vectors, expected.vectors)
    assert features.timestamps.tolist() == expected.timestamps.tolist()
    assert features.path == str(tmp_path)
    assert told[-1] == len(features) == len(frames)
    match = embedder.compare(tmp_path, features)
    assert match.query_path == match.target_path == str(tmp_path)


def test_attention_weights(embedder: ViSiL) -> None:
    frames = pixels(2, 48, 48)
    weights = embedder.attention_weights(frames)
    assert weights.shape == (2, 9)
    assert float(weights.min()) >= 0
    assert float(weights.max()) <= 1
    norms = embedder.embed_frames(frames).vectors.norm(dim=-1)
    torch.testing.assert_close(norms, weights, rtol=0, atol=1e-5)
    with pytest.raises(ModelError, match="no attention"):
        built(FAMILY["f"]).attention_weights(frames)


@pytest.mark.parametrize("pooling", ["mac", "spoc", "rmac", "gem"])
def test_table_2_descriptors_have_one_region(pooling: str) -> None:
    config = ViSiLConfig(backbone="efficientnet-lite0", pooling=pooling, stages=(1, 3))  # type: ignore[arg-type]
    features = ViSiL(config).embed_frames(pixels(2, 64, 64))
    assert features.vectors.shape == (2, 1, 320)
    torch.testing.assert_close(features.vectors.norm(dim=-1), torch.ones(2, 1))


# ---------------------------------------------------------------- what is refused


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    message = str(error.value)
    assert message
    assert "\n" not in message
    return message


def test_features_of_another_model(model: ViSiL) -> None:
    other = VideoFeatures(torch.ones(5, 9, DIM + 1), torch.arange(5.0))
    for pair, who in (((other, video(5)), "query"), ((video(5), other), "target")):
        for call in (model.compare, lambda q, t: model.scores(q, [t])):
            with pytest.raises(UsageError, match=f"the {who}'s features have 17 channels") as error:
                call(*pair)
            assert "16" in one_line(error)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_broken_features(model: ViSiL, bad: float) -> None:
    broken = video(5)
    broken.vectors[2, 3, 4] = bad
    with pytest.raises(UsageError, match="target's features contain NaN") as error:
        model.compare(video(5), broken)
    one_line(error)
    with pytest.raises(UsageError, match="query's features contain NaN"):
        model.scores(broken, [video(5)])


def test_no_backbone_no_embedding(model: ViSiL, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="without a backbone") as error:
        model.embed_frames(pixels(2, 32, 32))
    one_line(error)
    from PIL import Image

    Image.fromarray(pixels(1, 32, 32)[0]).save(tmp_path / "0.png")
    with pytest.raises(ModelError, match="without a backbone"):
        model.embed(tmp_path)


def test_an_unknown_way_with_long_videos() -> None:
    model = built(FAMILY["f"])
    way = cast("matches.LongVideos", "author")
    with pytest.raises(UsageError, match="author"):
        model.compare(video(5), video(6), long_videos=way)
    with pytest.raises(UsageError, match="author"):
        model.scores(video(5), [video(6)], long_videos=way)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"backbone": "vgg16"}, "unknown backbone"),
        ({"stages": (0, 9)}, "stages 0 to 4"),
        ({"stages": (-1,)}, "stage"),
        ({"dim": 100_000}, "cannot whiten"),
        ({"dim": 2.5}, "dim"),
    ],
)
def test_models_that_cannot_be_built(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ModelError, match=said) as error:
        ViSiL(LITE.replaced(**settings))
    one_line(error)


# ---------------------------------------------------------------- reproducible, portable


def test_untrained_parts_are_the_same_everywhere_and_touch_no_global_state() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    first = ViSiL(LITE)
    assert torch.equal(torch.rand(1), expected)
    second = ViSiL(LITE)
    assert all(
        torch.equal(a, b) for a, b in zip(*(m.state_dict().values() for m in (first, second)), strict=True)
    )


def test_a_model_is_ready_for_use(embedder: ViSiL) -> None:
    assert not embedder.training
    assert all(not m.training for m in embedder.modules())
    assert embedder.device == torch.device("cpu")
    assert built(VISIL_F, with_backbone=False).device == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu(embedder: ViSiL) -> None:
    frames = pixels(6, 64, 64)
    expected = embedder.embed_frames(frames)
    expected_match = embedder.compare(expected, video(9))
    moved = built(FAMILY["v"], with_backbone=True)
    moved.load_state_dict(embedder.state_dict())
    moved.to("cuda")
    features = moved.embed_frames(frames)
    torch.testing.assert_close(features.vectors, expected.vectors, rtol=0, atol=1e-2)
    match = moved.compare(expected, video(9))
    assert match.score == pytest.approx(expected_match.score, abs=1e-3)
    np.testing.assert_allclose(match.frame_matrix, expected_match.frame_matrix, atol=1e-3)


def test_weights_loaded_after_an_embedding_are_used() -> None:
    model, other = built(FAMILY["v"], with_backbone=True), built(FAMILY["v"], with_backbone=True)
    for parameter in other.backbone.parameters():  # type: ignore[union-attr]
        with torch.no_grad():
            parameter.mul_(1.1)
    frames = torch.randint(0, 256, (2, 32, 32, 3), dtype=torch.uint8)
    before = model.embed_frames(frames).vectors
    model.load_state_dict(other.state_dict())
    after = model.embed_frames(frames).vectors
    assert not torch.allclose(before, after, atol=1e-4)
    torch.testing.assert_close(after, other.embed_frames(frames).vectors)
