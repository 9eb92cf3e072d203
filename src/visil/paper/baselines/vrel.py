"""VReL (Feng et al. 2018, video re-localization): where a query happens in another video, adapted to retrieval.

As published: an LSTM (128 units) reads both videos' features, reduced by PCA; at each step of the target, attention
weighs the query's states by that step and by what was matched before; query and target gate each other; a factorised
bilinear product (rank 8, one projection for both) matches them and feeds an LSTM, in both directions; a last LSTM gives
every step the probabilities of being the start, the end, inside or outside of what was sought; the loss is cross
entropy, with tenfold weight at start and end; dropout 0.4 and 0.2; Adam at 1e-3, gradients clipped at 5. As in the
ViSiL paper, videos are ranked by the probability of the best segment.

Chosen here: iMAC in place of C3D; ViSiL's triplets (:mod:`visil.paper.baselines.triplets`), the anchor as the query,
the positive within the negative as the target, and as often the negative alone, all outside, which the published
training never sees; features brought to unit variance and projected to 128 channels before the first LSTM; a wider
start of the bilinear projection; videos longer than 300 frames are thinned to 300, but a segment may have any length
(64 steps there). The score is the logarithm of the probability. 1,000 steps of 128 pairs, as in the released code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from visil.errors import UsageError
from visil.model.features import VideoFeatures
from visil.paper.baselines.system import ComparedSystem, ScoreArray, checked, needed
from visil.paper.baselines.triplets import Drawn, TripletSource

WIDTH = 128
RANK = 8
LONGEST = 300
"""Frames of a video, at most."""
START, END, INSIDE, OUTSIDE = range(4)
BOUNDARY = 10.0
"""Weight of the steps where a segment starts or ends."""
TOGETHER = 64
"""Targets matched at once."""


class VReL(ComparedSystem[Tensor]):
    """How probable the likeliest segment of the target is that shows what the query shows."""

    learns = by_triplets = True

    def __init__(
        self,
        name: str = "VReL",
        reads: str = "imac+pca",
        *,
        width: int = WIDTH,
        steps: int = 1000,
        batch: int = 128,
        learning_rate: float = 1e-3,
    ) -> None:
        if width < 1 or steps < 1 or batch < 1:
            raise UsageError(f"VReL needs a width, steps and a batch, got {width}, {steps} and {batch}")
        self.name, self.reads = name, reads
        self.width, self.steps, self.batch = width, steps, batch
        self.learning_rate = learning_rate
        self.network_: Relocalizer | None = None

    @torch.inference_mode(False)
    @torch.enable_grad()
    def learn(
        self, videos: Sequence[VideoFeatures], *, seed: int = 0, triplets: TripletSource | None = None
    ) -> None:
        """Train on positives hidden in negatives, and on negatives without them; where the triplets are."""
        source = needed(triplets, self.name)
        first, device = checked(videos[0]), source.draw().anchor.device
        rng = np.random.default_rng([seed, 1])
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(seed)
            network = Relocalizer(first.shape[1] * first.shape[2], self.width).to(device)
            optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, foreach=True)
            for _ in range(self.steps):
                queries, targets, labels = [], [], []
                for number in range(self.batch):
                    drawn = source.draw()
                    hidden = hide(drawn, rng) if number % 2 == 0 else (drawn.negative, None)
                    queries.append(drawn.anchor.flatten(1).float())
                    targets.append(hidden[0].flatten(1).float())
                    labels.append(label(len(hidden[0]), hidden[1]).to(device))
                loss = localisation_loss(network.pairs(queries, targets), labels)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 5.0)
                optimizer.step()
        self.network_ = network.to(first.device).eval()

    def learned(self) -> dict[str, Tensor]:
        """The network's numbers."""
        return dict(self._network().state_dict())

    def restore(self, learned: dict[str, Tensor]) -> None:
        """See :class:`visil.paper.baselines.system.Keepable`."""
        self.network_ = Relocalizer(learned["project.weight"].shape[1], self.width).eval()
        self.network_.load_state_dict(learned)

    @torch.inference_mode()
    def describe(self, video: VideoFeatures) -> Tensor:
        """The output of the first LSTM for the frames, [T, width]."""
        return self._network().read([thinned(checked(video)).flatten(1).float()])[0]

    @torch.inference_mode()
    def scores(self, query: Tensor, targets: Sequence[Tensor]) -> ScoreArray:
        """The logarithm of the probability (Eq. 12 of Feng et al.) of the best segment of each target."""
        network = self._network()
        results = np.empty(len(targets))
        order = np.argsort([len(target) for target in targets], kind="stable")
        for start in range(0, len(order), TOGETHER):
            chosen = order[start : start + TOGETHER]
            batch = [targets[i] for i in chosen]
            logits = network.match([query] * len(batch), batch)
            results[chosen] = [float(best_segment(row.log_softmax(dim=1))) for row in logits]
        return results

    def _network(self) -> Relocalizer:
        if self.network_ is None:
            raise UsageError("VReL has learned nothing yet: call learn with training videos first")
        return self.network_


