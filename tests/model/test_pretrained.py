"""Models on disk and on a hub, presets by name: bit for bit, whole or not at all, and errors in one line."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

import visil
from forked import fork
from visil.compare.visil import ViSiL
from visil.errors import ModelError
from visil.matching.calibration import Calibration
from visil.matching.localize import LocalizeConfig
from visil.model.backbones import ResNet50
from visil.model.config import FORMAT, PRESETS, VISIL_F, VISIL_V, ViSiLConfig, preset
from visil.model.pretrained import is_hub_id
from visil.video import Sampling

CONFIG = VISIL_V.replaced(
    name="small",
    backbone="efficientnet-lite0",
    stages=(1, 3),
    levels=(1, 2),
    dim=24,
    sampling=Sampling(fps=2.0, resize=128, crop=96),
    localize=LocalizeConfig(threshold=0.25),
    calibration=Calibration(-1.0, 2.0, 0.5, 3.0),
)
FRAMES = np.random.default_rng(0).integers(0, 256, (3, 48, 48, 3), dtype=np.uint8)


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    message = str(error.value)
    assert message
    assert "\n" not in message
    return message


def trained(config: ViSiLConfig = CONFIG, seed: int = 0) -> ViSiL:
    """A model with the package's backbone and every other weight drawn anew."""
    model = ViSiL(config, with_backbone=False).load_backbone()
    generator = torch.Generator().manual_seed(seed)
    for name, value in model.state_dict().items():
        if not name.startswith("backbone."):
            value.copy_(torch.randn(value.shape, generator=generator) * 0.1)
    return model


def same(a: ViSiL, b: ViSiL) -> bool:
    ours, theirs = a.state_dict(), b.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.fixture(scope="module")
def model() -> ViSiL:
    return trained()


@pytest.fixture
def saved(model: ViSiL, tmp_path: Path) -> Path:
    """A folder with a model in it, the backbone left out."""
    model.save_pretrained(tmp_path / "model", include_backbone=False)
    return tmp_path / "model"


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("include_backbone", [True, False])
def test_round_trip_is_bit_exact(model: ViSiL, tmp_path: Path, include_backbone: bool) -> None:
    folder = tmp_path / "new" / "folder"
    model.save_pretrained(folder, include_backbone=include_backbone)
    assert sorted(contents(folder)) == ["config.json", "model.safetensors"]
    for loaded in (ViSiL.from_pretrained(folder), visil.load(str(folder))):
        assert loaded.config == model.config
        assert same(loaded, model)
        assert not loaded.training
    a, b = model.embed_frames(FRAMES), loaded.embed_frames(FRAMES)
    assert torch.equal(a.vectors, b.vectors)
    assert model.compare(a, b).score == loaded.compare(a, b).score


def test_a_backbone_that_was_trained_on_is_kept(tmp_path: Path) -> None:
    tuned = trained(CONFIG)
    assert tuned.backbone is not None
    with torch.no_grad():
        next(iter(tuned.backbone.parameters())).add_(0.01)
    tuned.save_pretrained(tmp_path)
    assert same(ViSiL.from_pretrained(tmp_path), tuned)


def test_a_model_without_learned_parts(tmp_path: Path) -> None:
    """ViSiL_f: with its backbone left out, nothing but the configuration remains."""
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"), with_backbone=False).load_backbone()
    model.save_pretrained(tmp_path, include_backbone=False)
    assert same(ViSiL.from_pretrained(tmp_path), model)


def test_config_json(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text("utf-8"))
    assert config["model_type"] == "visil"
    assert config["format"] == FORMAT
    assert config["backbone"] == "efficientnet-lite0"
    assert config["stages"] == [1, 3]
    assert config["dim"] == 24
    assert config["attention"] == "context"
    assert config["comparator"] == "replicate"
    assert config["sampling"]["fps"] == 2.0
    assert config["localize"]["threshold"] == 0.25
    assert config["calibration"]["stretch_cap"] == 3.0


def test_settings_left_out_of_config_json_have_their_defaults() -> None:
    assert ViSiLConfig.from_json('{"model_type": "visil"}', "config.json") == ViSiLConfig()


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_json(name: str) -> None:
    assert ViSiLConfig.from_json(PRESETS[name].to_json(), "config.json") == PRESETS[name]


def test_saving_over_an_old_model(saved: Path) -> None:
    newer = trained(CONFIG.replaced(name="newer", symmetric=True), seed=1)
    newer.save_pretrained(saved, include_backbone=False)
    loaded = ViSiL.from_pretrained(saved)
    assert loaded.config == newer.config
    assert same(loaded, newer)
    assert sorted(contents(saved)) == ["config.json", "model.safetensors"]


# ---------------------------------------------------------------- a disk that fails


