"""Pieces of footage as features, plain and edited, with the moment each frame shows, for the pairs of the reader.

Of every frame it is known which videos it shows and which second of them, whatever was done to it since; so the true
alignment of any two strings of pieces is known as well (:func:`truth`).
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.edits.clips import Composite, Heavy, Mild
from visil.files import make_folder, replacing_tensors
from visil.machine.processor import usable_cores
from visil.matching.blank import GROUND_LEFT_TO_READER, blank_frames
from visil.progress import Counted
from visil.training.footage import Footage
from visil.training.pictures import small_pictures

Edit = Literal["plain", "mild", "heavy", "composite"]

EDIT_NAMES: tuple[Edit, ...] = get_args(Edit)

EDITS: tuple[tuple[Edit, float], ...] = (("mild", 0.2), ("heavy", 0.45), ("composite", 0.35))
"""Edits of copies, and how often each."""

STRENGTHS = (0.4, 1.0)
"""Of heavy edits."""

SECONDS = (2.0, 15.0)
"""Least and greatest length of a piece in the source, where that is long enough."""

SPEEDS = (0.4, 4.0)
"""Slowest and fastest playback."""

ODD_SPEED, REVERSED, CUT = 0.3, 0.05, 0.1
"""Share of pieces that run at another speed, backwards, or with a second or more taken out of their middle."""

NOBODY = -1
"""In place of a video's number: shows none."""

TOLERANCE = 0.5
"""Two frames show the same moment where they are no further apart than this share of the time between frames."""

NEAR = 1.0
"""Further frames, up to so many times between frames, may or may not count as the same moment."""

STILL = 0.012
"""Mean difference of small pictures, of 1, below which two moments of one video cannot be told apart."""

AHEAD = 32
"""Pieces whose frames are read ahead."""

SAME, UNSURE = 1, 2
"""Cells of a truth map; 0: not the same moment."""


@dataclass(frozen=True)
class Plan:
    """A piece before it is made: frames of a video, and their edit."""

    video: int
    seconds: tuple[float, ...]
    """Of the source, for each frame."""
    edit: Edit = "plain"
    seed: int = 0
    other: int = NOBODY
    """The video that shares the picture with it, in a composite, from ``other_start`` on."""
    other_start: float = 0.0


@dataclass(frozen=True, eq=False)
class Piece:
    """Features of some frames on end, and the moments that they show."""

    vectors: Tensor
    """float16 [T, R, C]"""
    shows: NDArray[np.int64]
    """[T, 2]: the video, and the one that shares the picture with it, else :data:`NOBODY`."""
    seconds: NDArray[np.float64]
    """[T, 2]: of those videos."""
    step: NDArray[np.float64]
    """[T]: seconds of the source from frame to frame."""
    thumbs: NDArray[np.float32]
    """Small pictures [T, N] of the video's own frames before any edit."""
    blank: NDArray[np.bool_]
    edit: Edit = "plain"

    def __len__(self) -> int:
        return len(self.shows)

    def __getitem__(self, part: slice) -> Piece:
        return Piece(
            self.vectors[part],
            self.shows[part],
            self.seconds[part],
            self.step[part],
            self.thumbs[part],
            self.blank[part],
            self.edit,
        )


def joined(pieces: Sequence[Piece]) -> Piece:
    """One after the other."""

    def together(name: str) -> NDArray[np.generic]:
        return np.concatenate([getattr(piece, name) for piece in pieces])

    return Piece(
        torch.cat([piece.vectors for piece in pieces]),
        together("shows"),  # type: ignore[arg-type]
        together("seconds"),  # type: ignore[arg-type]
        together("step"),  # type: ignore[arg-type]
        together("thumbs"),  # type: ignore[arg-type]
        together("blank"),  # type: ignore[arg-type]
    )


def truth(query: Piece, target: Piece) -> NDArray[np.uint8]:
    """Which cells show the same moment, uint8 [X, Y]: :data:`SAME`, :data:`UNSURE` or 0.

    Unsure are cells right beside a true one, moments of one video that look the same, and frames that show nothing.
    """
    found = np.zeros((len(query), len(target)), np.uint8)
    step = np.maximum(query.step[:, None], target.step[None])
    alike = _alike(query, target)
    for own in range(2):
        for other in range(2):
            shown = query.shows[:, own, None]
            same_video = (shown == target.shows[None, :, other]) & (shown != NOBODY)
            apart = np.abs(query.seconds[:, own, None] - target.seconds[None, :, other])
            unsure = same_video & (apart <= (TOLERANCE + NEAR) * step)
            if own == other == 0:
                unsure |= same_video & alike
            found[unsure & (found != SAME)] = UNSURE
            found[same_video & (apart <= TOLERANCE * step)] = SAME
    found[query.blank] = UNSURE
    found[:, target.blank] = UNSURE
    return found


def _alike(query: Piece, target: Piece) -> NDArray[np.bool_]:
    apart = np.stack([np.abs(thumb - target.thumbs).mean(axis=1) for thumb in query.thumbs])
    return np.asarray(apart <= STILL)


# ---------------------------------------------------------------------- plans


def original(video: int, length: float, fps: float, phase: float, longest: int) -> Plan:
    """A video as it stands in a collection: its frames, ``fps`` a second from ``phase`` of a step on."""
    count = max(1, min(longest, int(np.ceil(length * fps - phase))))
    return Plan(video, tuple(float((phase + k) / fps) for k in range(count)))


