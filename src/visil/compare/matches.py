"""Features to matches: one pair in bounded memory, or one query with many targets beside each other.

What :class:`visil.ViSiL` offers as ``compare`` and ``compare_many``; scores and matrices come from
:class:`visil.kernels.Scorer`, what is said of them from :mod:`visil.compare.judge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visil.compare.judge import Judged, Pair, answer, blank_of, judged
from visil.compare.pair_reading import Common, PairReading, brought, read_pairs, read_together
from visil.errors import UsageError
from visil.kernels import Scorer
from visil.kernels.packing import runs
from visil.kernels.torch_engine import finite
from visil.matching.localize import WALL, LocalizeConfig, Localizer, Path, neutral, walled_spans
from visil.matching.match import Match, Matrices
from visil.matching.straight import AROUND, changes
from visil.matching.stretches import Block, Stretch, block_of, stretches
from visil.model.comparator import SHORTEST
from visil.model.features import VideoFeatures, shown_frames, shown_vectors
from visil.model.network import Network

LongVideos = Literal["exact", "authors"]
Floats = NDArray[np.float32]

KEPT_CELLS = 1 << 25
"""A match keeps its matrices up to this many frame pairs (128 MB); beyond, it computes them again when asked."""

AUTHORS_CHUNK = 2048
"""Target frames that the authors' code compares at once (``long_videos="authors"``)."""

WIDE_FRAMES = 4096
"""Target frames that are compared beside each other: some 50 MB of half-precision features."""

NOTHING_SHOWN = -1.0
"""The score without blank frames of a pair that has no others."""

CHANGES_AT_ONCE = 128
"""Frames of a video whose changes are reckoned at once."""

TURN_ROUND = 0.3
"""Gain of a path forwards from which a pair is read backwards, too: a copy that runs backwards crosses such paths."""


def compare(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    target: VideoFeatures,
    long_videos: LongVideos = "exact",
    common: Common | None = None,
) -> Match:
    """How two videos relate, and where; memory for one strip, and for the matrices while they are small.

    ``common`` [X] is taken off the similarities of each query frame before they are judged (``index.background``);
    score and matrices stay as they are.
    """
    return answer(*measured(model, scorer, query, target, long_videos, common))


def measured(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    target: VideoFeatures,
    long_videos: LongVideos = "exact",
    common: Common | None = None,
) -> tuple[Pair, list[Judged]]:
    """The evidence that :func:`compare` answers from."""
    check(model, query, "query")
    check(model, target, "target")
    keep = len(query) * len(target) <= KEPT_CELLS
    rows: list[Tensor] = []
    outputs: list[Tensor] = []
    reading = _PairReader(model, scorer, query, target, common, keep)

    def on_frames(start: int, strip: Tensor) -> None:
        # A video of 1 to 3 frames was repeated for the comparator: its own frames are the first ones.
        strip = strip[: max(0, len(query) - start), : len(target)].cpu()
        reading.feed(strip)
        if keep:
            rows.append(strip.float())

    def on_output(_: int, strip: Tensor) -> None:
        if keep:
            outputs.append(strip.cpu().float())

    plain = scorer.pair(query.vectors, target.vectors, on_frames, on_output)
    if long_videos == "authors":
        plain = chunked_score(scorer, query.vectors, target.vectors)
    kept: Matrices | None = (torch.cat(rows).numpy(), torch.cat(outputs).numpy()) if keep else None

    def both() -> Matrices:
        return kept if kept is not None else scorer.matrices(query.vectors, target.vectors)

    shown = plain
    if _has_blank(query) or _has_blank(target):
        q, t = shown_vectors(query), shown_vectors(target)
        shown = scorer.pair(q, t) if len(q) and len(t) else NOTHING_SHOWN
    pair = Pair(model.config, scorer, query, target, plain, _less_common(shown, query, common), both)
    return pair, judged(pair, reading.stretches())


class _PairReader:
    """Reads one pair strip by strip, forwards and backwards; keeps what it read while that is small."""

    def __init__(
        self,
        model: Network,
        scorer: Scorer,
        query: VideoFeatures,
        target: VideoFeatures,
        common: Common | None,
        keep: bool,
    ) -> None:
        self._model, self._scorer, self._query, self._target, self._common = (
            model,
            scorer,
            query,
            target,
            common,
        )
        self._config = model.config.localize.reading.for_length(min(len(query), len(target)))
        self._reading = PairReading(model, query, target, common)
        self._forwards, self._backwards = (Localizer(len(target), self._config) for _ in range(2))
        self._done = 0
        self._kept: list[Floats] | None = [] if keep else None

    def feed(self, strip: Tensor) -> None:
        """The next rows of S_f."""
        blank = blank_of(self._query)
        for seen in self._reading.feed(strip):
            own = None if blank is None else blank[self._done : self._done + len(seen)]
            quiet = neutral(seen, self._config, own, blank_of(self._target))
            self._forwards.feed(quiet)
            self._backwards.feed(quiet[:, ::-1])
            if self._kept is not None:
                self._kept.append(quiet)
            self._done += len(seen)

    def stretches(self) -> list[Stretch]:
        """The stretches that were found."""
        block = self._block if self._kept is None else block_of(np.concatenate(self._kept))
        whole = [(0, len(self._target))]
        (forwards,), (backwards,) = (
            _paths(self._model, localizer, whole, [self._config.min_gain])
            for localizer in (self._forwards, self._backwards)
        )
        return _stretches(
            self._model,
            self._scorer,
            self._query,
            self._target,
            forwards,
            backwards,
            block,
            self._config,
        )

    def _block(self, rows: tuple[int, int], columns: tuple[int, int]) -> Floats:
        """A part of what was read, made again."""
        parts = [
            replace_frames(video, *span) for video, span in ((self._query, rows), (self._target, columns))
        ]
        common = None if self._common is None else self._common[rows[0] : rows[1] + 1]
        frames = self._scorer.frames(parts[0].vectors, [parts[1].vectors])
        (seen,) = read_together(self._model, parts[0], parts[1:], [frames], common)
        return neutral(seen, self._config, blank_of(parts[0]), blank_of(parts[1]))


