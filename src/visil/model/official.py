"""The authors' released files: ``visil.pth``, ``visil_symmetric.pth``, the DnS and S2VS fine-grained students.

| file | attention | comparator | keys |
|---|---|---|---|
| visil.pth, visil_symmetric.pth | context (Eq. 3) | replicate padding | ``attention.*``, ``video_comperator.*`` |
| DnS fg_att, S2VS | hidden layer | zero padding | ``attention.*``, ``visil_head.*``, under ``model`` |
| DnS fg_bin | none: signs of a rotation | zero padding | ``binarization.W``, ``visil_head.*``, under ``model`` |

The PCA file holds ``mean``, ``d`` (eigenvalues) and ``V`` (eigenvectors in columns), as ``.pth`` or ``.npz``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from visil.errors import ModelError
from visil.model.backbones.weights import load_into, read_checkpoint, read_tensors
from visil.model.comparator import Padding
from visil.model.config import VISIL_V, Attention
from visil.model.network import Network
from visil.model.whitening import Whitening

Model = TypeVar("Model", bound=Network)

COMPARATOR_PREFIXES = ("video_comperator.", "visil_head.video_comperator.", "visil_head.")
ATTENTION_PREFIXES = ("attention.", "visil_head.attention.")
BINARY = "binarization.W"


def from_official(
    kind: type[Model],
    weights: str | os.PathLike[str],
    pca: str | os.PathLike[str] | None = None,
    *,
    backbone_weights: str | os.PathLike[str] | None = None,
    symmetric: bool = False,
) -> Model:
    """A model of class ``kind`` from the authors' files; see :meth:`visil.ViSiL.from_official`."""
    tensors = read_checkpoint(weights)
    origin = os.fspath(weights)
    way, attention = _attention(tensors, origin)
    comparator = _part(tensors, COMPARATOR_PREFIXES, "conv1.weight", origin)
    dim = next(iter(attention.values())).shape[-1]
    padding: Padding = "replicate" if way == "context" else "zeros"
    config = VISIL_V.replaced(
        name=Path(weights).stem, dim=dim, attention=way, comparator=padding, symmetric=symmetric
    )
    model = kind(config, with_backbone=False)
    assert model.attention is not None
    assert model.comparator is not None
    load_into(model.attention, attention, origin)
    load_into(model.comparator, comparator, origin)
    if pca is not None:
        model.whitening = read_pca(pca, dim)
    if backbone_weights is not None:
        if pca is None:
            raise ModelError(
                "to embed videos, from_official needs the authors' PCA file as well as backbone_weights"
            )
        model.load_backbone(backbone_weights)
    return model.eval()


def _attention(tensors: dict[str, Tensor], origin: str) -> tuple[Attention, dict[str, Tensor]]:
    """Which kind of attention a file has, and its weights by our names."""
    if BINARY in tensors:
        matrix = tensors[BINARY]
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ModelError(
                f"{origin}: {BINARY} is {list(matrix.shape)}, expected as many bits as dimensions"
            )
        return "binary", {"rotation": matrix}
    found = _part(tensors, ATTENTION_PREFIXES, "context_vector.weight", origin)
    found = dict(sorted(found.items()))  # the context vector first, whose width is the number of dimensions
    return ("hidden" if "transform.weight" in found else "context"), found


def read_pca(path: str | os.PathLike[str], dim: int) -> Whitening:
    """The authors' PCA file as a whitening layer that keeps ``dim`` dimensions."""
    if Path(path).suffix == ".npz":
        parts = _read_npz(path)
    else:
        parts = {k: v for k, v in read_tensors(path).items() if isinstance(v, Tensor)}
    missing = {"mean", "d", "V"} - parts.keys()
    if missing:
        raise ModelError(f"{os.fspath(path)}: is not a PCA file (it lacks {sorted(missing)[0]!r})")
    mean, values, vectors = (parts[k].double() for k in ("mean", "d", "V"))
    if vectors.shape != (mean.numel(), values.numel()) or dim > values.numel():
        raise ModelError(
            f"{os.fspath(path)}: {list(vectors.shape)} eigenvectors, {values.numel()} eigenvalues and a mean of "
            f"{mean.numel()} do not make a whitening to {dim} dimensions"
        )
    if not all(torch.isfinite(part).all() for part in (mean, values, vectors)):
        raise ModelError(f"{os.fspath(path)}: contains NaN or infinity")
    return Whitening.from_eigen(mean, values, vectors, dim).float()


def _read_npz(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    try:
        with np.load(path, allow_pickle=False) as file:
            return {k: torch.from_numpy(file[k]) for k in file.files if file[k].dtype.kind == "f"}
    except (OSError, ValueError, EOFError, BadZipFile, AttributeError, TypeError) as error:
        raise ModelError(f"{os.fspath(path)}: could not be read as a PCA file ({error})") from error


def _part(
    tensors: dict[str, Tensor], prefixes: tuple[str, ...], needed: str, origin: str
) -> dict[str, Tensor]:
    for prefix in prefixes:
        if prefix + needed in tensors:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    raise ModelError(f"{origin}: is not a ViSiL model (no {prefixes[0]}{needed})")
