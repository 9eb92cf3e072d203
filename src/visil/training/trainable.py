"""Which tensors of a model learn, and the state that the others are in meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.errors import UsageError
from visil.training.config import Part


def learning_parts(model: ViSiL, wanted: Sequence[Part]) -> tuple[Part, ...]:
    """Those of the wanted parts that the model has."""
    parts = tuple(part for part in wanted if getattr(model, part) is not None)
    if not parts:
        raise UsageError(f"nothing to train: {model.config.name} has no {' and no '.join(wanted)}")
    return parts


def prepare(model: ViSiL, parts: Sequence[Part]) -> dict[str, Tensor]:
    """Let these parts learn and hold all others; returns the learning tensors under their names in ``state_dict``.

    A backbone that learns keeps its batch norms' statistics: batches of frames of a few videos have none to learn.
    """
    model.eval().requires_grad_(False)
    learning: dict[str, Tensor] = {}
    for part in parts:
        module: nn.Module = getattr(model, part)
        tensors: dict[str, Tensor] = dict(module.named_parameters())
        if part == "whitening":  # kept as buffers, since the paper does not train it
            tensors |= dict(module.named_buffers())
        for name, tensor in tensors.items():
            tensor.requires_grad_(True)
            learning[f"{part}.{name}"] = tensor
        if part == "backbone":
            module.train()
            for layer in module.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.eval()
    return learning


def release(model: ViSiL) -> None:
    """Back to a model that nothing is learned in."""
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.requires_grad_(False)
    model.eval()
