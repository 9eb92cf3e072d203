"""From snippets to vectors: frozen layers are computed once a video and kept, learning ones each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from visil.compare.visil import ViSiL
from visil.training.config import Part
from visil.training.footage import Footage, read_frames

if TYPE_CHECKING:
    from visil.edits.clips import PictureTransform
    from visil.training.snippets import Snippet

FRAMES = 128
"""Frames that go through a frozen backbone together."""

CLIPS = 8
"""Clips that are transformed together."""

KEPT_BYTES = 4 << 30
"""Vectors of videos kept in main memory; those unused longest give way, and are computed again when needed."""

KEPT_SHARE = 0.25
"""Share of a GPU's memory for the same."""


class SnippetEmbedder:
    """Refined vectors [T, R, D] of snippets.

    With a frozen backbone, the vectors of a video's own frames are computed once; snippets with a seed have their
    pictures transformed and embedded anew. With one that learns, all pictures are embedded with gradients.
    """

    def __init__(
        self,
        model: ViSiL,
        footage: Footage,
        transform: PictureTransform,
        learning: Collection[Part] = (),
        *,
        kept_bytes: int | None = None,
    ) -> None:
        self.model = model
        self.footage = footage
        self.transform = transform
        self.backbone_learns = "backbone" in learning
        self.whitening_learns = self.backbone_learns or "whitening" in learning
        self.kept_bytes = kept_bytes if kept_bytes is not None else _room(model.device)
        self._kept: OrderedDict[int, Tensor] = OrderedDict()
        self._size = 0

    def pictures(self, snippet: Snippet) -> Tensor | None:
        """The frames that must be read to embed a snippet, uint8 [T, H, W, 3]; None: its video's vectors do."""
        if snippet.seed is None and not self.backbone_learns:
            return None
        return read_frames(self.footage, snippet.frames)

    def __call__(self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]) -> list[Tensor]:
        """Each snippet's vectors; ``pictures`` holds what :meth:`pictures` gave for it."""
        if self.backbone_learns:
            return self._learned_from_pictures(snippets, pictures)
        frozen = self.frozen(snippets, pictures)
        return list(self.learned(torch.cat(frozen)).split([len(vectors) for vectors in frozen]))

    @torch.no_grad()
    def frozen(self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]) -> list[Tensor]:
        """As far as nothing learns: up to the backbone, or the whitening."""
        results: list[Tensor | None] = [
            None if p is not None else self._rows(s.frames) for s, p in _pairs(snippets, pictures)
        ]
        rest = [i for i, picture in enumerate(pictures) if picture is not None]
        for start in range(0, len(rest), CLIPS):
            some = rest[start : start + CLIPS]
            clips = self._transformed([snippets[i] for i in some], [pictures[i] for i in some])
            vectors = self._frozen_vectors(torch.cat(clips))
            for i, part in zip(some, vectors.split([len(clip) for clip in clips]), strict=True):
                results[i] = part
        return [vectors for vectors in results if vectors is not None]

    def learned(self, vectors: Tensor) -> Tensor:
        """The rest of the way from what :meth:`frozen` gives."""
        if self.whitening_learns:
            return self.model.refine(vectors)
        return vectors if self.model.attention is None else self.model.attention(vectors)

    def _learned_from_pictures(
        self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]
    ) -> list[Tensor]:
        clips = self._transformed(snippets, pictures)
        vectors = self.model.refine(self.model.region_vectors(torch.cat(clips)))
        return list(vectors.split([len(clip) for clip in clips]))

    @torch.no_grad()
    def _transformed(self, snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]) -> list[Tensor]:
        """Pictures as the backbone takes them, [T, H, W, 3] from 0 to 255, those of snippets with a seed changed."""
        device = self.model.device
        results = [picture.to(device).float() for picture in pictures if picture is not None]
        lengths = {len(clip) for clip in results}
        for length in lengths:
            some = [i for i, s in enumerate(snippets) if s.seed is not None and len(results[i]) == length]
            for start in range(0, len(some), CLIPS):
                group = some[start : start + CLIPS]
                seeds = [seed for i in group if (seed := snippets[i].seed) is not None]
                clips = torch.stack([results[i] for i in group]).permute(0, 1, 4, 2, 3) / 255
                changed = (self.transform(clips, seeds).clamp(0, 1) * 255).round().permute(0, 1, 3, 4, 2)
                for i, clip in zip(group, changed, strict=True):
                    results[i] = clip
        return results

    def _rows(self, frames: Sequence[tuple[int, int]]) -> Tensor:
        """Vectors of frames as they stand, from their videos' kept vectors."""
        videos = {video: self._video(video) for video in dict.fromkeys(video for video, _ in frames)}
        parts: list[Tensor] = []
        start = 0
        # Frames on end are a slice: a list of positions would have to be copied to the GPU for each.
        for end, (video, position) in enumerate(frames, start=1):
            if end == len(frames) or frames[end] != (video, position + 1):
                parts.append(videos[video][frames[start][1] : position + 1].float())
                start = end
        return torch.cat(parts)

    def _video(self, video: int) -> Tensor:
        if video in self._kept:
            self._kept.move_to_end(video)
            return self._kept[video]
        vectors = self._video_vectors(video)
        if torch.is_autocast_enabled(vectors.device.type):
            vectors = vectors.half()
        self._kept[video] = vectors
        self._size += vectors.nbytes
        while self._size > self.kept_bytes and len(self._kept) > 1:
            self._size -= self._kept.popitem(last=False)[1].nbytes
        return vectors

    def _video_vectors(self, video: int) -> Tensor:
        """All of a video, as far as nothing learns."""
        count = len(self.footage.times(video))
        parts = [
            self._frozen_vectors(self.footage.images(video, range(start, min(start + FRAMES, count))))
            for start in range(0, count, FRAMES)
        ]
        return torch.cat(parts)

    def _frozen_vectors(self, images: Tensor) -> Tensor:
        return torch.cat([self._whitened(self.model.region_vectors(some)) for some in images.split(FRAMES)])

    def _whitened(self, vectors: Tensor) -> Tensor:
        if not self.whitening_learns and self.model.whitening is not None:
            vectors = self.model.whitening(vectors)
        return vectors.float()


def _room(device: torch.device) -> int:
    if device.type == "cuda":
        return int(KEPT_SHARE * torch.cuda.get_device_properties(device).total_memory)
    return KEPT_BYTES


def _pairs(
    snippets: Sequence[Snippet], pictures: Sequence[Tensor | None]
) -> Iterable[tuple[Snippet, Tensor | None]]:
    return zip(snippets, pictures, strict=True)
