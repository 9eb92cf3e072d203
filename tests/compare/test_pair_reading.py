"""What stretches are looked for in: S_f as it is, or the reader's map, in strips as in one piece."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from visil.compare import pair_reading
from visil.compare.pair_reading import PairReading, read_together
from visil.compare.visil import ViSiL
from visil.matching.localize import LocalizeConfig
from visil.model.config import VISIL_F_W
from visil.model.features import VideoFeatures
from visil.model.reader import ReaderConfig


@cache
def model(reader: bool = True) -> ViSiL:
    config = VISIL_F_W.replaced(
        backbone="efficientnet-lite0", stages=(0,), levels=(2,), dim=8, symmetric=True
    )
    if reader:
        shape = ReaderConfig(hidden=4, dilations=(1, 2), window=4)
        localize = LocalizeConfig(threshold=-0.2, min_gain=0.2)
        config = config.replaced(background=5, reader=shape, localize=localize)
    made = ViSiL(config, with_backbone=False)
    if made.background is not None:
        torch.manual_seed(0)
        made.background.regions.copy_(torch.randn(5, 8))
        made.background.mean.fill_(0.1)
        made.background.spread.fill_(0.1)
    return made


def video(frames: int, seed: int, blank: int | None = None) -> VideoFeatures:
    drawn = torch.randn(frames, 4, 8, generator=torch.Generator().manual_seed(seed))
    vectors = torch.nn.functional.normalize(drawn, dim=-1)
    flags = torch.zeros(frames, dtype=torch.bool)
    if blank is not None:
        flags[blank] = True
    return VideoFeatures(vectors, torch.arange(frames, dtype=torch.float64), blank=flags)


def test_without_a_reader_it_is_the_matrix_less_what_is_common() -> None:
    query, target = video(6, 0), video(5, 1)
    frames = model(False).formula.frame_matrix(query.vectors, target.vectors)
    common = (np.arange(6) / 100).astype(np.float32)
    (found,) = read_together(model(False), query, [target], [frames], common)
    assert np.allclose(found, frames.numpy() - common[:, None])
    pair = PairReading(model(False), query, target, common)
    strips = [*pair.feed(frames[:4]), *pair.feed(frames[4:])]
    assert np.allclose(np.concatenate(strips), found)


@pytest.mark.parametrize("height", [1, 7, 90])
def test_strips_of_any_height_give_the_map_of_the_whole(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_reading, "ROWS", 16)
    monkeypatch.setattr(pair_reading, "TILE", 24)
    query, target = video(90, 0, blank=30), video(61, 1)
    frames = model().formula.frame_matrix(query.vectors, target.vectors)
    common = (np.random.default_rng(0).random(90) / 10).astype(np.float32)
    (whole,) = read_together(model(), query, [target], [frames], common)
    pair = PairReading(model(), query, target, common)
    strips = [part for at in range(0, 90, height) for part in pair.feed(frames[at : at + height])]
    assert np.allclose(np.concatenate(strips), whole, atol=1e-5)


def test_one_pair_and_many_get_the_same_answers() -> None:
    query = video(12, 3)
    targets = [
        video(9, 4),
        VideoFeatures(query.vectors[2:9], torch.arange(7.0).double()),
        video(3, 5, blank=1),
    ]
    together = list(model().compare_many(query, targets))
    for target, match in zip(targets, together, strict=True):
        alone = model().compare(query, target)
        spans = [[(s.query, s.target) for s in one.segments] for one in (alone, match)]
        assert spans[0] == spans[1]
        assert alone.score == pytest.approx(match.score)
        assert alone.stretch == pytest.approx(match.stretch, abs=1e-5)


def test_a_pair_with_nothing_alike_is_not_read() -> None:
    query, target = video(6, 0), video(5, 1)
    frames = torch.full((6, 5), 0.34)  # below 0.1 + 2.5 · 0.1
    (found,) = read_together(model(), query, [target], [frames])
    assert (found == -1).all()
    (strip,) = PairReading(model(), query, target).feed(frames)
    assert (strip == -1).all()
    frames[3, 2] = 0.36
    assert (read_together(model(), query, [target], [frames])[0] > -1).any()


def test_a_reader_goes_by_its_own_background() -> None:
    query, targets = video(6, 0), [video(5, 1), video(4, 2)]
    plain = [match.stretch for match in model().compare_many(query, targets)]
    common = np.full(6, 0.1, np.float32)
    assert [m.stretch for m in model().compare_many(query, targets, common=common)] == plain


def test_a_model_with_a_reader_leaves_plain_slides_to_it() -> None:
    slide = torch.full((1, 64, 64, 3), 230, dtype=torch.uint8)
    slide[:, 28:32, 8:56] = 20  # a line of text: 5 % of the picture
    assert model(False).load_backbone().embed_frames(slide).blank.tolist() == [True]  # type: ignore[union-attr]
    assert model().load_backbone().embed_frames(slide).blank.tolist() == [False]  # type: ignore[union-attr]


@pytest.mark.parametrize("frames", [1, 4, 9])
def test_what_is_told_of_a_long_video_does_not_depend_on_its_pieces(
    frames: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = video(9, 0, blank=5)
    (whole,) = pair_reading.signs(model(), [one])
    monkeypatch.setattr(pair_reading, "FRAMES", frames)
    (pieces,) = pair_reading.signs(model(), [one])
    for name in ("common", "change", "blank"):
        torch.testing.assert_close(getattr(pieces, name), getattr(whole, name))
