"""Snippets' vectors against embedding the pictures directly."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from toy_training import footage, toy_model
from visil.training.config import Part
from visil.training.embedding import SnippetEmbedder
from visil.training.footage import read_frames
from visil.training.snippets import Snippet
from visil.training.trainable import prepare

PLAIN = Snippet(((0, 3), (0, 4), (0, 4), (0, 9)))
MIXED = Snippet(((1, 0), (2, 5), (1, 1)))
EDITED = Snippet(((3, 2), (3, 1), (0, 3)), 7)


def darker(clips: Tensor, seeds: Sequence[int]) -> Tensor:
    """A transform that shows which seed it was given: every clip is dimmed by its own."""
    return clips * (1 - torch.tensor(seeds)[:, None, None, None, None] / 20)


def expected(snippet: Snippet) -> Tensor:
    model = toy_model()
    pictures = read_frames(footage(), snippet.frames)
    if snippet.seed is not None:
        pictures = (pictures.float() / 255 * (1 - snippet.seed / 20) * 255).round().to(torch.uint8)
    return model.embed_frames(pictures).vectors


@pytest.mark.parametrize("learning", [("attention", "comparator"), ("whitening",), ("backbone",)])
def test_vectors_are_those_of_the_pictures(learning: tuple[Part, ...]) -> None:
    model = toy_model()
    prepare(model, learning)
    embedder = SnippetEmbedder(model, footage(), darker, learning)
    snippets = [EDITED, PLAIN, MIXED, Snippet(((5, 5),) * 3, 2)]
    found = embedder(snippets, [embedder.pictures(snippet) for snippet in snippets])
    for vectors, snippet in zip(found, snippets, strict=True):
        torch.testing.assert_close(vectors.detach(), expected(snippet), rtol=0, atol=2e-5)
    learned = {"attention": model.attention, "whitening": model.whitening, "backbone": model.backbone}
    torch.cat(found).sum().backward()
    part = learned[learning[0]]
    assert isinstance(part, torch.nn.Module)
    tensors = [*part.parameters(), *(b for b in part.buffers() if b.requires_grad)]
    assert any(t.grad is not None and t.grad.abs().max() > 0 for t in tensors)


def test_pictures_are_read_only_where_needed() -> None:
    model = toy_model()
    learning: tuple[Part, ...] = ("comparator",)
    embedder = SnippetEmbedder(model, footage(), darker, learning)
    assert embedder.pictures(PLAIN) is None
    edited = embedder.pictures(EDITED)
    assert edited is not None
    assert torch.equal(edited[1], footage().images(3, [1])[0])
    assert torch.equal(edited[2], footage().images(0, [3])[0])
    learning = ("backbone",)
    everything = SnippetEmbedder(model, footage(), darker, learning)
    assert everything.pictures(PLAIN) is not None


def test_a_video_is_embedded_once_while_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_model()
    calls: list[int] = []
    original = model.region_vectors

    def counted(frames: Tensor) -> Tensor:
        calls.append(len(frames))
        return original(frames)

    monkeypatch.setattr(model, "region_vectors", counted)
    roomy = SnippetEmbedder(model, footage(), darker)
    first = roomy([PLAIN, MIXED], [None, None])
    roomy([PLAIN, MIXED], [None, None])
    assert calls == [12, 12, 12]
    calls.clear()
    tight = SnippetEmbedder(model, footage(), darker, kept_bytes=1)
    again = tight([PLAIN, MIXED, PLAIN], [None, None, None])
    assert len(calls) == 4
    assert torch.equal(again[0], first[0])
    assert torch.equal(again[1], first[1])
    assert torch.equal(again[2], first[0])
