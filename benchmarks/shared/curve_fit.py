"""Logistic regression with signs held: from samples of pairs to a :class:`Calibration`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from shared.pair_samples import Sample, Shown
from visil.matching.calibration import Calibration, lower, probability

Floats = NDArray[np.float64]

HOLD = 1e-7
"""What keeps weights from growing where nothing holds them."""

START = (0.1, 8.0, 0.5, 4.0)
"""Where the search for weights begins: length, agreement, in step, out of step."""

UNTOLD = 3.0
"""Where the search begins for how far likeness goes."""

LEAST_RISE = 0.01
"""By how much more each knot of the curve is worth than the one before."""

KNOTS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of the strengths of true stretches at which the curve may bend."""

SMOOTH = 1e-4
"""What a bend of the curve costs."""

CASES = 0.15
"""Share of the weight that pair cases have beside sets."""

ALIKE_ALARMS = 0.1
"""Share of cases without shared footage, alike as they are, that may be called copies."""

LIKENESS = (0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)
"""Similarities of a stretch's frames at which their curve may bend."""

SCORE = 1.0
"""Weight of the paper's score: little, so that pairs without a stretch are ranked at all."""

MOST_LENGTH = 0.3
"""The most that a factor of ten in frame pairs may cost: sets of short videos do not tell what hours cost."""

STRONGEST = 3
"""Stretches of a pair that count."""

NOTHING = Shown(0.0, 0.0, 0.0, 0.0)


def fit(samples: Sequence[Sample]) -> Calibration:
    """The probability that a stretch is shared footage, in two steps.

    What likeness is worth, from sets: strangers of every kind. Then how far that goes where footage may be of one place
    at another moment, and what moves is worth, from sets and cases. Of a pair the strongest stretches count; footage
    that was not found is nothing to fit a curve on.
    """
    pairs = [
        (one, shown)
        for one in samples
        for shown in sorted(one.stretches, key=lambda shown: -shown.strength)[:STRONGEST] or (NOTHING,)
    ]
    strangers = [(one, shown) for one, shown in pairs if one.group == "set"] or pairs
    alike = _likeness(strangers)
    untold, agreement, in_step, out_of_step = _moving(pairs, alike)
    return replace(alike, untold=untold, agreement=agreement, in_step=in_step, out_of_step=out_of_step)


