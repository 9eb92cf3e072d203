"""A first look by signs, against exhaustive search and against float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import visil
from collection.random_collection import Made, put, query, same_hits
from visil.collection import first_look, sign_scores
from visil.collection.first_look import FILE, FirstLook
from visil.collection.shards.create import create
from visil.compare.visil import ViSiL
from visil.errors import ModelError, UsageError
from visil.kernels import cpu_hamming
from visil.model.config import VISIL_F

from ..conftest import Command
from ..inside import part, remote, signs
from .conftest import COUNT
from .sign_truth import true_scores


def test_scores_are_those_of_the_definition(opened: visil.Index, made: list[Made]) -> None:
    common = opened.common_here().beyond_typical(query(made[5]))
    assert common is not None
    numbers, scores = signs(opened).scores(query(made[5]), common)
    assert numbers.tolist() == opened.catalogue.numbers()
    np.testing.assert_allclose(scores, true_scores(made[5], made, common), rtol=0, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("frames", "cells"), [(1, 1), (3, 7), (6, 1 << 22), (1024, 20)])
def test_scores_are_the_same_in_whatever_parts(
    made: list[Made], monkeypatch: pytest.MonkeyPatch, frames: int, cells: int, threads: int
) -> None:
    """Groups of several videos, videos longer than a group, one thread and several."""
    monkeypatch.setattr(sign_scores, "FRAMES", frames)
    monkeypatch.setattr(sign_scores, "CELLS", cells)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    asked = torch.from_numpy(first_look.signs_of(query(made[0]))).transpose(0, 1).contiguous()
    targets = (first_look.signs_of(query(video)) for video in made)
    scores = sign_scores.sign_scores(asked, targets, 16)
    np.testing.assert_allclose(scores, true_scores(made[0], made, None), rtol=0, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    shapes=st.tuples(*[st.integers(1, 5)] * 4),
    width=st.integers(1, 5),
    products=st.integers(1, 60),
    seed=st.integers(0, 99),
)
def test_closest_regions_by_counting(shapes: tuple[int, ...], width: int, products: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, r, s = shapes
    one = rng.integers(0, 256, (x, r, width), np.uint8)
    other = rng.integers(0, 256, (s, y, width), np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_hamming, "PRODUCTS", products)
        patch.setattr(cpu_hamming, "CLOSEST_ROWS", 2)
        found = cpu_hamming.closest_regions(torch.from_numpy(one), torch.from_numpy(other))
    for i, j in np.ndindex(x, y):
        bits = [
            sum((int(a) ^ int(b)).bit_count() for a, b in zip(u, v, strict=True))
            for u in one[i]
            for v in other[:, j]
        ]
        assert found[i, j] == min(bits)


def test_signs_do_without_a_sign_of_blank_frames(made: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "CHUNK", 2)
    for video in made:
        signs = first_look.signs_of(query(video))
        shown = video.vectors[~video.blank].half()
        assert signs.shape == (2, len(shown), 2)
        bits = np.unpackbits(signs, axis=-1, bitorder="little")
        assert (bits == (shown.transpose(0, 1) >= 0).numpy()).all()


@pytest.mark.parametrize("number", [COUNT, COUNT + 1, 10**9])
def test_a_first_look_that_keeps_all_is_an_exhaustive_search(
    opened: visil.Index, made: list[Made], number: int
) -> None:
    for video in made[::9]:
        assert opened.search(query(video), 99, first_look=number) == opened.search(
            query(video), 99, exhaustive=True
        )


def test_what_is_kept_is_ranked_as_exhaustive_search_ranks_it(opened: visil.Index, made: list[Made]) -> None:
    for video in made[::5]:
        every = opened.search(query(video), COUNT, exhaustive=True)
        common = opened.common_here().beyond_typical(query(video))
        scores = true_scores(video, made, common).round(9)
        best = sorted(range(COUNT), key=lambda i: (-scores[i], made[i].id))
        for number in (1, 7, COUNT - 1):
            hits = opened.search(query(video), COUNT, first_look=number)
            kept = {made[i].id for i in best[:number]}
            assert {hit.id for hit in hits} == kept
            same_hits(hits, [hit for hit in every if hit.id in kept])
        assert len(opened.search(query(video), 3, exhaustive=True, first_look=7)) == 3
        (itself,) = opened.search(video.id, 1, first_look=5)
        assert (itself.id, itself.note) == (video.id, "the same bytes")


def test_a_first_look_at_nothing(tmp_path: Path, small: ViSiL, made: list[Made]) -> None:
    with visil.Index(tmp_path / "none", model=small) as index:
        assert index.search(query(made[0]), first_look=1) == []


def test_less_than_one_is_refused(opened: visil.Index, made: list[Made], run: Command, place: Path) -> None:
    for number in (0, -3):
        with pytest.raises(UsageError, match=f"first_look must be at least 1, not {number}"):
            opened.search(query(made[0]), first_look=number)
        done = run("search", place, made[0].id, "--first-look", str(number))
        assert (done.status, done.out) == (2, "")
        assert "--first-look" in done.err


def test_a_model_that_does_not_whiten_has_no_first_look(place: Path, opened: visil.Index) -> None:
    plain = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0"), with_backbone=False)
    with pytest.raises(ModelError, match="need a model that whitens"):
        FirstLook(place, plain, part(opened).catalogue, part(opened).store)


def test_a_collection_of_binary_codes_has_the_same_signs(
    tmp_path: Path, opened: visil.Index, made: list[Made], small: ViSiL, place: Path
) -> None:
    opened.prepare_first_look()
    with visil.Index(tmp_path / "bits", model=small, codes="binary") as index:
        for video in made:
            put(index, video)
        every = index.search(query(made[8]), 99, exhaustive=True)
        hits = index.search(query(made[8]), 99, first_look=12)
        kept = {hit.id for hit in hits}
        assert len(kept) == 12
        same_hits(hits, [hit for hit in every if hit.id in kept])
    assert (tmp_path / "bits" / FILE).read_bytes() == (place / FILE).read_bytes()


def test_on_a_store(
    tmp_path: Path, opened: visil.Index, made: list[Made], small: ViSiL, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec", reason="needs the extra visil[store]")
    monkeypatch.setenv("VISIL_CACHE", str(tmp_path / "cache"))
    with visil.Index("memory://first-look/all.visil", model=small) as index:
        assert index.model is small
        for video in made:
            put(index, video)
        for video in made[::11]:
            same_hits(
                index.search(query(video), 99, first_look=9), opened.search(query(video), 99, first_look=9)
            )
        assert index.verify() == []
        assert not [name for name in remote(index).objects.sizes("") if "first-look" in name]
    assert len(list((tmp_path / "cache").rglob(FILE))) == 1


def test_shards_look_as_one_collection_does(
    tmp_path: Path, opened: visil.Index, made: list[Made], small: ViSiL
) -> None:
    create(tmp_path / "many", 3)
    with visil.Index(tmp_path / "many", model=small) as many:
        assert many.model is small
        assert many.search(query(made[0]), first_look=1) == []
        for video in made:
            put(many, video)
        told: list[tuple[int, int]] = []
        many.prepare_first_look(lambda done, total: told.append((done, total)))
        assert told == [(1, 3), (2, 3), (3, 3)]
        for video in made[::7]:
            for number in (1, 5, 39, 40):
                same_hits(
                    many.search(query(video), 99, first_look=number),
                    opened.search(query(video), 99, first_look=number),
                )


def test_on_the_command_line(folder: Path, videos: Path, run: Command) -> None:
    asked = ["search", folder, videos / "copies" / "cut.mp4", "--json"]
    hits = run(*asked, "--first-look", "3").json["hits"]
    assert {hit["path"] for hit in hits} == {str(path) for path in (videos / "copies").iterdir()}
    every = run(*asked, "--exhaustive").json["hits"]
    assert [hit["id"] for hit in hits] == [hit["id"] for hit in every[:3]]
    assert run(*asked, "--exhaustive", "--first-look", "3").json["hits"] == hits
    assert run("verify", folder).out == "sound\n"
    size = (folder / FILE).stat().st_size
    before = run("info", folder, "--json").json["bytes"]
    (folder / FILE).unlink()
    assert before - run("info", folder, "--json").json["bytes"] == size
    assert run(*asked, "--first-look", "3").json["hits"] == hits
