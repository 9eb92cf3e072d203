"""The vote of :mod:`visil.collection.votes` on a GPU: products with all frames, for many queries at once.

A GPU multiplies each probe with every frame sooner than a processor looks into a few lists. Of the products only the
largest of each group of frames is looked at; frames of the best groups are then compared one by one. So no list is left
out; of a collection whose index holds codes, frames are what the codes stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from visil.collection.exact_neighbours import nearest
from visil.collection.votes import VOTE_POWER, Candidate

if TYPE_CHECKING:
    from visil.collection.candidates import Probes

GROUP = 128
"""Frames of a group."""

KEPT = 96
"""Groups of a probe that are looked into, and frames of them that are compared: more than the neighbours asked for."""

CELLS = 1 << 29
"""Products that are made at once (2 GB)."""

ROUNDING = 1e-4
"""By which a product of unit vectors, one of them in half precision, may be off."""

MEMORY_SHARE = 0.2
"""Of a GPU's memory that frames may take."""


def fits(frames: int, dim: int, device: torch.device) -> bool:
    """Whether so many frames are for a GPU at all."""
    if device.type != "cuda":
        return False
    most = MEMORY_SHARE * torch.cuda.get_device_properties(device).total_memory
    return 2 * frames * dim <= most


class DeviceFrames:
    """The frame vectors [M, C] of a collection on a device, and the number of the video that each belongs to.

    A negative number: of none. ``exact``: frames are as they were, so that ties are told from near misses.
    """

    def __init__(
        self, frames: NDArray[np.float16], videos: NDArray[np.int64], device: torch.device, *, exact: bool
    ) -> None:
        self._here = frames, videos
        self._exact = exact
        vectors = torch.from_numpy(np.ascontiguousarray(frames)).to(device)
        self._frames = F.pad(vectors, (0, 0, 0, -len(vectors) % GROUP))
        self._videos = F.pad(torch.from_numpy(videos).to(device), (0, -len(videos) % GROUP), value=-1)
        self._nobodys = (self._videos < 0).nonzero()[:, 0]
        self._past = int(videos.max(initial=0)) + 1

    @torch.inference_mode()
    def vote(self, queries: Sequence[Probes], limit: int, neighbours: int) -> list[list[Candidate]]:
        """See :meth:`visil.collection.candidates.CandidateIndex.vote`."""
        found: list[list[Candidate]] = [[] for _ in queries]
        counts = [len(probes.vectors) for probes in queries]
        if not sum(counts) or not len(self._here[0]):
            return found
        device = self._frames.device
        vectors = torch.from_numpy(np.concatenate([probes.vectors for probes in queries])).to(device)
        longest = 1 + max(int(probes.frames.max(initial=0)) for probes in queries)
        asking = np.repeat(np.arange(len(queries)), counts) * longest
        voters = torch.from_numpy(asking + np.concatenate([probes.frames for probes in queries])).to(device)
        # A frame of a query votes once for a video: for its best match there.
        parts = list(self._nearest(vectors, neighbours))
        rows, similarity, videos = (torch.cat(some) for some in zip(*parts, strict=True))
        keys, places = torch.unique(voters[rows] * self._past + videos, return_inverse=True)
        best = similarity.new_zeros(len(keys)).scatter_reduce_(0, places, similarity, "amax")
        pairs = keys // self._past // longest * self._past + keys % self._past  # query and video
        pairs, places = torch.unique(pairs, return_inverse=True)
        weights = torch.zeros(len(pairs), dtype=torch.float64, device=device)
        weights.index_add_(0, places, best.double() ** VOTE_POWER)
        order = weights.argsort(descending=True, stable=True)
        order = order[(pairs[order] // self._past).argsort(stable=True)]
        owners = pairs[order] // self._past
        first = torch.searchsorted(owners, torch.arange(len(queries), device=device))
        chosen = order[torch.arange(len(owners), device=device) - first[owners] < limit]
        told = zip((pairs[chosen]).tolist(), weights[chosen].tolist(), strict=True)
        for pair, votes in told:
            found[pair // self._past].append(Candidate(pair % self._past, votes))
        return found

    def _nearest(self, vectors: Tensor, count: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows of ``vectors``, similarities and videos of their nearest frames; ties for the last place are all in."""
        step = max(1, CELLS // len(self._frames))
        for start in range(0, len(vectors), step):
            asking = vectors[start : start + step]
            similarity, places, crowded = self._among_groups(asking, count)
            kept = similarity > -torch.inf
            if self._exact and bool(crowded.any()):
                kept &= ~crowded[:, None]
                rows = crowded.nonzero()[:, 0]
                for one in nearest(asking[rows].cpu().numpy(), *self._here, count):
                    probes, similar, owners = (
                        torch.from_numpy(values).to(rows.device)
                        for values in (one.probes, one.similarity, one.videos)
                    )
                    yield start + rows[probes], similar, owners
            rows, columns = kept.nonzero(as_tuple=True)
            yield start + rows, similarity[rows, columns], self._videos[places[rows, columns]]

    def _among_groups(self, asking: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Similarities [N, kept] and frames of the nearest, -inf where there is none; and which rows may have more."""
        groups = len(self._frames) // GROUP
        products = _products(asking, self._frames)
        products.index_fill_(1, self._nobodys, -torch.inf)
        grouped = products.view(len(asking), groups, GROUP)
        peaks = grouped.amax(dim=2)
        chosen = peaks.topk(min(KEPT, groups), dim=1).indices
        inside = grouped.gather(1, chosen[:, :, None].expand(-1, -1, GROUP)).flatten(1)
        values, at = inside.topk(min(KEPT, inside.shape[1]), dim=1)
        places = chosen.gather(1, at // GROUP) * GROUP + at % GROUP
        last = values[:, min(count, values.shape[1]) - 1, None] - ROUNDING
        crowded = (peaks >= last).sum(dim=1) > chosen.shape[1]
        if values.shape[1] < inside.shape[1]:
            crowded |= values[:, -1] >= last[:, 0]
        similarity = torch.einsum("nkc,nc->nk", self._frames[places].float(), asking)
        similarity[(values == -torch.inf) | (similarity <= 0)] = -torch.inf
        least = similarity.topk(min(count, values.shape[1]), dim=1).values[:, -1:]
        similarity[similarity < least] = -torch.inf
        return similarity, places, crowded & (last[:, 0] > 0)


def _products(asking: Tensor, frames: Tensor) -> Tensor:
    """[N, M] in single precision: by the tensor cores of a GPU, whose sums are as precise as that."""
    if asking.device.type == "cuda":
        try:
            return torch.mm(asking.half(), frames.T, out_dtype=torch.float32)
        except (TypeError, RuntimeError):  # not in every version of torch
            pass
    return asking @ frames.float().T
