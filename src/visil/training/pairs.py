"""Pairs of videos strung together from pieces, as similarity matrices with their truth: what the reader learns from.

Each query holds a copied piece, alone or buried between foreign ones, now and then twice. It meets a target that has
the original, and strangers: another moment of the same video, look-alikes (of the same source, the same deck), anybody.
Matrices and truth of many thousand pairs take some ten megabytes, so that what needs the footage and a GPU can be done
in one place and the reader trained in another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.errors import FileError
from visil.files import replacing_tensors
from visil.model.background import FixedBackground
from visil.model.reader import FrameSigns, frame_signs
from visil.training.pieces import SAME, Piece, joined, truth

Relation = Literal["copy", "other moment", "look-alike", "stranger"]

RELATIONS: tuple[Relation, ...] = ("copy", "other moment", "look-alike", "stranger")

LONGEST = 64
"""Frames of a query or a target, at the most."""

BURIED, TWICE, STRUNG = 0.6, 0.08, 0.4
"""Share of queries with foreign footage around the copy; that hold it twice; of targets with foreign footage."""

FOREIGN = 30
"""Foreign frames around a copy, at the most."""

FAR = 3.0
"""Seconds between a copied stretch and another moment of the same video."""

NEAREST = 8
"""Videos most like a given one: its look-alikes."""


@dataclass(frozen=True, eq=False)
class Pair:
    """One query with one target."""

    frames: Tensor
    """S_f, float16 [X, Y]"""
    truth: Tensor
    """uint8 [X, Y]: see :func:`visil.training.pieces.truth`."""
    query: FrameSigns
    target: FrameSigns
    number: int
    """Of the query: pairs of one query share it."""
    relation: Relation


@dataclass(frozen=True)
class Pairs:
    """Pairs to learn from and pairs to validate on, and the background that their signs were read against."""

    training: list[Pair]
    validation: list[Pair]
    background: FixedBackground
    fingerprint: str
    """Of the model whose features they were made from."""


class Strings:
    """Strings pieces together, and compares them."""

    def __init__(
        self, model: ViSiL, originals: Sequence[Piece], copies: Sequence[Piece], background: FixedBackground
    ) -> None:
        self.model, self.originals, self.copies = model, originals, copies
        self.background = background
        self.scorer = model.scorer("fp32")
        self.lookalikes = lookalikes([piece.vectors for piece in originals])
        self.of_video = {int(piece.shows[0, 0]): i for i, piece in enumerate(originals)}

    def pairs(self, uses: int, strangers: int, seed: int) -> Iterator[Pair]:
        """Each copy in ``uses`` queries, each with a target that has the original and ``strangers`` that have not."""
        for use in range(uses):
            for number, copy in enumerate(self.copies):
                rng = np.random.default_rng([seed, use, number])
                yield from self._of_query(copy, use * len(self.copies) + number, strangers, rng)

    def _of_query(self, copy: Piece, number: int, strangers: int, rng: np.random.Generator) -> Iterator[Pair]:
        own = int(copy.shows[0, 0])
        # Footage around the copy may come from anywhere; truth finds what it shares with a target by itself.
        query = self._strung(copy, rng, twice=TWICE) if rng.random() < BURIED else copy
        query = query[:LONGEST]
        targets: list[tuple[Piece, Relation]] = [(self.originals[self.of_video[own]], "copy")]
        for place in range(strangers):
            target = self._stranger(copy, place, rng)
            if target is not None:
                targets.append(target)
        strung = [
            (self._strung(piece, rng)[:LONGEST] if rng.random() < STRUNG else piece, relation)
            for piece, relation in targets
        ]
        signs = self._signs(query)
        matrices = self.scorer.frames(query.vectors.float(), [piece.vectors.float() for piece, _ in strung])
        for (piece, relation), part in zip(
            strung, matrices.split([len(p) for p, _ in strung], dim=1), strict=True
        ):
            cells = truth(query, piece)
            shares = bool((cells == SAME).any())
            if relation == "copy" and not shares:  # all that it shows was edited away, or cut off
                continue
            found: Relation = (
                "copy" if shares else relation
            )  # a stranger's foreign footage may be the query's
            yield Pair(part.half().cpu(), torch.from_numpy(cells), signs, self._signs(piece), number, found)

    def _signs(self, piece: Piece) -> FrameSigns:
        blank = torch.from_numpy(piece.blank)
        (signs,) = frame_signs([piece.vectors], [blank], self.background, self.model.formula)
        return signs.to("cpu")

    def _stranger(self, copy: Piece, place: int, rng: np.random.Generator) -> tuple[Piece, Relation] | None:
        """The hardest kinds first: another moment of the same video, look-alikes, then anybody."""
        own = int(copy.shows[0, 0])
        shown = set(np.unique(copy.shows).tolist())
        video = self.of_video[own]
        if place == 0:
            elsewhere = _elsewhere(self.originals[video], copy)
            if elsewhere is not None:
                return elsewhere, "other moment"
        if place <= 1:
            near = [v for v in self.lookalikes[video] if int(self.originals[v].shows[0, 0]) not in shown]
            if near:
                return self.originals[near[int(rng.integers(len(near)))]], "look-alike"
        anybody = self.originals[int(rng.integers(len(self.originals)))]
        return None if int(anybody.shows[0, 0]) in shown else (anybody, "stranger")

    def _strung(self, piece: Piece, rng: np.random.Generator, twice: float = 0.0) -> Piece:
        """A piece between foreign ones, at most :data:`FOREIGN` frames of them; sometimes a second time."""
        room = int(rng.integers(1, FOREIGN + 1))
        before = int(rng.integers(room + 1))
        parts = [*self._foreign(before, rng), piece]
        if rng.random() < twice:
            parts += [*self._foreign(int(rng.integers(1, 6)), rng), piece]
        return joined([*parts, *self._foreign(room - before, rng)])

    def _foreign(self, count: int, rng: np.random.Generator) -> Iterator[Piece]:
        """``count`` frames of anything."""
        while count > 0:
            pool = self.copies if rng.random() < 0.5 else self.originals
            piece = pool[int(rng.integers(len(pool)))]
            length = min(count, len(piece), int(rng.integers(2, 9)))
            first = int(rng.integers(len(piece) - length + 1))
            yield piece[first : first + length]
            count -= length


def _elsewhere(original: Piece, copy: Piece) -> Piece | None:
    """The longest stretch of a video that is far from the part that a copy shows; None: none has three frames."""
    times = original.seconds[:, 0]
    apart = np.abs(times[:, None] - copy.seconds[None, :, 0]).min(axis=1)
    free = np.flatnonzero(np.diff(np.concatenate([[0], apart > FAR + copy.step[0], [0]])))
    runs = list(zip(free[::2], free[1::2], strict=True))
    start, stop = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    return original[int(start) : int(stop)] if stop - start >= 3 else None


def lookalikes(videos: Sequence[Tensor]) -> list[list[int]]:
    """For each video [T, R, C] those most like it: by the best pair of their frames' mean vectors."""
    means = F.normalize(torch.cat([video.float().mean(dim=1) for video in videos]), dim=1)
    lengths = [len(video) for video in videos]
    best = torch.empty(len(videos), len(videos))
    for number, part in enumerate(means.split(lengths)):
        columns = (part @ means.T).amax(dim=0).split(lengths)
        best[number] = torch.stack([column.amax() for column in columns])
    best.fill_diagonal_(-1)
    return [row.tolist() for row in best.topk(min(NEAREST, len(videos) - 1), dim=1).indices]