def copied(video: int, lengths: Sequence[float], fps: float, rng: np.random.Generator) -> Plan:
    """A stretch of a video as somebody might copy it, sampled anew: cut, run at another speed, edited."""
    length = lengths[video]
    speed = 1.0
    if rng.random() < ODD_SPEED:
        speed = float(np.exp(rng.uniform(*np.log(SPEEDS))))
    low, high = (min(bound, length) for bound in SECONDS)
    # Long enough for two frames or three, of a fast copy too.
    span = min(length, max(float(np.exp(rng.uniform(np.log(low), np.log(high)))), 2.5 * speed / fps))
    start = rng.uniform(0, length - span)
    seconds = start + speed / fps * (np.arange(max(1, round(span * fps / speed))) + rng.uniform(0, 1))
    seconds = np.minimum(seconds, length - 1e-3)
    if rng.random() < CUT and len(seconds) >= 6:
        first = int(rng.integers(2, len(seconds) - 3))
        seconds = np.delete(seconds, slice(first, first + int(rng.integers(1, len(seconds) - first - 1))))
    if rng.random() < REVERSED:
        seconds = seconds[::-1]
    names, shares = zip(*EDITS, strict=True)
    edit: Edit = names[int(rng.choice(len(names), p=shares))]
    other = (video + int(rng.integers(1, len(lengths)))) % len(lengths) if edit == "composite" else NOBODY
    other_start = float(rng.uniform(0, max(0.0, lengths[other] - len(seconds) / fps))) if other >= 0 else 0.0
    return Plan(video, tuple(seconds.tolist()), edit, int(rng.integers(1 << 62)), other, other_start)


# ---------------------------------------------------------------------- pieces


def made(model: ViSiL, footage: Footage, plans: Sequence[Plan]) -> Iterator[Piece]:
    """The pieces of some plans, in order; frames are read ahead of those that are embedded."""
    fps = model.config.sampling.fps

    def read(plan: Plan) -> tuple[Tensor, Tensor | None]:
        own = _frames(footage, plan.video, plan.seconds)
        return own, None if plan.other == NOBODY else _frames(footage, plan.other, _beside(plan, fps))

    with ThreadPoolExecutor(usable_cores(), "visil-pieces") as pool:
        waiting = deque(pool.submit(read, plan) for plan in plans[:AHEAD])
        for number, plan in enumerate(plans):
            own, other = waiting.popleft().result()
            if number + AHEAD < len(plans):
                waiting.append(pool.submit(read, plans[number + AHEAD]))
            yield _made(model, plan, own, other)


def _made(model: ViSiL, plan: Plan, plain: Tensor, other: Tensor | None) -> Piece:
    fps = model.config.sampling.fps
    seconds = np.array(plan.seconds)
    shows = np.full((len(seconds), 2), NOBODY, np.int64)
    shows[:, 0] = plan.video
    both = np.stack([seconds, seconds], axis=1)
    images = plain.to(model.device)
    if plan.edit != "plain":
        companion = None
        if other is not None:
            shows[:, 1], both[:, 1] = plan.other, _beside(plan, fps)
            companion = as_clip(other.to(model.device))
        pictures = edited(as_clip(images), plan, companion)
        images = (pictures[0].permute(0, 2, 3, 1) * 255).round().to(torch.uint8)
    vectors = model.embed_frames(images).vectors
    gaps = np.abs(np.diff(seconds))
    step = float(np.median(gaps)) if len(gaps) else 1 / fps
    return Piece(
        vectors.half(),
        shows,
        both,
        np.full(len(seconds), step),
        small_pictures(plain),
        blank_frames(images, GROUND_LEFT_TO_READER).cpu().numpy(),
        plan.edit,
    )


def _beside(plan: Plan, fps: float) -> NDArray[np.float64]:
    """Seconds of the video that shares the picture, for each frame."""
    return plan.other_start + np.arange(len(plan.seconds)) / fps


def as_clip(images: Tensor) -> Tensor:
    """Frames uint8 [T, H, W, 3] as one clip, float [1, T, 3, H, W] in [0, 1]."""
    return images.permute(0, 3, 1, 2)[None].float() / 255


def edited(clip: Tensor, plan: Plan, other: Tensor | None = None) -> Tensor:
    """A clip [1, T, 3, H, W] under a plan's edit."""
    strength = float(np.random.default_rng(plan.seed).uniform(*STRENGTHS))
    if plan.edit == "mild":
        return Mild()(clip, [plan.seed])
    if other is None:
        return Heavy(strength)(clip, [plan.seed])
    # Within another picture a copy keeps more of its own: both at full strength leave nothing to be told by eye.
    gentle = Heavy(0.6 * strength)(clip, [plan.seed])
    pictures, _ = Composite()(gentle, other, [plan.seed + 1])
    return pictures


def _frames(footage: Footage, video: int, seconds: Sequence[float] | NDArray[np.float64]) -> Tensor:
    """The frames on display at these seconds of a video, uint8 [T, H, W, 3]."""
    times = footage.times(video).numpy()
    positions = np.searchsorted(times, np.asarray(seconds) + 1e-6, side="right") - 1
    return footage.images(video, np.clip(positions, 0, len(times) - 1).tolist())


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
    with replacing_tensors(path) as fresh:
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
