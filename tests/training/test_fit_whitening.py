"""``visil fit-whitening`` against a PCA of the same vectors by numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import visil
from synthetic import moving_scene, write_video
from visil.cli.app import app
from visil.errors import ModelError, UsageError
from visil.training.sampled_frames import SampledFrames, spread
from visil.training.whitening import fit_whitening, recipe_config, whitened_config
from visil.video import Sampling, read_frames

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short videos and a file that is none."""
    folder = tmp_path_factory.mktemp("videos")
    for seed in range(2):
        write_video(folder / f"{seed}.mp4", moving_scene(seed, 4, fps=2, size=(96, 96), shot=1), fps=2)
    (folder / "broken.mp4").write_bytes(b"nothing")
    return folder


def test_a_folder_becomes_a_model(videos: Path, tmp_path: Path) -> None:
    options = ["--backbone", "lite0", "--stages", "0", "--levels", "1,3", "--dim", "8"]
    done = CliRunner().invoke(app, ["fit-whitening", str(videos), "--out", str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    assert f"{tmp_path}: visil-lite0-f+w, fitted on 80 vectors of 2 videos" in done.output
    assert f"left out: {videos / 'broken.mp4'}: " in done.output
    model = visil.load(tmp_path)
    assert (model.config.backbone, model.config.stages, model.config.levels) == (
        "efficientnet-lite0",
        (0,),
        (1, 3),
    )

    with torch.no_grad():
        vectors = torch.cat(
            [
                model.region_vectors(read_frames(videos / f"{seed}.mp4", model.config.sampling).images)
                for seed in (0, 1)
            ]
        )
    flat = vectors.reshape(-1, 24).double().numpy()
    assert len(flat) == 80
    centred = flat - flat.mean(axis=0)
    _, scales, axes = np.linalg.svd(centred, full_matrices=False)
    white = centred @ axes[:8].T / np.sqrt(scales[:8] ** 2 / len(flat) + 1e-7)
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    assert model.whitening is not None
    found = model.whitening(vectors.reshape(-1, 24)).numpy()
    np.testing.assert_allclose(found @ found.T, white @ white.T, atol=1e-3)


def test_of_many_frames_an_even_spread_is_taken(videos: Path) -> None:
    """Two videos of four samples: every second of the eight, each the very sample that reading all would give."""
    files = sorted(videos.glob("*.mp4"))
    sampling = Sampling(resize=64, crop=64)
    sampled = SampledFrames(files, sampling, 4)
    found = np.concatenate(list(sampled))
    assert [Path(path).name for path, _ in sampled.failed] == ["broken.mp4"]
    rows = [read_frames(file, sampling).images for file in files[:2]]
    assert [len(row) for row in rows] == [4, 4]
    expected = np.concatenate(rows)[[0, 2, 4, 6]]
    assert np.array_equal(found, expected)
    config = whitened_config("lite0", (0,), (3,), 8)
    assert fit_whitening([videos], config, CPU, vectors=36).vectors == 4 * 9


@given(st.lists(st.integers(1, 9), max_size=6), st.floats(1, 5))
def test_the_spread_is_even_over_all_rows(counts: list[int], every: float) -> None:
    starts = np.cumsum([0, *counts])
    taken = [start + p for start, row in zip(starts, spread(counts, every), strict=False) for p in row]
    assert taken == [place for k in range(sum(counts)) if (place := int(np.ceil(k * every))) < sum(counts)]


def test_a_recipe_says_what_is_fitted(videos: Path, tmp_path: Path) -> None:
    recipe = ["--recipe", "paper", "--backbone", "lite0", "--dim", "8"]
    done = CliRunner().invoke(app, ["fit-whitening", str(videos), "--out", str(tmp_path), *recipe])
    assert done.stderr.splitlines()[0] == "recipe paper: efficientnet-lite0, whitened to 8 dimensions"
    assert "needs more than 496 vectors, got 72" in str(done.exception)
    config = recipe_config("paper", "lite0")
    assert (config.levels, config.stages, config.sampling) == ((3,), (0, 1, 2, 3), Sampling())
    mixed = ["fit-whitening", str(videos), "--out", "x", "--recipe", "paper", "--stages", "1"]
    assert "leave --stages" in str(CliRunner().invoke(app, mixed).exception)
    assert recipe_config("paper").dim == 3840
    assert recipe_config("paper-512").dim == 512
    with pytest.raises(UsageError, match="paper-f is not whitened"):
        recipe_config("paper-f")


def test_usual_stages_and_widths() -> None:
    lite = whitened_config("lite0", None, (3,), None)
    assert (lite.stages, lite.dim) == ((1, 2, 3), 40 + 112 + 320)
    paper = whitened_config("resnet50", None, (3,), 512)
    assert (paper.name, paper.stages, paper.dim) == ("visil-resnet50-f+w", (0, 1, 2, 3), 512)


def test_mistakes_are_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="unknown backbone 'lite9': choose one of"):
        whitened_config("lite9", None, (3,), None)
    config = whitened_config("lite0", (0,), (1,), None)
    with pytest.raises(UsageError, match="no video to fit on: none was found"):
        fit_whitening([tmp_path], config, CPU)
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="no video to fit on: "):
        fit_whitening([tmp_path], config, CPU)
    write_video(tmp_path / "b.mp4", moving_scene(0, 1, fps=2, size=(96, 96)), fps=2)
    with pytest.raises(UsageError, match="needs more than 24 vectors, got 1: add videos"):
        fit_whitening([tmp_path], config, CPU)
    done = CliRunner().invoke(app, ["fit-whitening", str(tmp_path), "--out", "x", "--stages", "one"])
    assert isinstance(done.exception, UsageError)
    assert "stages must be whole numbers with commas between, not 'one'" in str(done.exception)