# ---------------------------------------------------------------------- files

_SIGNS = tuple(field.name for field in fields(FrameSigns))


def save_pairs(path: Path, pairs: Pairs, identity: Mapping[str, Any]) -> None:
    """Write pairs to one safetensors file; ``identity`` names their source and how they were made."""
    from safetensors.torch import save_file

    tensors = {
        f"background.{name}": t.half() if t.ndim else t for name, t in pairs.background.state_dict().items()
    }
    for part in ("training", "validation"):
        tensors |= {f"{part}.{name}": t for name, t in _packed(getattr(pairs, part)).items()}
    about = {"identity": json.dumps(dict(identity)), "fingerprint": pairs.fingerprint}
    with replacing_tensors(path) as fresh:
        save_file({name: t.contiguous() for name, t in tensors.items()}, fresh, metadata=about)


def load_pairs(path: Path) -> tuple[Pairs, dict[str, Any]]:
    """Read pairs back, with their identity."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as opened:
            about = opened.metadata()
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        background = FixedBackground(*tensors["background.regions"].shape)
        background.load_state_dict(
            {name: tensors[f"background.{name}"].float() for name in background.state_dict()}
        )
        parts = [
            _unpacked({k.split(".", 1)[1]: t for k, t in tensors.items() if k.startswith(f"{part}.")})
            for part in ("training", "validation")
        ]
        return Pairs(parts[0], parts[1], background, about["fingerprint"]), json.loads(about["identity"])
    except OSError as error:
        raise FileError(path, f"cannot be read ({error.strerror or error})") from error
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise FileError(path, "is damaged, or not a file of pairs; make it anew") from error


def _packed(pairs: Sequence[Pair]) -> dict[str, Tensor]:
    tensors = {
        "shape": torch.tensor([list(pair.frames.shape) for pair in pairs], dtype=torch.int32).reshape(-1, 2),
        "number": torch.tensor([pair.number for pair in pairs], dtype=torch.int32),
        "relation": torch.tensor([RELATIONS.index(pair.relation) for pair in pairs], dtype=torch.uint8),
        "frames": _flat([pair.frames for pair in pairs], torch.float16),
        "truth": _flat([pair.truth for pair in pairs], torch.uint8),
    }
    for side in ("query", "target"):
        for name in _SIGNS:
            dtype = torch.bool if name == "blank" else torch.float16
            tensors[f"{side}.{name}"] = _flat([getattr(getattr(pair, side), name) for pair in pairs], dtype)
    return tensors


def _flat(tensors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
    return torch.cat([torch.empty(0, dtype=dtype), *(t.flatten().to(dtype) for t in tensors)])


def _unpacked(tensors: Mapping[str, Tensor]) -> list[Pair]:
    shapes: NDArray[np.int64] = tensors["shape"].long().numpy()
    cells = [int(x * y) for x, y in shapes]
    matrices = [tensors[name].split(cells) for name in ("frames", "truth")]
    signs = [
        [
            FrameSigns(*values)
            for values in zip(
                *(tensors[f"{side}.{name}"].split(shapes[:, axis].tolist()) for name in _SIGNS), strict=True
            )
        ]
        for axis, side in enumerate(("query", "target"))
    ]
    return [
        Pair(frames.view(x, y), same.view(x, y), query, target, number, RELATIONS[relation])
        for (x, y), frames, same, query, target, number, relation in zip(
            shapes.tolist(),
            *matrices,
            *signs,
            tensors["number"].tolist(),
            tensors["relation"].tolist(),
            strict=True,
        )
    ]
