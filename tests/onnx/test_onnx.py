"""Exported graphs in ONNX Runtime, held against the paper's formulas in float64 and against torch."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

import visil
from synthetic import write_video
from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.machine import processes
from visil.model.comparator import Comparator
from visil.model.config import PRESETS, ViSiLConfig
from visil.model.similarity import frame_matrix, video_similarity
from visil.onnx import export_onnx
from visil.onnx.graphs import Similarity, reduced_by_graph, repeated
from visil.video import Sampling

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None, reason="needs the extra visil[onnx]"
)

SMALL = Sampling(resize=72, crop=64)
LITE = {"backbone": "efficientnet-lite0", "dim": 32, "sampling": SMALL}
CONFIGS = {
    "visil-f": PRESETS["visil-f"].replaced(backbone="efficientnet-lite0", sampling=SMALL),
    "visil-v": PRESETS["visil-v"].replaced(**LITE),
    "visil-sym": PRESETS["visil-sym"].replaced(
        **LITE, stages=(0, 1)
    ),  # another similarity, not another network
    "resnet": PRESETS["visil-f+w+a"].replaced(dim=64, sampling=SMALL),
    "student": PRESETS["visil-v"].replaced(
        **LITE, attention="hidden", comparator="zeros", frame_pool=("mean", "max"), levels=(1, 2)
    ),
    "top3": PRESETS["visil-f+w"].replaced(
        **LITE, stages=(0, 1), frame_pool=("max", "top3"), video_pool=("top2", "top3"), symmetric=True
    ),
}
SHALLOW = CONFIGS["visil-f"].replaced(stages=(0,))
"""For exports that fail, whatever the network."""


def random_model(config: ViSiLConfig) -> ViSiL:
    """Untrained, with batch norms that do something."""
    model = ViSiL(config)
    generator = torch.Generator().manual_seed(3)
    for name, tensor in model.state_dict().items():
        if name.endswith(("running_mean", "running_var")):
            tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.5 + 0.5)
    return model.eval()


def runner(file: Path) -> Callable[..., list[NDArray[Any]]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(os.fspath(file), options, providers=["CPUExecutionProvider"])
    return lambda **inputs: session.run(None, inputs)


def plain(video: Tensor, comparator: Comparator | None) -> Tensor:
    """In float64, and as long as Table 1 needs: 1→4, 2→4, 3→6."""
    times = {1: 4, 2: 2, 3: 2}.get(len(video), 1) if comparator is not None else 1
    return video.double().repeat(times, 1, 1)


def by_the_paper(model: ViSiL, query: Tensor, target: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
    """S_f, S_v and CS_v by the plain formulas in float64."""
    config, comparator = model.config, model.comparator
    options: dict[str, Any] = {
        "symmetric": config.symmetric,
        "inner": config.frame_pool[0],
        "outer": config.frame_pool[1],
    }
    frames = frame_matrix(query.double(), target.double(), **options)
    matrix = frame_matrix(plain(query, comparator), plain(target, comparator), **options)
    output = None
    if comparator is not None:
        double = Comparator(comparator.padding).double()
        double.load_state_dict(comparator.state_dict())
        output = matrix = double(matrix).clamp(-1, 1)
    inner, outer = config.video_pool
    return frames, output, video_similarity(matrix, symmetric=config.symmetric, inner=inner, outer=outer)


@pytest.mark.parametrize("name", CONFIGS)
@torch.inference_mode()
def test_graphs_compute_the_papers_formulas(name: str, tmp_path: Path) -> None:
    model = random_model(CONFIGS[name])
    done = export_onnx(model, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("extractor.onnx", "similarity.onnx", "visil.json")
    ]
    assert max(done.extractor_difference, done.similarity_difference) < 1e-4
    rng = np.random.default_rng(1)
    extract, relate = (runner(tmp_path / "out" / f"{part}.onnx") for part in ("extractor", "similarity"))
    videos = []
    for frames in (1, 2, 3, 4, 7):
        pixels = rng.integers(0, 256, (frames, 64, 64, 3), np.uint8)
        (vectors,) = extract(frames=pixels)
        backbone = model.backbone  # not the folded copy that the graph was made of
        assert backbone is not None
        maps = backbone.stages(backbone.preprocess(torch.from_numpy(pixels)))
        np.testing.assert_allclose(vectors, model.refine(model.pooled(maps)).numpy(), atol=1e-4)
        videos.append(torch.from_numpy(vectors))
    for query in videos:
        for target in videos[::2]:
            frames_got, *output_got, score_got = relate(query=query.numpy(), target=target.numpy())
            frames_true, output_true, score_true = by_the_paper(model, query, target)
            np.testing.assert_allclose(frames_got, frames_true.numpy(), atol=1e-4)
            assert len(output_got) == (output_true is not None)
            if output_true is not None:
                np.testing.assert_allclose(output_got[0], output_true.numpy(), atol=1e-4)
            assert score_got.shape == ()
            assert float(score_got) == pytest.approx(float(score_true), abs=1e-4)


@given(
    st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=9), st.sampled_from(["top2", "top3", "top5"])
)
@settings(max_examples=60, deadline=None)
def test_mean_of_the_best_few_of_any_length(values: list[float], how: Any) -> None:
    best = sorted(values, reverse=True)[: int(how[3:])]
    assert float(reduced_by_graph(torch.tensor(values), how)) == pytest.approx(
        sum(best) / len(best), abs=1e-6
    )


@pytest.mark.parametrize(("frames", "expected"), [(1, 4), (2, 4), (3, 6), (4, 4), (5, 5)])
def test_short_videos_are_repeated_in_the_graph(frames: int, expected: int) -> None:
    matrix = torch.arange(frames * 2.0).view(frames, 2)
    assert repeated(matrix, 0).tolist() == (matrix.tolist() * 4)[:expected]
    assert repeated(matrix.T, 1).tolist() == repeated(matrix, 0).T.tolist()


def test_a_graph_that_differs_from_torch_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Similarity, "score", lambda _, matrix: matrix.mean())
    with pytest.raises(
        ModelError, match=r"nothing was written: .* similarity of visil-f differs from torch by 0\."
    ):
        export_onnx(random_model(SHALLOW), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_export_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "visil.json").write_text("mine")
    monkeypatch.setattr("visil.onnx.export.TOLERANCE", 0.0)
    with pytest.raises(ModelError):
        export_onnx(random_model(SHALLOW), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["visil.json"]
    assert (tmp_path / "visil.json").read_text() == "mine"


def test_without_the_extra_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def missing(name: str, package: str | None = None) -> Any:
        return None if name == "onnxruntime" else found(name, package)

    monkeypatch.setattr("importlib.util.find_spec", missing)
    with pytest.raises(
        UsageError, match=r"needs onnxruntime, not installed here: pip install 'visil\[onnx\]'$"
    ):
        export_onnx(ViSiL(SHALLOW), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_and_a_model_without_backbone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    model = random_model(SHALLOW)
    with pytest.raises(ModelError, match=r"file/out: the model could not be written \(not a directory\)"):
        export_onnx(model, tmp_path / "file" / "out")
    with pytest.raises(ModelError, match="without a backbone"):
        export_onnx(ViSiL(SHALLOW, with_backbone=False), tmp_path / "out")
    assert not (tmp_path / "out").exists()


EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_without_torch.py"
BLOCKED = """
import runpy, sys
for name in ("torch", "visil"):
    sys.modules[name] = None  # import raises
