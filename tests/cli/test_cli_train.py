"""``visil train`` as a user runs it: a folder of videos, a file of settings, Ctrl-C, mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import visil as package
from synthetic import moving_scene, write_video
from visil.cli.app import app
from visil.errors import UsageError, VisilError
from visil.machine import processes
from visil.model.codes import decode, encode
from visil.model.features import VideoFeatures

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
QUICK = ("--triplets", "2", "--batch", "2", "--device", "cpu")
SMALL = "model: {start: visil-v, backbone: efficientnet-lite0, stages: [0], levels: [2], side: 32, name: me}"


def command(*arguments: str | os.PathLike[str]) -> list[str]:
    return processes.python("-m", "visil.__main__", *(os.fspath(argument) for argument in arguments))


def failure(*arguments: str | os.PathLike[str]) -> str:
    """What the command says when it fails, as ``main`` prints it."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert isinstance(done.exception, VisilError), done.output
    return str(done.exception)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five short videos, and a file that is none."""
    folder = tmp_path_factory.mktemp("videos")
    for seed in range(5):
        write_video(folder / f"{seed}.mp4", moving_scene(seed, 3, fps=4, size=(120, 160)), fps=4)
    (folder / "broken.mp4").write_bytes(b"not a video")
    return folder


def test_recipes_of_the_family(videos: Path, tmp_path: Path) -> None:
    """Self-supervised first; then its outcome teaches a small student, and a binary one."""
    small = "model: {backbone: efficientnet-lite0, stages: [0], levels: [2], side: 32, dim: 12}"
    said = {
        "s2vs": "attention, comparator; infonce τ 0.03, r 1, W 32",
        "dns-small": f"attention, comparator; distillation of {tmp_path / 's2vs'}, r 0.001, W 64",
        "dns-binary": f"binary codes, comparator; distillation of {tmp_path / 's2vs'}, r 0.001, W 64",
    }
    for recipe, line in said.items():
        file, out = tmp_path / f"{recipe}.yaml", tmp_path / recipe
        file.write_text(f"recipe: {recipe}\ndata: {{fps: 4}}\n{small}\n", "utf-8")
        teacher = [] if recipe == "s2vs" else ["--teacher", str(tmp_path / "s2vs")]
        arguments = ["train", str(file), "--videos", str(videos), "--out", str(out), "--epochs", "1"]
        done = CliRunner().invoke(app, [*arguments, *teacher, *QUICK])
        assert done.exit_code == 0, done.output
        assert f"{line}; Adam" in done.stderr.splitlines()[0]
        trained = package.load(str(out))
        assert (trained.config.comparator, trained.config.sampling.crop) == ("zeros", 32)
        a, b = (trained.embed(videos / f"{seed}.mp4") for seed in (0, 1))
        assert -1 <= trained.compare(a, b).score <= 1
    assert len(a.vectors.abs().unique()) == 1  # bits, which are kept as signs without any loss
    coded = VideoFeatures(decode(encode(a.vectors, "binary")), a.timestamps)
    assert trained.compare(coded, b).score == pytest.approx(trained.compare(a, b).score, abs=1e-3)


def test_a_folder_is_enough(videos: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = CliRunner().invoke(
        app, ["train", "--videos", str(videos), "--out", str(out), "--epochs", "1", *QUICK]
    )
    assert done.exit_code == 0, done.output
    told = done.stderr.splitlines()
    assert told[0].startswith(
        "recipe default: efficientnet-lite0, L1 + L2 + L3-iMAC, whitened to 256 dimensions"
    )
    assert told[1].startswith(f"left out: {videos / 'broken.mp4'}: ")
    assert told[2] == "3 videos to learn from, 2 to validate on"
    assert told[3:] == ["triplets are drawn from 3 of 3 videos"]
    assert done.stdout.startswith(f"{out}: epoch 1 was best, mAP ")
    assert [json.loads(line)["epoch"] for line in (out / "log.jsonl").read_text().splitlines()] == [0, 1]
    model = package.load(out)
    assert (model.config.attention, model.config.comparator) == ("context", "replicate")
    assert model.config.calibration is None
    shipped = package.load()
    assert model.whitening is not None
    assert shipped.whitening is not None
    assert (model.whitening.projection == shipped.whitening.projection).all()


def test_ctrl_c_leaves_a_checkpoint_that_only_the_same_run_takes(videos: Path, tmp_path: Path) -> None:
    settings = tmp_path / "train.yaml"
    settings.write_text(f"{{{SMALL}}}")
    arguments = ("train", settings, "--videos", videos, "--out", tmp_path, "--epochs", "1000", *QUICK)
    running = subprocess.Popen(
        command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    checkpoint = tmp_path / "last.pt"
    while running.poll() is None and not checkpoint.exists():
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    printed, told = running.communicate(timeout=60)
    assert running.returncode == 130
    assert told.splitlines()[-1] == "visil: stopped"
    assert "Traceback" not in told
    steps = torch.load(checkpoint, weights_only=True)["standing"]["step"]
    assert printed == f"stopped after step {steps}: the same command goes on from there\n"
    before = len((tmp_path / "log.jsonl").read_text().splitlines())

    refused = failure(*arguments, "--lr", "1e-3")
    assert refused.startswith(
        f"{checkpoint}: belongs to a run with optim.lr 1e-05, not 0.001: choose another output folder"
    )
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    assert failure(*arguments).startswith(f"{checkpoint}: is damaged: delete it to ")
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == before


def test_a_preset_has_its_whitening_fitted(videos: Path, tmp_path: Path) -> None:
    settings = tmp_path / "train.yaml"
    settings.write_text(
        f"""
        data: {{videos: {videos}, window: 4, triplets: 2, fps: 2}}
        {SMALL}
        loss: {{kind: infonce}}
        optim: {{epochs: 1, batch: 2, precision: bf16}}
        augmentation: heavy
        out: {tmp_path / "out"}
        device: cpu
        """
    )
    done = CliRunner().invoke(app, ["train", str(settings)])
    assert done.exit_code == 0, done.output
    model, start = package.load(tmp_path / "out"), package.load(tmp_path / "out" / "start")
    assert (model.config.name, model.config.dim, model.config.sampling.fps) == ("me", 24, 2.0)
    assert model.whitening is not None
    assert start.whitening is not None
    assert (model.whitening.mean == start.whitening.mean).all()
    assert model.whitening.mean.abs().max() > 0


def test_mistakes_are_one_line(videos: Path, tmp_path: Path) -> None:
    settings = tmp_path / "train.yaml"
    settings.write_text("optim: {learning_rate: 1}")
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, said in (
        (("train", settings), f"{settings}: unknown setting optim.learning_rate: choose from batch,"),
        (("train", "--out", tmp_path / "a"), "no videos to learn from: set data.videos, or give --videos"),
        (
            ("train", "--videos", empty, "--out", tmp_path / "b"),
            "at least two readable videos are needed to learn from, found 0",
        ),
        (("train", "--videos", videos, "--out", settings), f"{settings}: cannot be made the output folder"),
        (("train", "--recipe", "x"), "unknown recipe 'x': choose one of default, paper, "),
        (
            ("train", settings, "--recipe", "paper"),
            "a recipe and a file: leave one out, or write recipe: NAME",
        ),
        (
            ("train", "--recipe", "paper", "--backbone-weights", empty / "no.pth", "--out", tmp_path / "c"),
            f"{empty / 'no.pth'}: ",
        ),
    ):
        message = failure(*arguments)
        assert message.startswith(said)
        assert "\n" not in message


def test_a_recipe_of_the_paper_without_annotations_says_what_is_left_out(
    videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise UsageError("work begins")

    monkeypatch.setattr("visil.training.run._footage", nothing)
    arguments = ["train", "--videos", str(videos), "--out", str(tmp_path)]
    paper = ["--recipe", "paper", "--backbone", "efficientnet-lite0"]
    told = "no annotations: the paper's first pool, annotated pairs, is left out; all positives are edited copies"
    for more, expected in (
        (paper, [told]),
        ([*paper, "--annotations", str(videos)], []),
        ([], []),
    ):
        done = CliRunner().invoke(app, [*arguments, *more])
        assert str(done.exception) == "work begins"
        first, *others = done.stderr.splitlines()
        assert first.startswith("recipe ")
        assert others == expected


def test_a_reader_is_learned_in_two_runs_the_second_without_footage(videos: Path, tmp_path: Path) -> None:
    base, out = tmp_path / "base", tmp_path / "out"
    assert (
        CliRunner()
        .invoke(app, ["fit-whitening", str(videos), "--out", str(base), "--stages", "0", "--dim", "8"])
        .exit_code
        == 0
    )
    shape = "shape: {hidden: 3, dilations: [1], window: 3}"
    settings = tmp_path / "reader.yaml"
    settings.write_text(
        f"model: {{start: {base}, attention: none, comparator: none}}\noptim: {{epochs: 0}}\n"
        f"reader: {{pieces: 6, epochs: 0, background: 4, {shape}}}\n"
    )
    arguments = ["--out", str(out), "--device", "cpu"]
    done = CliRunner().invoke(app, ["train", str(settings), "--videos", str(videos), *arguments])
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{out}: pairs are ready to learn a reader from\n"
    settings.write_text(
        f"model: {{start: {base}, attention: none, comparator: none}}\noptim: {{epochs: 0}}\n"
        f"reader: {{pairs: {out / 'pairs.safetensors'}, epochs: 2, {shape}}}\n"
    )
    done = CliRunner().invoke(app, ["train", str(settings), *arguments])
    assert done.exit_code == 0, done.output
    assert " was best, mAP " in done.stdout
    model = package.load(out)
    assert model.config.reader is not None
    assert model.compare(videos / "0.mp4", videos / "1.mp4").segments is not None
    other = ["train", str(settings), "--model", "default", *arguments]
    assert "another model" in failure(*other)
