"""CTE against its formula written out, and against shifts that are known."""

from __future__ import annotations

import faiss
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.cte import CTE, Encoded


def smooth(frames: int, seed: int, channels: int = 24) -> Tensor:
    """Frame vectors that change slowly, as a video's do: unit vectors [T, C]."""
    steps = torch.randn(frames + 4, channels, generator=torch.Generator().manual_seed(seed))
    return F.normalize(steps.unfold(0, 5, 1).mean(dim=2), dim=1)


def features(vectors: Tensor) -> VideoFeatures:
    return VideoFeatures(vectors[:, None], torch.arange(len(vectors), dtype=torch.float64))


def by_hand(query: Tensor, target: Tensor, regularisation: float) -> tuple[int, float]:
    """The responses as a sum over frequencies for each shift, in float64."""
    q, b = query.double().numpy(), target.double().numpy()
    size = 1
    while size < len(q) + len(b):
        size *= 2
    places = np.arange(size)
    wave = np.exp(-2j * np.pi * np.outer(places, places) / size)
    spectrum_q, spectrum_b = wave[:, : len(q)] @ q, wave[:, : len(b)] @ b
    power = (np.abs(spectrum_q) ** 2).sum(axis=1)
    weakened = power + regularisation * power.mean()
    filtered = (spectrum_q.conj() * spectrum_b).sum(axis=1) / weakened
    best = (0, -np.inf)
    for shift in range(1 - len(q), len(b)):
        response = (filtered * np.exp(2j * np.pi * places * shift / size)).real.sum() / size
        if response > best[1]:
            best = (shift, response)
    return best[0], best[1] / (power / weakened).mean()


@settings(max_examples=30, deadline=None)
@given(x=st.integers(1, 12), y=st.integers(1, 12), seed=st.integers(0, 1000))
def test_the_formula(x: int, y: int, seed: int) -> None:
    query, target = smooth(x, seed, 5).double(), smooth(y, seed + 1, 5).double()
    shift, score = CTE(0.2, codes=0).align(Encoded(query), Encoded(target))
    expected_shift, expected_score = by_hand(query, target, 0.2)
    assert score == pytest.approx(expected_score, abs=1e-9)
    assert shift == expected_shift


@settings(max_examples=40, deadline=None)
@given(start=st.integers(0, 45), length=st.integers(15, 50), seed=st.integers(0, 5))
def test_a_part_is_found_at_its_place(start: int, length: int, seed: int) -> None:
    whole = smooth(60, seed)
    part = whole[start : start + length]
    system = CTE(codes=0)
    assert system.align(Encoded(part), Encoded(whole))[0] == start
    assert system.align(Encoded(whole), Encoded(part))[0] == -start
    noise = torch.randn(part.shape, generator=torch.Generator().manual_seed(seed))
    noisy = F.normalize(part + 0.05 * noise, dim=1)
    assert system.align(Encoded(noisy), Encoded(whole))[0] == start


def test_the_peak_is_sharper_than_that_of_plain_correlation() -> None:
    frames = smooth(80, 3)
    # Without the division (λ far above the power) slow videos answer at many shifts.
    sharp, plain = CTE(0.1, codes=0), CTE(1e6, codes=0)
    whole, other = Encoded(frames), Encoded(smooth(80, 4))
    moved = Encoded(torch.cat([frames[40:], frames[:40]]))  # half of it matches at each of two shifts
    for system in (sharp, plain):
        shift, score = system.align(whole, whole)
        assert shift == 0
        assert score == pytest.approx(1, abs=1e-5)
    assert abs(sharp.align(whole, moved)[0]) == 40
    assert sharp.scores(whole, [other])[0] < plain.scores(whole, [other])[0]