def _likeness(pairs: Sequence[tuple[Sample, Shown]]) -> Calibration:
    """What strengths and similarities are worth, and what length costs."""
    knots = _knots([shown.strength for _, shown in pairs if shown.true])
    alike = torch.tensor([_shares(shown.strength, knots) for _, shown in pairs], dtype=torch.float64)
    similar = torch.tensor([_shares(shown.likeness, LIKENESS) for _, shown in pairs], dtype=torch.float64)
    rest = torch.tensor([[_chances(one), *_by_moves(shown)] for one, shown in pairs], dtype=torch.float64)
    given = SCORE * torch.tensor([one.score for one, _ in pairs], dtype=torch.float64)
    count, more = len(knots), len(LIKENESS) - 1

    def held(w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What each knot is worth, never less than the one before, and the other weights, none below 0."""
        steps, rises, others = w.split([count, more, len(START)])
        worth = torch.cumsum(torch.cat([steps[:1], steps[1:].clamp(min=LEAST_RISE)]), dim=0)
        others = torch.cat([others[:1].clamp(0, MOST_LENGTH), others[1:].clamp(min=0)])
        return worth, F.pad(torch.cumsum(rises.clamp(min=0), dim=0), (1, 0)), others

    def logits(w: torch.Tensor) -> torch.Tensor:
        worth, risen, others = held(w)
        return given + alike @ worth + similar @ risen + rest @ others

    def bends(w: torch.Tensor) -> torch.Tensor:
        worth, risen, _ = held(w)
        return SMOOTH * (worth.diff().diff().square().sum() + risen.diff().diff().square().sum())

    start = [-4.0, *[1.0] * (count - 1), *[0.3] * more, *START]
    worth, risen, others = held(_minimised(logits, bends, start, pairs))
    return Calibration(
        bias=0.0,
        score=SCORE,
        stretch=0.0,
        stretch_cap=0.0,
        length=round(float(others[0]), 4),
        curve=tuple(zip(knots, [round(value, 4) for value in worth.tolist()], strict=True)),
        likeness=tuple(zip(LIKENESS, [round(value, 4) for value in risen.tolist()], strict=True)),
    )


def _moving(pairs: Sequence[tuple[Sample, Shown]], likeness: Calibration) -> list[float]:
    """How far likeness goes, and what moves is worth: agreement, in step, out of step."""
    alike = torch.tensor(
        [
            likeness.evidence(one.score, shown.strength, one.frame_pairs, likeness=shown.likeness)
            for one, shown in pairs
        ],
        dtype=torch.float64,
    )
    moving = torch.tensor([_by_moves(shown) for _, shown in pairs], dtype=torch.float64)
    proven = torch.tensor([shown.proven for _, shown in pairs], dtype=torch.float64)

    def logits(w: torch.Tensor) -> torch.Tensor:
        """:meth:`Calibration.evidence`, of tensors."""
        untold = w[0].expand_as(alike)
        lower = -torch.logsumexp(torch.stack([-alike, -untold, -alike - untold]), dim=0)
        agreeing = moving @ w[1:].clamp(min=0)
        return lower + torch.where(agreeing > 0, agreeing * proven, agreeing)

    found = _minimised(logits, lambda _: torch.zeros(()), [UNTOLD, *START[1:]], pairs)
    return [round(value, 4) for value in (float(found[0]), *found[1:].clamp(min=0).tolist())]


def _minimised(
    logits: Callable[[torch.Tensor], torch.Tensor],
    cost: Callable[[torch.Tensor], torch.Tensor],
    start: Sequence[float],
    pairs: Sequence[tuple[Sample, Shown]],
) -> torch.Tensor:
    """The weights under which logits are most right, true stretches and others weighing the same."""
    y = torch.tensor([shown.true for _, shown in pairs], dtype=torch.float64)
    weight = torch.tensor(_weights(pairs))
    w = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([w], max_iter=2000, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimiser.zero_grad()
        losses = F.binary_cross_entropy_with_logits(logits(w), y, reduction="none")
        loss = (losses * weight).sum() + HOLD * w.square().sum() + cost(w)
        loss.backward()
        return float(loss.detach())

    optimiser.step(closure)
    return w.detach()


def _knots(strengths: Sequence[float]) -> list[float]:
    """Strengths between which the curve is straight: nothing, and some quantiles of true stretches."""
    return sorted({0.0, 0.05, *(round(float(k), 3) for k in np.quantile(strengths, KNOTS) if k > 0.1)})


def _shares(strength: float, knots: Sequence[float]) -> list[float]:
    """How much of each knot's worth a strength has."""
    shares = np.zeros(len(knots))
    place = int(np.clip(np.searchsorted(knots, strength, "right") - 1, 0, len(knots) - 2))
    share = float(np.clip((strength - knots[place]) / (knots[place + 1] - knots[place]), 0, 1))
    shares[place], shares[place + 1] = 1 - share, share
    found: list[float] = shares.tolist()
    return found


def _chances(one: Sample) -> float:
    return -max(0.0, float(np.log10(max(one.frame_pairs, 1))) - 2)


def _by_moves(shown: Shown) -> list[float]:
    return [shown.weight * shown.agreement, shown.weight * shown.in_step, -shown.weight]


def _weights(pairs: Sequence[tuple[Sample, Shown]]) -> list[float]:
    """True stretches and others weigh the same; in both, cases have a share, and each of their families the same."""
    keys = [(shown.true, one.group, one.kind if one.group == "case" else "") for one, shown in pairs]
    count = {key: keys.count(key) for key in set(keys)}
    families = {key[:2]: len({k for k in count if k[:2] == key[:2]}) for key in count}
    both_groups = {true: len({k[1] for k in count if k[0] == true}) == 2 for true in (True, False)}
    shares = {group: CASES if group == "case" else 1 - CASES for group in ("set", "case")}
    return [
        0.5 * (shares[key[1]] if both_groups[key[0]] else 1.0) / families[key[:2]] / count[key]
        for key in keys
    ]


def logit(curve: Calibration, sample: Sample, *, ranking: bool = False) -> float:
    """That of the confidence of a pair, by its surest stretch; or, for ``ranking``, all of its evidence."""

    def of(shown: Shown) -> float:
        alike = curve.evidence(sample.score, shown.strength, sample.frame_pairs, likeness=shown.likeness)
        agreeing = curve.agreement * shown.agreement + curve.in_step * shown.in_step - curve.out_of_step
        return (alike if ranking else lower(alike, curve.untold)) + shown.weight * agreeing

    return max(of(shown) for shown in sample.stretches or (NOTHING,))


def confidence(curve: Calibration, sample: Sample) -> float:
    """The curve at one pair."""
    return probability(logit(curve, sample))


def left_out(samples: Sequence[Sample], folds: int) -> Floats:
    """The confidence of each pair by a curve fitted without any pair of its sources."""
    sources = sorted({source for one in samples for source in one.sources})
    fold_of = {source: i % folds for i, source in enumerate(sources)}
    values = np.full(len(samples), np.nan)
    for fold in range(folds):
        inside = [any(fold_of[source] == fold for source in one.sources) for one in samples]
        curve = fit([one for one, out in zip(samples, inside, strict=True) if not out])
        for i, (one, out) in enumerate(zip(samples, inside, strict=True)):
            if out:
                values[i] = (
                    max(values[i], confidence(curve, one))
                    if np.isfinite(values[i])
                    else confidence(curve, one)
                )
    return values


def with_limits(
    curve: Calibration, samples: Sequence[Sample], values: Floats, copy_alarms: float, related_alarms: float
) -> Calibration:
    """The curve with the confidences from which pairs are called copies and related, by alarms among left-out pairs."""
    strangers = np.array(
        [v for v, s in zip(values, samples, strict=True) if not s.related and s.group == "set"]
    )
    alike = np.array([v for v, s in zip(values, samples, strict=True) if not s.related and s.group == "case"])
    copy = max(_limit(strangers, copy_alarms), _limit(alike, ALIKE_ALARMS))
    related = _limit(strangers, related_alarms)
    return replace(curve, copy=min(max(copy, 0.9), 0.999), related=min(max(related, 0.2), 0.7))


def _limit(values: Floats, share: float) -> float:
    """The confidence that at most so large a share of pairs exceeds."""
    if not len(values):
        return 0.0
    ordered = np.sort(values)
    return float(np.ceil(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * (1 - share)))]) / 1000)
