"""Which transforms a clip meets, how often and how strongly: the paper's, a heavy set, a light one, two in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from visil.training.transforms import colour, compose, degrade, geometric
from visil.training.transforms.draws import Draws, Range, aspect, check, full_precision, on_chosen, only
from visil.training.transforms.heavy import Heavy

__all__ = ["Composite", "Heavy", "Mild", "PaperPositive"]


@dataclass(frozen=True)
class PaperPositive:
    """One colour and one geometric transform for each clip (Sec. 4.4); the temporal one is a list of positions.

    The paper names the transforms, not their strengths.
    """

    brightness: Range = (0.5, 1.5)
    contrast: Range = (0.5, 1.5)
    hue: Range = (-90.0, 90.0)
    saturation: Range = (0.2, 2.0)
    crop_side: Range = (0.5, 0.9)
    """Share of height and width that a crop keeps."""
    rotation: Range = (-30.0, 30.0)
    resize: Range = (0.6, 1.6)
    rescale: Range = (0.5, 1.5)

    @full_precision
    def __call__(self, clips: Tensor, seeds: Sequence[int]) -> Tensor:
        """Same shape out."""
        check(clips, seeds)
        draws = Draws(seeds)
        which = draws.choice(5)
        changed = colour.adjust(
            clips,
            grayscale=(which == 0).double(),
            brightness=only(which == 1, draws.uniform(self.brightness), 1),
            contrast=only(which == 2, draws.uniform(self.contrast), 1),
            hue=only(which == 3, draws.uniform(self.hue), 0),
            saturation=only(which == 4, draws.uniform(self.saturation), 1),
        )
        which = draws.choice(6)
        width = only(which == 2, draws.uniform(self.crop_side), 1)
        height = only(which == 2, draws.uniform(self.crop_side), 1)
        left, top = draws.block(2).unbind(1)
        maps = [
            geometric.flip_horizontal(which == 0),
            geometric.flip_vertical(which == 1),
            geometric.crop(left * (1 - width), top * (1 - height), width, height),
            geometric.rotation(only(which == 3, draws.uniform(self.rotation), 0), aspect(clips)),
            geometric.resize(only(which == 4, draws.uniform(self.resize), 1)),
            geometric.rescale(only(which == 5, draws.uniform(self.rescale), 1)),
        ]
        return geometric.warp(changed, geometric.combine(maps))


@dataclass(frozen=True)
class Mild:
    """What sharing a video does to it: a little cropped, a little recoloured, compressed again."""

    crop_side: Range = (0.85, 1.0)
    brightness: Range = (0.85, 1.15)
    contrast: Range = (0.85, 1.15)
    saturation: Range = (0.8, 1.2)
    hue: Range = (-8.0, 8.0)
    lower: float = 0.3
    resolution: Range = (0.5, 0.9)
    recompress: float = 0.7
    quality: Range = (30.0, 90.0)

    @full_precision
    def __call__(self, clips: Tensor, seeds: Sequence[int]) -> Tensor:
        """Same shape out."""
        check(clips, seeds)
        draws = Draws(seeds)
        width, height = draws.uniform(self.crop_side), draws.uniform(self.crop_side)
        left, top = draws.block(2).unbind(1)
        clips = geometric.warp(clips, geometric.crop(left * (1 - width), top * (1 - height), width, height))
        clips = colour.adjust(
            clips,
            brightness=draws.uniform(self.brightness),
            contrast=draws.uniform(self.contrast),
            saturation=draws.uniform(self.saturation),
            hue=draws.uniform(self.hue),
        )
        shares = draws.uniform(self.resolution)
        clips = on_chosen(clips, draws.chance(self.lower), degrade.lower_resolution, shares)
        quality = draws.uniform(self.quality)
        return on_chosen(clips, draws.chance(self.recompress), degrade.recompress, quality, halve_chroma=True)


@dataclass(frozen=True)
class Composite:
    """Two clips in one picture: a small one over a large one, or parts side by side."""

    split: float = 0.4
    """Probability of a split screen."""
    thirds: float = 0.2
    """Probability that a split screen has three parts."""
    inner: float = 0.5
    """Probability that the clip is the small picture."""
    scale: Range = (0.3, 0.7)

    @full_precision
    def __call__(self, clips: Tensor, other: Tensor, seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The pictures, and the share [B] of each that still shows the clip."""
        check(clips, seeds)
        draws = Draws(seeds)
        scale = draws.uniform(self.scale)
        left, top = (draws.block(2) * (1 - scale)[:, None]).unbind(1)
        inner = draws.chance(self.inner)
        split, thirds = draws.chance(self.split), draws.chance(self.thirds)
        slots, stacked, squeezed = draws.block(1)[:, 0], draws.chance(0.5), draws.chance(0.3)
        result, own = compose.picture_in_picture(clips, other, scale, left, top, inner)
        for parts, chosen in ((2, split & ~thirds), (3, split & thirds)):
            rows = chosen.nonzero()[:, 0]
            if not len(rows):
                continue
            index = rows.to(clips.device)
            place = ((slots * parts).long()[rows], stacked[rows], squeezed[rows])
            pictures, shares = compose.split_screen(clips[index], other[index], *place, parts=parts)
            result, own = result.index_copy(0, index, pictures), own.index_copy(0, index, shares)
        return result, own
