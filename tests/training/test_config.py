"""Training configurations: the paper's values by default, and every mistake told by file, key and what is expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from visil.errors import VisilError
from visil.training.config import TrainConfig
from visil.training.config_file import read_train_config, train_config


def written(folder: Path, text: str) -> Path:
    path = folder / "train.yaml"
    path.write_text(text, "utf-8")
    return path


def test_defaults_are_the_papers() -> None:
    config = TrainConfig()
    assert (config.loss.kind, config.loss.margin, config.loss.regularisation) == ("triplet", 0.5, 0.1)
    assert (config.data.window, config.data.triplets) == (64, 1000)
    assert (config.optim.lr, config.optim.epochs, config.optim.batch) == (1e-5, 100, 1)
    assert config.optim.trainable == ("attention", "comparator")


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert read_train_config(written(tmp_path, "# nothing yet\n")) == TrainConfig()


def test_values_arrive_in_their_types(tmp_path: Path) -> None:
    text = """
    data: {videos: [a, b.mp4], fps: 2, validation: held}
    model: {start: visil-v, backbone: efficientnet-lite0, dim: 64, levels: [1, 3], attention: none}
    loss: {kind: infonce, temperature: 0.05}
    optim: {lr: 1e-4, batch: 8, schedule: cosine, precision: bf16, trainable: [comparator, backbone]}
    augmentation: heavy
    seed: 3
    """
    config = read_train_config(written(tmp_path, text))
    assert config.data.videos == ("a", "b.mp4")
    assert config.data.validation == ("held",)
    assert isinstance(config.data.fps, float)
    assert config.optim.lr == 1e-4
    assert config.model.levels == (1, 3)
    assert config.model.attention == "none"
    assert config.optim.trainable == ("comparator", "backbone")
    assert config.augmentation == "heavy"
    assert train_config(config.to_dict()) == config


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loss: {margn: 1}", "unknown setting loss.margn: choose from hard_negative, kind, margin"),
        ("los: {}", "unknown setting los: choose from"),
        ("loss: {margin: wide}", "loss.margin must be a number, not 'wide'"),
        ("loss: {kind: hinge}", "loss.kind must be one of triplet, infonce, distillation, not 'hinge'"),
        ("loss: 3", "loss must hold settings (name: value), not 3"),
        ("- 3", "the file must hold settings (name: value), not [3]"),
        ("optim: {batch: 1.5}", "optim.batch must be a whole number, not 1.5"),
        ("optim: {batch: true}", "optim.batch must be a whole number, not True"),
        ("optim: {lr: yes}", "optim.lr must be a number, not True"),
        ("optim: {trainable: [head]}", "optim.trainable[0] must be one of attention, comparator"),
        ("model: {symmetric: maybe}", "model.symmetric must be true or false or empty, not 'maybe'"),
        ("model: {dim: x}", "model.dim must be a whole number or empty, not 'x'"),
        ("data: {videos: {a: 1}}", "data.videos must be a list, each text, not {'a': 1}"),
        ("data: {window: 3}", "data.window must be 4 or more, not 3"),
        ("optim: {lr: 0}", "optim.lr must be above 0, not 0.0"),
        ("optim: {lr: .nan}", "optim.lr must be above 0, not nan"),
        ("optim: {trainable: []}", "optim.trainable must name a part"),
        ("{recipe: s2vs, optim: {batch: 1}}", "optim.batch must be 2 or more, not 1"),
        ("loss: [unclosed", "is not YAML"),
    ],
)
def test_mistakes_are_named(text: str, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(VisilError) as caught:
        read_train_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert said in message
    assert "\n" not in message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VisilError, match=r"none\.yaml: cannot be read: no such file"):
        read_train_config(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VisilError, match="is not a text file"):
        read_train_config(tmp_path / "binary.yaml")


def test_only_what_results_depend_on_is_decisive() -> None:
    assert TrainConfig(out="a", device="cpu").decisive() == TrainConfig(out="b", tensorboard=True).decisive()
    assert TrainConfig(seed=1).decisive() != TrainConfig().decisive()
    assert TrainConfig().decisive()["loss.margin"] == 0.5