def test_codes_are_the_nearest_words_of_the_spectrum() -> None:
    """Encoding and decoding against the quantiser's own words in numpy, float64, frequency by frequency."""
    videos = [features(smooth(frames, seed, 6)) for seed, frames in enumerate((33, 40, 64, 90))]
    system = CTE(codes=3)
    system.learn(videos)
    frames = smooth(11, 9, 6)
    found = system.encoded(frames)
    size, words = 16, faiss.vector_to_array(system.quantiser_.centroids).reshape(3, -1, 4).astype(np.float64)
    wave = np.exp(-2j * np.pi * np.outer(np.arange(size // 2 + 1), np.arange(11)) / size)
    spectrum = wave @ frames.double().numpy()
    decoded = np.zeros((size, 6), complex)
    for k, row in enumerate(spectrum):
        pairs = np.stack([row.real, row.imag], axis=1).ravel()
        length = np.linalg.norm(pairs)
        kept = []
        for part, own in zip((pairs / length).reshape(3, 4), words, strict=True):
            kept.append(own[((own - part) ** 2).sum(axis=1).argmin()])
        row = length * np.concatenate(kept).reshape(6, 2) @ np.array([1, 1j])
        decoded[k], decoded[-k % size] = row, row.conj()
    decoded[0], decoded[size // 2] = decoded[0].real, decoded[size // 2].real
    expected = (np.exp(2j * np.pi * np.outer(np.arange(11), np.arange(size)) / size) @ decoded / size).real
    np.testing.assert_allclose(system.decoded(found).numpy(), expected, atol=1e-5)
    # Queries stay exact: the same pair scores as a query with the decoded target.
    target = system.encoded(smooth(20, 5, 6))
    plain = CTE(codes=0)
    decoded_target = Encoded(system.decoded(target))
    assert system.scores(found, [target]) == pytest.approx(plain.scores(Encoded(frames), [decoded_target]))


def test_codes_keep_what_videos_are_about() -> None:
    videos = [features(smooth(60, seed)) for seed in range(8)]
    system = CTE()
    with pytest.raises(UsageError, match="no codes yet"):
        system.describe(videos[0])
    system.learn(videos)
    described = [system.describe(video) for video in videos]
    assert described[0].codes is not None
    assert described[0].codes.nbytes < described[0].frames.nbytes / 4
    for number, video in enumerate(videos):
        part = system.describe(features(video.vectors[10:50, 0]))
        assert system.scores(part, described).argmax() == number
    with pytest.raises(UsageError, match="24 channels, got 5"):
        system.encoded(smooth(4, 0, 5))


def test_a_video_is_most_like_itself_among_ragged_ones() -> None:
    system = CTE(codes=0)
    described = [
        system.describe(features(smooth(frames, seed)))
        for seed, frames in enumerate((1, 2, 17, 40, 63, 64, 65))
    ]
    for number, query in enumerate(described):
        scores = system.scores(query, described)
        assert scores.dtype == np.float64
        assert np.isfinite(scores).all()
        assert scores.argmax() == number
        assert scores[number] == pytest.approx(1, abs=1e-5)
        # The score of a pair is its own, whatever it is compared along with.
        alone = [float(system.scores(query, [target])[0]) for target in described]
        np.testing.assert_allclose(scores, alone, atol=1e-6)
    assert len(system.scores(described[0], [])) == 0


def test_odd_inputs() -> None:
    system = CTE(codes=0)
    frames = smooth(1, 0).repeat(9, 1)
    zeros, still, turned = Encoded(torch.zeros(4, 24)), Encoded(frames), Encoded(-frames)
    assert np.isfinite(system.scores(zeros, [zeros, still])).all()
    assert np.isfinite(system.scores(still, [zeros, still, turned])).all()
    assert system.scores(still, [still])[0] == pytest.approx(1, abs=1e-5)
    with pytest.raises(UsageError, match="one vector"):
        system.describe(VideoFeatures(torch.ones(2, 9, 3), torch.arange(2.0)))
    with pytest.raises(UsageError, match="channels"):
        system.align(Encoded(torch.ones(2, 3)), Encoded(torch.ones(2, 4)))
    with pytest.raises(UsageError, match="regularisation"):
        CTE(0)


def test_the_mean_meets_at_the_best_shift() -> None:
    whole = smooth(40, 7)
    query, early, late = whole[10:30], whole[:25], whole[15:]
    found = CTE(codes=0).mean(Encoded(query), [Encoded(early), Encoded(late)])
    expected = query.clone()
    expected[:15] += early[10:25]
    expected[5:] += late[:15]
    torch.testing.assert_close(found.frames, expected / 3)