@pytest.mark.parametrize("failing", ["model.safetensors", "config.json"])
def test_a_failed_save_leaves_the_old_model_whole(
    saved: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = contents(saved)
    newer = trained(CONFIG.replaced(name="newer", dim=16), seed=1)
    replace = os.replace

    def full(source: os.PathLike[str], target: os.PathLike[str]) -> None:
        if Path(target) == saved / failing:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ModelError, match="No space left on device") as error:
        newer.save_pretrained(saved)
    assert str(saved) in one_line(error)
    monkeypatch.undo()
    assert contents(saved) == before


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing past ``size`` bytes fails, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_weights_that_do_not_fit_on_the_disk(model: ViSiL, saved: Path) -> None:
    before = contents(saved)
    with files_of_at_most(50_000), pytest.raises(ModelError, match="could not be written") as error:
        model.save_pretrained(saved)
    assert str(saved) in one_line(error)
    assert contents(saved) == before


def test_a_folder_that_cannot_be_made(model: ViSiL, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ModelError, match="could not be written") as error:
            model.save_pretrained(folder)
        assert str(folder) in one_line(error)
    assert (tmp_path / "file").read_text() == "in the way"


# ---------------------------------------------------------------- folders that hold something else


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "config.json"),
        ("{", "config.json"),
        ("[]", "not the configuration of a visil model"),
        ('{"model_type": "bert"}', "not the configuration of a visil model"),
        (f'{{"model_type": "visil", "format": {FORMAT + 1}}}', "newer visil"),
        ('{"model_type": "visil", "format": "new"}', "config.json"),
        ('{"model_type": "visil", "colour": "blue"}', "colour"),
        ('{"model_type": "visil", "pooling": "median"}', "median"),
        ('{"model_type": "visil", "attention": "soft"}', "soft"),
        ('{"model_type": "visil", "comparator": "mirror"}', "mirror"),
        ('{"model_type": "visil", "levels": [0]}', "levels"),
        ('{"model_type": "visil", "levels": 3}', "config.json"),
        ('{"model_type": "visil", "stages": [2, 1]}', "stages"),
        ('{"model_type": "visil", "stages": ["a"]}', "stages"),
        ('{"model_type": "visil", "dim": 0}', "dim"),
        ('{"model_type": "visil", "dim": 2.5}', "dim"),
        ('{"model_type": "visil", "frame_pool": ["max"]}', "pooling"),
        ('{"model_type": "visil", "sampling": {"fps": -1}}', "fps"),
        ('{"model_type": "visil", "sampling": {"rate": 1}}', "rate"),
        ('{"model_type": "visil", "calibration": {}}', "config.json"),
        ('{"model_type": "visil", "backbone": "vgg16"}', "vgg16"),
        ('{"model_type": "visil", "backbone": ["resnet50"]}', "backbone"),
    ],
)
def test_configurations_that_cannot_be_read(saved: Path, text: str, said: str) -> None:
    (saved / "config.json").write_text(text)
    with pytest.raises(ModelError) as error:
        ViSiL.from_pretrained(saved)
    assert said in one_line(error)


def test_a_configuration_in_another_encoding(saved: Path) -> None:
    (saved / "config.json").write_bytes(b'\xff\xfe{"model_type": "visil"}')
    with pytest.raises(ModelError) as error:
        ViSiL.from_pretrained(saved)
    assert str(saved / "config.json") in one_line(error)


def test_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no config\.json") as error:
        ViSiL.from_pretrained(tmp_path)
    assert str(tmp_path) in one_line(error)


def test_no_weights(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="no such file") as error:
        ViSiL.from_pretrained(saved)
    assert str(saved / "model.safetensors") in one_line(error)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.99])
def test_cut_weights(saved: Path, part: float) -> None:
    path = saved / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ModelError) as error:
        ViSiL.from_pretrained(saved)
    assert str(path) in one_line(error)