def replace_frames(video: VideoFeatures, first: int, last: int) -> VideoFeatures:
    """A video's frames from first to last."""
    part = slice(first, last + 1)
    blank = None if video.blank is None else video.blank[part]
    return replace(video, vectors=video.vectors[part], timestamps=video.timestamps[part], blank=blank)


def _paths(
    model: Network, localizer: Localizer, spans: Sequence[tuple[int, int]], least: Sequence[float]
) -> list[list[Path]]:
    """The paths in each of several targets; where none gains enough, the strongest, if there is a curve to judge it."""
    found = localizer.paths_within(spans, least)
    if model.config.calibration is None:
        return found
    return [
        paths or ([faint] if faint is not None else [])
        for paths, faint in zip(found, localizer.strongest(spans), strict=True)
    ]


def _stretches(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    target: VideoFeatures,
    forwards: Sequence[Path],
    backwards: Sequence[Path],
    block: Block,
    config: LocalizeConfig,
) -> list[Stretch]:
    turned = backwards if any(path.gain >= TURN_ROUND for path in forwards) else ()
    known: list[Floats] = []

    def both() -> tuple[Floats, Floats]:
        if not known:
            known.extend(changes_of(scorer, video.vectors) for video in (query, target))
        return known[0], known[1]

    calibration = model.config.calibration
    return stretches(
        forwards,
        turned,
        block,
        (len(query), len(target)),
        config,
        # A reader's map says of each cell what it is worth: nothing that changes need be looked at.
        both if model.reader is None else None,
        0.0 if calibration is None else calibration.promising,
    )


def changes_of(scorer: Scorer, vectors: Tensor) -> Floats:
    """How much a video changes around each of its frames, some frames at a time."""
    found = []
    for start in range(0, len(vectors), CHANGES_AT_ONCE):
        first = max(0, start - AROUND)
        part = vectors[first : start + CHANGES_AT_ONCE + AROUND]
        own = changes(scorer.frames(part, [part]).float().cpu().numpy())
        found.append(own[start - first :][:CHANGES_AT_ONCE])
    return np.concatenate(found)


def compare_many(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    targets: Iterable[VideoFeatures],
    common: Common | None = None,
) -> Iterator[Match]:
    """:func:`compare` with each of many targets: the same answers, several times faster for short videos."""
    return (answer(*found) for found in measured_many(model, scorer, query, targets, common))


