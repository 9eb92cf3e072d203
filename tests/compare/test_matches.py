"""Many targets side by side give what each gives alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from family import FAMILY, LENGTHS, built, related
from visil.compare import matches
from visil.compare.visil import ViSiL
from visil.kernels import torch_engine
from visil.matching.localize import LocalizeConfig
from visil.matching.match import Match
from visil.model.features import VideoFeatures


@cache
def tuned(name: str, faint: float | None) -> ViSiL:
    model = built(FAMILY[name])
    model.config = replace(model.config, localize=replace(model.config.localize, faint=faint))
    return model


@cache
def one_by_one(
    name: str, faint: float | None, with_blank: bool
) -> tuple[VideoFeatures, list[VideoFeatures], list[Match]]:
    """A query, targets, and what the query compared with each of them alone gives."""
    query, *targets = related((20, *LENGTHS), 3, with_blank=with_blank)
    return query, targets, [tuned(name, faint).compare(query, target) for target in targets]


@pytest.mark.parametrize(
    ("faint", "with_blank", "frames_at_once"), [(None, False, 10), (0.2, True, 1), (0.2, True, 4096)]
)
@pytest.mark.parametrize("name", FAMILY)
def test_together_equals_one_by_one(
    name: str, faint: float | None, with_blank: bool, frames_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, targets, alone = one_by_one(name, faint, with_blank)
    monkeypatch.setattr(matches, "WIDE_FRAMES", frames_at_once)
    together = list(tuned(name, faint).compare_many(query, targets))
    assert len(together) == len(alone)
    assert name == "average" or any(match.segments for match in alone)
    for one, other in zip(alone, together, strict=True):
        assert other.score == pytest.approx(one.score, abs=1e-5)
        assert other.evidence == pytest.approx(one.evidence, abs=1e-4)
        assert other.stretch == pytest.approx(one.stretch, abs=1e-4)
        assert (other.verdict, other.target_path) == (one.verdict, one.target_path)
        assert [(s.query, s.target) for s in other.segments] == [(s.query, s.target) for s in one.segments]
        np.testing.assert_allclose(other.frame_matrix, one.frame_matrix, atol=1e-5)
        np.testing.assert_allclose(other.output_matrix, one.output_matrix, atol=1e-5)


def test_models_with_two_thresholds_are_read_with_the_lower_one() -> None:
    model = built(FAMILY["f"])
    query, target = related((20, 12), 3, with_blank=False)
    plain = model.compare(query, target)
    assert plain.segments
    high = LocalizeConfig(threshold=float(plain.frame_matrix.max()) + 0.01)
    model.config = replace(model.config, localize=high)
    silent = model.compare(query, target)
    assert (silent.segments, silent.stretch) == ([], 0.0)
    model.config = replace(model.config, localize=replace(high, faint=high.threshold - 0.2))
    for match in (model.compare(query, target), *model.compare_many(query, [target])):
        assert match.segments
        assert match.stretch > 0


def test_a_video_of_one_frame_that_is_there_whole_counts_as_four() -> None:
    model = built(FAMILY["f"])
    (target,) = related((20,), 3, with_blank=False)
    part = slice(7, 8)
    query = replace(target, vectors=target.vectors[part], timestamps=target.timestamps[:1], duration=1.0)
    match = model.compare(query, target)
    (segment,) = match.segments
    assert segment.target == (7.0, 8.0)
    above = float(match.frame_matrix[0, 7]) - model.config.localize.reading.threshold
    assert match.stretch == pytest.approx(above * np.log2(5), abs=1e-4)


def test_a_pair_too_long_for_that_keeps_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(FAMILY["f"])
    query, *targets = related((20, *LENGTHS), 4, with_blank=False)
    expected = [match.target_path for match in model.compare_many(query, targets)]
    monkeypatch.setattr(torch_engine, "WIDE_CELLS", 20 * 12 - 1)  # of LENGTHS, 12 and 30 are too long
    assert [match.target_path for match in model.compare_many(query, targets)] == expected


def test_nothing_to_compare_with() -> None:
    model = built(FAMILY["v"])
    (query,) = related((5,), 0, with_blank=False)
    assert list(model.compare_many(query, [])) == []


def test_what_rounding_makes_longer_than_one_scores_one() -> None:
    model = built(FAMILY["f"])
    (video,) = related((9,), 0, with_blank=False)
    long = replace(video, vectors=1.001 * video.vectors / video.vectors.norm(dim=-1, keepdim=True))
    match = model.compare(long, long)
    assert match.score == 1
    assert [segment.score for segment in match.segments] == [1]