class Relocalizer(nn.Module):
    """Two sequences to four logits for each step of the second."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.channels = channels
        self.project = nn.Linear(channels, width)
        self.reader = nn.LSTM(width, width, batch_first=True)
        self.forwards = MatchCell(width)
        self.backwards = MatchCell(width)
        self.pointer = nn.LSTM(2 * width, width, batch_first=True)
        self.localise = nn.Linear(width, 4)

    def pairs(self, queries: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
        """Frames [X, C] and [Y, C] of each pair to logits [Y, 4]."""
        return self.match(self.read(queries), self.read(targets))

    def read(self, videos: Sequence[Tensor]) -> list[Tensor]:
        """Frames [T, C] of each video to states [T, width]."""
        if any(video.shape[1] != self.channels for video in videos):
            raise UsageError(f"this VReL takes {self.channels} channels, got {videos[0].shape[1]}")
        frames = F.normalize(pad_sequence(list(videos), batch_first=True), dim=2) * self.channels**0.5
        # The padding follows the frames, and an LSTM that reads forwards does not look ahead.
        states, _ = self.reader(self.project(frames))
        states = F.dropout(states, 0.4, self.training)
        return [state[: len(video)] for state, video in zip(states, videos, strict=True)]

    def match(self, queries: Sequence[Tensor], targets: Sequence[Tensor]) -> list[Tensor]:
        """States [X, width] and [Y, width] of each pair to logits [Y, 4]."""
        lengths = [len(target) for target in targets]
        padded_query = pad_sequence(list(queries), batch_first=True)
        real = pad_sequence(
            [torch.ones(len(q), dtype=torch.bool, device=q.device) for q in queries], batch_first=True
        )
        ahead = self.forwards(padded_query, real, pad_sequence(list(targets), batch_first=True))
        turned = pad_sequence([target.flip(0) for target in targets], batch_first=True)
        back = self.backwards(padded_query, real, turned)
        both = [
            torch.cat([a[:n], b[:n].flip(0)], dim=1) for a, b, n in zip(ahead, back, lengths, strict=True)
        ]
        both = [F.dropout(states, 0.2, self.training) for states in both]
        states, _ = self.pointer(pad_sequence(both, batch_first=True))
        return [self.localise(state[:n]) for state, n in zip(states, lengths, strict=True)]


class MatchCell(nn.Module):
    """Attention, cross gating, bilinear matching and the LSTM that gathers the matches, in one direction."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_query = nn.Linear(width, width, bias=False)
        self.of_target = nn.Linear(width, width)
        self.of_state = nn.Linear(width, width, bias=False)
        self.attend = nn.Linear(width, 1)
        self.gate_query = nn.Linear(width, width)
        self.gate_target = nn.Linear(width, width)
        self.factor = nn.Linear(width, width * RANK)
        nn.init.normal_(
            self.factor.weight, std=(3 / width) ** 0.5
        )  # the usual start makes products near zero
        self.cell = nn.LSTMCell(width, width)

    def forward(self, query: Tensor, real: Tensor, target: Tensor) -> Tensor:
        """Query states [B, X, W], which of them are real [B, X], target states [B, Y, W]: matches [B, Y, W]."""
        keys = self.of_query(query)
        unreal = torch.zeros_like(real, dtype=query.dtype).masked_fill(~real, -torch.inf)
        hidden = query.new_zeros(len(query), query.shape[2])
        memory = hidden
        matches = []
        # What needs no state is computed for all steps at once.
        hints, gates = self.of_target(target), torch.sigmoid(self.gate_query(target))
        for step, hint, gate in zip(target.unbind(1), hints.unbind(1), gates.unbind(1), strict=True):
            hint = hint + self.of_state(hidden)
            heed = self.attend(torch.tanh(keys + hint[:, None])).squeeze(2) + unreal
            heeded = torch.bmm(heed.softmax(dim=1)[:, None], query)[:, 0]
            gated_step = step * torch.sigmoid(self.gate_target(heeded))
            hidden, memory = self.cell(self.bilinear(gated_step, heeded * gate), (hidden, memory))
            matches.append(hidden)
        return torch.stack(matches, dim=1)

    def bilinear(self, a: Tensor, b: Tensor) -> Tensor:
        """Factorised bilinear matching [B, W]: for each output, the dot product of two projections of length RANK."""
        first, second = self.factor(torch.stack([a, b])).view(2, len(a), -1, RANK)
        return (first * second).sum(dim=2)