def measured_many(
    model: Network,
    scorer: Scorer,
    query: VideoFeatures,
    targets: Iterable[VideoFeatures],
    common: Common | None = None,
) -> Iterator[tuple[Pair, list[Judged]]]:
    """The evidence that :func:`compare_many` answers from.

    The targets' frames stand beside each other in one matrix with walls between, so that products, Chamfer similarity
    and the search for stretches are few large operations instead of many small ones.
    """
    check(model, query, "query")
    most = min(WIDE_FRAMES, scorer.wide_cells // len(query))
    for run in runs(targets, len, most):
        check(model, run, "target")
        if len(query) * len(run[0]) > scorer.wide_cells:  # alone in its run
            yield measured(model, scorer, query, run[0], common=common)
        else:
            yield from measured_together(model, scorer, [(query, run, common)])


Asked = tuple[VideoFeatures, Sequence[VideoFeatures], Common | None]
"""A query, its targets, and how common its frames are."""


@torch.inference_mode()
def measured_together(
    model: Network, scorer: Scorer, asked: Sequence[Asked]
) -> Iterator[tuple[Pair, list[Judged]]]:
    """The evidence on each query with each of its targets, query by query; all matrices are in memory."""
    pairs: list[tuple[VideoFeatures, VideoFeatures]] = []
    frames, less, outputs, scores = [], [], [], []
    for query, targets, common in asked:
        beside = scorer.frames(query.vectors, [target.vectors for target in targets])
        lengths = [len(target) for target in targets]
        shown = _scores_of_shown(scorer, query, targets, beside)
        pairs += [(query, target) for target in targets]
        frames += beside.split(lengths, dim=1)
        for place, (score, output) in enumerate(scorer.read(beside, lengths)):
            outputs.append(output)
            scores.append((score, _less_common(shown.get(place, score), query, common)))
        if common is not None:
            beside = beside - torch.from_numpy(common[:, None]).to(beside.device)
        less += beside.split(lengths, dim=1)
    found = _stretches_of_pairs(model, scorer, pairs, read_pairs(model, pairs, less))
    kept = zip(brought(frames), brought(outputs), strict=True)
    for both, known, matrices, one in zip(pairs, scores, kept, found, strict=True):
        pair = Pair(model.config, scorer, *both, *known, partial(_same, matrices))
        yield pair, judged(pair, one)


def _scores_of_shown(
    scorer: Scorer, query: VideoFeatures, targets: Sequence[VideoFeatures], frames: Tensor
) -> dict[int, float]:
    """CS_v without blank frames, which any two videos have in common, by target; only where there are such frames."""
    every = range(len(targets))
    chosen = [place for place in every if _has_blank(query) or _has_blank(targets[place])]
    if not chosen:
        return {}
    found = dict.fromkeys(chosen, NOTHING_SHOWN)
    parts = frames.split([len(target) for target in targets], dim=1)
    rows = shown_frames(query).to(frames.device)
    left = [place for place in chosen if rows.any() and shown_frames(targets[place]).any()]
    if left:
        columns = [parts[place][rows][:, shown_frames(targets[place]).to(frames.device)] for place in left]
        lengths = [part.shape[1] for part in columns]
        read = scorer.read(torch.cat(columns, dim=1), lengths)
        found |= {place: score for place, (score, _) in zip(left, read, strict=True)}
    return found


def _stretches_of_pairs(
    model: Network,
    scorer: Scorer,
    pairs: Sequence[tuple[VideoFeatures, VideoFeatures]],
    seen: Sequence[Floats],
) -> list[list[Stretch]]:
    """The stretches of several pairs, from what is read of them, side by side."""
    config = model.config.localize.reading
    quiet = [neutral(one, config, *map(blank_of, pair)) for one, pair in zip(seen, pairs, strict=True)]
    configs = [config.for_length(min(map(len, pair))) for pair in pairs]
    least = min(one.min_gain for one in configs)

    def read(chosen: Sequence[int], way: int) -> dict[int, list[Path]]:
        columns, spans = walled_spans([len(pairs[i][1]) for i in chosen])
        wide = np.full((max(len(pairs[i][0]) for i in chosen), columns), WALL, np.float32)
        for i, (start, stop) in zip(chosen, spans, strict=True):
            wide[: len(quiet[i]), start:stop] = quiet[i][:, ::way]
        localizer = Localizer(columns, replace(config, min_gain=least))
        localizer.feed(wide)
        found = _paths(model, localizer, spans, [configs[i].min_gain for i in chosen])
        return dict(zip(chosen, found, strict=True))

    forwards = read(range(len(pairs)), 1)
    turned = [i for i, paths in forwards.items() if any(path.gain >= TURN_ROUND for path in paths)]
    backwards = read(turned, -1) if turned else {}
    return [
        _stretches(
            model, scorer, *pairs[i], forwards[i], backwards.get(i, ()), block_of(quiet[i]), configs[i]
        )
        for i in range(len(pairs))
    ]


def _less_common(score: float, query: VideoFeatures, common: Common | None) -> float:
    """A score less what of it is common."""
    if common is None or not shown_frames(query).any():
        return score
    return score - float(common[shown_frames(query).numpy()].mean())


def _same(kept: Matrices) -> Matrices:
    return kept


def chunked_score(scorer: Scorer, query: Tensor, target: Tensor) -> float:
    """As the authors' code: the target in chunks of 2048 frames, a last chunk under four dropped, plain mean.

    Scores long targets too low, since a query matches in few of the chunks; here to reproduce their numbers.
    """
    chunks = [c for c in target.split(AUTHORS_CHUNK) if len(c) >= SHORTEST or len(target) < SHORTEST]
    return float(np.mean([scorer.pair(query, chunk) for chunk in chunks]))


def check(
    model: Network, videos: VideoFeatures | Sequence[VideoFeatures], name: str, *, numbers: bool = True
) -> None:
    """Refuse features that another model made or, where that is not seen later, that are no ``numbers``."""
    videos = [videos] if isinstance(videos, VideoFeatures) else videos
    for video in videos:
        if video.vectors.shape[-1] != model.dim:
            raise UsageError(
                f"the {name}'s features have {video.vectors.shape[-1]} channels, this model makes {model.dim}: "
                "embed it with this model"
            )
    if numbers and not finite(*(video.vectors for video in videos)):
        raise UsageError(f"the {name}'s features contain NaN or infinity")


def _has_blank(video: VideoFeatures) -> bool:
    return video.blank is not None and bool(video.blank.any())
