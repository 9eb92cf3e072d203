"""Pieces on disk while they are made: a run that was stopped embeds only what is still missing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.files import make_folder, replacing
from visil.progress import Counted
from visil.training.footage import Footage
from visil.training.pieces import EDIT_NAMES, Piece, Plan, made

TOGETHER = 64
"""Pieces of one file."""

ARRAYS = ("shows", "seconds", "step", "thumbs", "blank")


def kept_pieces(
    model: ViSiL,
    footage: Footage,
    plans: Sequence[Plan],
    folder: Path,
    *,
    progress: Counted | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Piece] | None:
    """The pieces of some plans, read from ``folder`` where a run before left them; None: ``stop`` asked for an end."""
    make_folder(folder, "the folder of pieces")
    fingerprint = model.fingerprint()
    pieces: list[Piece] = []
    for start in range(0, len(plans), TOGETHER):
        if stop():
            return None
        some = plans[start : start + TOGETHER]
        names = [footage.names[plan.video] for plan in some]
        digest = hashlib.sha256(repr((fingerprint, names, some)).encode("utf-8", "surrogateescape"))
        path = folder / f"{digest.hexdigest()[:32]}.safetensors"
        found = _read(path)
        if found is None:
            found = list(made(model, footage, some))
            _write(path, found)
        pieces += found
        if progress is not None:
            progress(len(pieces), len(plans), names[-1])
    return pieces


def _write(path: Path, pieces: Sequence[Piece]) -> None:
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {
        "length": torch.tensor([len(piece) for piece in pieces]),
        "edit": torch.tensor([EDIT_NAMES.index(piece.edit) for piece in pieces]),
        "vectors": torch.cat([piece.vectors for piece in pieces]),
    }
    for name in ARRAYS:
        tensors[name] = torch.from_numpy(np.concatenate([getattr(piece, name) for piece in pieces]))
    with replacing(path) as fresh:
        save_file(tensors, fresh)


def _read(path: Path) -> list[Piece] | None:
    """The pieces of a file; None where there is none, or it is not whole."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
        lengths = tensors["length"].tolist()
        parts = {name: tensors[name].split(lengths) for name in ("vectors", *ARRAYS)}
        edits = [EDIT_NAMES[number] for number in tensors["edit"].tolist()]
    except (OSError, SafetensorError, KeyError, IndexError, RuntimeError):
        return None
    return [
        Piece(
            vectors=parts["vectors"][i],
            shows=parts["shows"][i].numpy(),
            seconds=parts["seconds"][i].numpy(),
            step=parts["step"][i].numpy(),
            thumbs=parts["thumbs"][i].numpy(),
            blank=parts["blank"][i].numpy(),
            edit=edits[i],
        )
        for i in range(len(lengths))
    ]