_, file, *sys.argv[1:] = sys.argv
runpy.run_path(file)
"""


def test_the_command_and_the_example_without_torch(tmp_path: Path) -> None:
    """The default model as a user exports it; its score without torch is that of `visil compare`."""
    command = processes.python("-m", "visil.__main__", "models", "export", "--onnx", str(tmp_path / "out"))
    # A process of its own: here pytest would take the warnings that a user would see.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "in ONNX Runtime as in torch: to " in done.stdout
    model = visil.load()
    about = json.loads((tmp_path / "out" / "visil.json").read_text())
    assert about["sampling"]["crop"] == model.config.sampling.crop
    assert about["calibration"]["stretch"] == model.config.calibration.stretch  # type: ignore[union-attr]

    rng = np.random.default_rng(0)
    scene = rng.integers(0, 256, (12, 16, 3), np.uint8).repeat(10, 0).repeat(10, 1)
    frames = [np.roll(scene, 3 * i, axis=1) for i in range(40)]
    for name, part in (("a.mp4", frames[:30]), ("b.mkv", frames[10:])):
        write_video(tmp_path / name, part, 10)
    videos = [tmp_path / "a.mp4", tmp_path / "b.mkv"]
    example = subprocess.run(
        [sys.executable, "-c", BLOCKED, EXAMPLE, tmp_path / "out", *videos],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert (example.returncode, example.stderr) == (0, "")
    assert float(example.stdout) == pytest.approx(model.compare(*videos).score, abs=1e-3)