def label(length: int, segment: tuple[int, int] | None) -> Tensor:
    """The targets of the four probabilities of each step, [length, 4], for a segment (first, last), or none."""
    wanted = torch.zeros(length, 4)
    wanted[:, OUTSIDE] = 1
    if segment is not None:
        first, last = segment
        wanted[first : last + 1, OUTSIDE] = 0
        wanted[first : last + 1, INSIDE] = 1
        wanted[first, START] = wanted[last, END] = 1
    return wanted / wanted.sum(dim=1, keepdim=True)


def localisation_loss(logits: Sequence[Tensor], labels: Sequence[Tensor]) -> Tensor:
    """Cross entropy, weighted at starts and ends, its mean over all steps of all pairs."""
    wanted = torch.cat(list(labels))
    entropy = -(wanted * torch.cat(list(logits)).log_softmax(dim=1)).sum(dim=1)
    weight = torch.where(wanted[:, [START, END]].sum(dim=1) > 0, BOUNDARY, 1.0)
    return (weight * entropy).mean()


def best_segment(logs: Tensor) -> Tensor:
    """log p(start) + log p(end) + the mean of log p(inside) of the segment where it is largest, from logs [Y, 4]."""
    inside = F.pad(logs[:, INSIDE].cumsum(dim=0), (1, 0))
    places = torch.arange(len(logs), device=logs.device)
    lengths = places[None, :] - places[:, None] + 1  # [start, end]
    means = (inside[None, 1:] - inside[:-1, None]) / lengths.clamp(min=1)
    total = logs[:, START, None] + logs[None, :, END] + means
    return total.masked_fill(lengths < 1, -torch.inf).amax()


def hide(drawn: Drawn, rng: np.random.Generator) -> tuple[Tensor, tuple[int, int]]:
    """The positive between two pieces of the negative, and where it lies: first and last frame."""
    cut = int(rng.integers(len(drawn.negative) + 1))
    pieces = [drawn.negative[:cut], drawn.positive, drawn.negative[cut:]]
    return torch.cat(pieces), (cut, cut + len(drawn.positive) - 1)


def thinned(vectors: Tensor, longest: int = LONGEST) -> Tensor:
    """At most ``longest`` frames, evenly spaced."""
    if len(vectors) <= longest:
        return vectors
    return vectors[torch.linspace(0, len(vectors) - 1, longest, device=vectors.device).round().long()]
