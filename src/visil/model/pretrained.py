"""Models on disk and on the hub: ``config.json`` and ``model.safetensors``, the hub's own conventions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from visil.errors import ModelError
from visil.files import replacing_together
from visil.model.backbones.weights import load_into, read_tensors
from visil.model.config import read_config
from visil.model.network import Network

Model = TypeVar("Model", bound=Network)

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
BACKBONE_PREFIX = "backbone."


def save(model: Network, folder: Path, *, include_backbone: bool = True, half: bool = False) -> None:
    """Write a model; a reader never meets part of one. ``half``: in half precision, half the size."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {k: v.contiguous().cpu() for k, v in model.state_dict().items()}
    if half:
        tensors = {k: v.half() if v.is_floating_point() else v for k, v in tensors.items()}
    if not include_backbone:
        tensors = {k: v for k, v in tensors.items() if not k.startswith(BACKBONE_PREFIX)}
    try:
        with replacing_together(folder, (WEIGHTS_FILE, CONFIG_FILE)) as fresh:
            save_file(tensors, fresh / WEIGHTS_FILE, metadata={"format": "pt"})
            (fresh / CONFIG_FILE).write_text(model.config.to_json(), "utf-8")
            shutil.copymode(fresh / CONFIG_FILE, fresh / WEIGHTS_FILE)  # as readable as any file one writes
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(f"{folder}: the model could not be written ({reason})") from error


def load(name: str | os.PathLike[str], kind: type[Model]) -> Model:
    """A model of class ``kind`` from a folder, or from the hub where ``name`` is an id (``organisation/model``)."""
    folder = Path(name)
    if not folder.is_dir():
        if folder.exists():
            raise ModelError(
                f"{folder}: is a file; a model is a folder with {CONFIG_FILE} and {WEIGHTS_FILE}"
            )
        if not is_hub_id(os.fspath(name)):
            raise ModelError(f"{name}: no such model folder, and not a hub id (organisation/model)")
        folder = pull_from_hub(os.fspath(name))
    return load_folder(folder, kind)


def load_folder(folder: Path, kind: type[Model]) -> Model:
    """A model of class ``kind`` from a folder; a backbone not saved with it comes from where its weights are known."""
    config = read_config(folder)
    path = folder / WEIGHTS_FILE
    tensors = {k: v for k, v in read_tensors(path).items() if isinstance(v, Tensor)} if path.exists() else {}
    has_backbone = any(k.startswith(BACKBONE_PREFIX) for k in tensors)
    model = kind(config, with_backbone=has_backbone)
    if model.state_dict() and not path.exists():
        raise ModelError(f"{path}: no such file")
    load_into(model, tensors, str(path))
    if not has_backbone:
        try:
            model.load_backbone()
        except ModelError as error:  # it can still compare features; embedding names the missing part
            model.why_no_backbone = str(error)
    return model.eval()


def is_hub_id(name: str) -> bool:
    """Whether ``name`` has the form of a hub id: two plain words and one slash."""
    parts = name.split("/")
    return len(parts) == 2 and all(
        p and p.strip(".") and all(c.isalnum() or c in "-_." for c in p) for p in parts
    )


def pull_from_hub(name: str) -> Path:
    """Download a model from the hub (or find it in the hub's cache); ``HF_ENDPOINT`` names another hub."""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise ModelError(
            f"{name}: loading from the hub needs huggingface_hub: pip install 'visil[hub]'"
        ) from None
    try:
        hf_hub_download(name, WEIGHTS_FILE)
        return Path(hf_hub_download(name, CONFIG_FILE)).parent
    except Exception as error:  # the hub client raises its own, httpx's and OSError
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ModelError(f"{name}: could not be fetched from the hub ({reason})") from error