def test_weights_of_another_configuration(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    (saved / "config.json").write_text(json.dumps({**config, "dim": 20}))
    with pytest.raises(ModelError, match=r"expected \[.*20.*\]") as error:
        ViSiL.from_pretrained(saved)
    assert str(saved / "model.safetensors") in one_line(error)


def test_names_that_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name, said in (
        (str(tmp_path / "absent"), "no such model folder"),
        (str(tmp_path / "model.safetensors"), "is a file"),
        ("visil-x", "visil-x"),
    ):
        with pytest.raises(ModelError, match=said) as error:
            visil.load(name)
        one_line(error)


@pytest.mark.parametrize("name", ["a/b", "mever-team/visil_v.1"])
def test_hub_ids(name: str) -> None:
    assert is_hub_id(name)


@pytest.mark.parametrize("name", ["a", "a/b/c", "/a", "a/", "../a", "./a", "a b/c", "~/model", "a/.."])
def test_what_is_no_hub_id(name: str) -> None:
    assert not is_hub_id(name)


# ---------------------------------------------------------------- presets


def test_the_papers_configurations() -> None:
    """Table 3: what each variant adds to the one before."""
    assert list(PRESETS) == ["visil-f", "visil-f+w", "visil-f+w+a", "visil-sym", "visil-v"]
    rows = {
        "visil-f": (None, None, None, False),
        "visil-f+w": (3840, None, None, False),
        "visil-f+w+a": (3840, "context", None, False),
        "visil-v": (3840, "context", "replicate", False),
        "visil-sym": (512, "context", "replicate", True),
    }
    for name, row in rows.items():
        config = PRESETS[name]
        assert (config.dim, config.attention, config.comparator, config.symmetric) == row
        assert (config.backbone, config.stages, config.levels) == ("resnet50", (0, 1, 2, 3), (3,))
        assert config.frame_pool == config.video_pool == ("max", "mean")


@pytest.mark.parametrize("name", ["visil-v", "visil_v", "ViSiL_V", "VISIL-V"])
def test_presets_by_name(name: str) -> None:
    assert preset(name) is VISIL_V


def test_unknown_preset() -> None:
    with pytest.raises(ModelError, match="unknown preset 'visil-q'") as error:
        preset("visil-q")
    assert "visil-sym" in one_line(error)


def test_a_preset_on_given_weights(tmp_path: Path) -> None:
    state = {**ResNet50().state_dict(), "fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
    torch.save(state, tmp_path / "resnet50.pth")
    with pytest.warns(UserWarning, match="whitening and attention and comparator not trained"):
        model = visil.load("visil-v", backbone="resnet50", backbone_weights=tmp_path / "resnet50.pth")
    assert model.config == VISIL_V
    assert model.backbone is not None
    assert all(torch.equal(v, state[k]) for k, v in model.backbone.state_dict().items())
    assert model.embed_frames(FRAMES[:1]).vectors.shape == (1, 9, 3840)


def test_a_preset_on_another_backbone() -> None:
    """As wide as that backbone is; nothing learned, so nothing to warn of in ViSiL_f."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = visil.load("visil_f", backbone="efficientnet-lite0")
    assert model.dim == 24 + 40 + 112 + 320
    with pytest.warns(UserWarning, match="not trained"):
        assert visil.load("visil-v", backbone="efficientnet-lite0").config.dim == 496
    with pytest.warns(UserWarning, match="not trained"):
        assert visil.load("visil-sym", backbone="efficientnet-lite0").config.dim == 496


def test_a_preset_without_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ModelError, match="backbone_weights") as error:
        visil.load("visil-v")
    assert "resnet50-0676ba61.pth" in one_line(error)


def test_backbones_that_cannot_be_chosen(saved: Path) -> None:
    with pytest.raises(ModelError, match="unknown backbone 'vgg'"):
        visil.load("visil-v", backbone="vgg")
    with pytest.raises(ModelError, match="not for a finished model") as error:
        visil.load(str(saved), backbone="resnet50")
    one_line(error)


# ---------------------------------------------------------------- a hub


class Hub:
    """The two requests that fetch a file from a hub, served from folders: HEAD and GET of /{id}/resolve/main/{file}."""

    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, models: dict[str, Path]) -> None:
        self.requests: list[tuple[str, str]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.requests.append((self.command, self.path))
                name, _, file = self.path.lstrip("/").partition("/resolve/main/")
                path = models.get(name, Path("absent")) / (file or "absent")
                if not path.is_file():
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound" if name in models else "RepoNotFound")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = path.read_bytes()
                self.send_response(200)
                self.send_header("ETag", f'"{file}-1"')
                self.send_header("X-Repo-Commit", hub.COMMIT)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def ask_hub(endpoint: str, home: Path, *names: str) -> list[object]:
    """In a process of its own: the hub's client reads its settings when it is imported."""

    def ask() -> None:
        for name in [name for name in os.environ if name.startswith("HF_") or "proxy" in name.lower()]:
            del os.environ[name]
        os.environ |= {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        }
        for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
            del sys.modules[name]
        os.chdir(home)
        time.sleep = lambda _: None  # the client waits longer and longer between its attempts
        report: list[object] = []
        for name in names:
            try:
                model = visil.load(name)
                report.append([model.config.name, weight_sum(model)])
            except ModelError as error:
                report.append(str(error))
        print(json.dumps(report))

    child = fork(ask, home)
    out, err = child.communicate(60)
    assert child.returncode == 0, err
    answers: list[object] = json.loads(out)
    return answers


def weight_sum(model: ViSiL) -> float:
    assert model.comparator is not None
    return float(model.comparator.conv1.weight.detach().double().sum())


def test_models_from_a_hub(model: ViSiL, saved: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text(CONFIG.to_json())
    home = tmp_path / "home"
    home.mkdir()
    hub = Hub({"museum/small": saved, "museum/bare": bare})
    try:
        found, absent, incomplete = ask_hub(
            hub.endpoint, home, "museum/small", "museum/absent", "museum/bare"
        )
    finally:
        hub.close()
    expected = ["small", pytest.approx(weight_sum(model), abs=1e-9)]
    assert found == expected
    for name, answer in (("museum/absent", absent), ("museum/bare", incomplete)):
        assert isinstance(answer, str), name
        assert answer.startswith(f"{name}: could not be fetched from the hub")
        assert "\n" not in answer
    assert ("GET", "/museum/small/resolve/main/model.safetensors") in hub.requests

    # The hub is gone: what was fetched is still there, what was not is said in one line.
    cached, unknown = ask_hub(hub.endpoint, home, "museum/small", "museum/other")
    assert cached == expected
    assert isinstance(unknown, str)
    assert unknown.startswith("museum/other: could not be fetched from the hub")
    assert "\n" not in unknown
