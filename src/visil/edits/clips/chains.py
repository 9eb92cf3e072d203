"""Which edits a clip meets, how often, how strongly: the paper's (Sec. 4.5), a light set, a heavy one, two in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

import torch
from torch import Tensor

from visil.edits.clips import colour, geometry, overlay, quality, stamps
from visil.edits.clips.parameters import Draws, Range, aspect, check, full_precision, on_chosen, only

REFERENCE_WIDTH = 224
"""Picture width for which sizes in pixels are meant; they grow and shrink with the picture."""


@dataclass(frozen=True)
class PaperPositive:
    """One colour and one geometric transform for each clip (Sec. 4.5); the temporal one is a list of positions.

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
            geometry.flip_horizontal(which == 0),
            geometry.flip_vertical(which == 1),
            geometry.crop(left * (1 - width), top * (1 - height), width, height),
            geometry.rotation(only(which == 3, draws.uniform(self.rotation), 0), aspect(clips)),
            geometry.resize(only(which == 4, draws.uniform(self.resize), 1)),
            geometry.rescale(only(which == 5, draws.uniform(self.rescale), 1)),
        ]
        return geometry.warp(changed, geometry.combine(maps))


@dataclass(frozen=True)
class Mild:
    """The marks that sharing leaves on a video: a little cropped, a little recoloured, compressed again."""

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
        clips = geometry.warp(clips, geometry.crop(left * (1 - width), top * (1 - height), width, height))
        clips = colour.adjust(
            clips,
            brightness=draws.uniform(self.brightness),
            contrast=draws.uniform(self.contrast),
            saturation=draws.uniform(self.saturation),
            hue=draws.uniform(self.hue),
        )
        shares = draws.uniform(self.resolution)
        clips = on_chosen(clips, draws.chance(self.lower), quality.lower_resolution, shares)
        percent = draws.uniform(self.quality)
        return on_chosen(clips, draws.chance(self.recompress), quality.recompress, percent, halve_chroma=True)


@dataclass(frozen=True)
class Heavy:
    """A chain of crop, turn, tilt, flip, colour, things laid over and loss of quality, each with its probability.

    Among them what people really do: a wide clip on a phone with blurred sides, a phone that films a screen, subtitles.

    ``strength`` scales every probability and how far crops, turns and colours go: 0 changes nothing.
    """

    strength: float = 1.0
    crop_area: Range = (0.25, 1.0)
    crop_aspect: Range = (0.7, 1.4)
    flip_horizontal: float = 0.5
    flip_vertical: float = 0.1
    rotate: float = 0.4
    rotation: float = 30.0
    """Greatest turn either way, degrees."""
    quarter_turn: float = 0.1
    """Turned by 90, 180 or 270 degrees."""
    tilt: float = 0.3
    perspective: float = 0.25
    """How far a corner may move, as a share of half the side."""
    shrink: float = 0.15
    shrunk: Range = (0.5, 0.9)
    jitter: float = 0.8
    brightness: float = 0.5
    contrast: float = 0.5
    saturation: float = 0.7
    """Greatest change either way of a factor of 1."""
    hue: float = 60.0
    mix: float = 0.15
    mixing: float = 0.5
    """How much of the channels' own colour another mixture may replace."""
    tint: float = 0.2
    gain: float = 0.4
    grayscale: float = 0.1
    strong: float = 0.15
    """Probability of colours that are far from the original's: any hue, twice or a third of light and contrast."""
    strongly: Range = (0.35, 2.2)
    gamma: float = 0.15
    exponent: Range = (0.4, 2.5)
    dark: float = 0.05
    darkness: Range = (0.08, 0.35)
    """The remaining part of the light."""
    negative: float = 0.04
    sides: float = 0.08
    """Probability of a band across the middle with blurred sides."""
    band: Range = (0.3, 0.65)
    filmed: float = 0.08
    """Probability of a screen's stripes and of uneven light."""
    waves: float = 60.0
    stripes: Range = (0.05, 0.35)
    falloff: float = 0.35
    subtitle: float = 0.12
    bars: float = 0.1
    bar_width: Range = (0.03, 0.2)
    boxes: float = 0.15
    """Probability of each of two boxes."""
    box_side: Range = (0.1, 0.4)
    text: float = 0.25
    """Probability of each of two lines of text."""
    text_width: Range = (0.3, 0.9)
    sign: float = 0.2
    """Probability of each of two signs."""
    sign_width: Range = (0.1, 0.4)
    logo: float = 0.1
    """Probability of a small sign in a corner."""
    pixelate: float = 0.1
    block: Range = (4.0, 14.0)
    """Side of a mosaic's blocks, pixels of a picture 224 wide."""
    blur: float = 0.2
    blur_sigma: Range = (0.6, 3.0)
    lower: float = 0.25
    resolution: Range = (0.12, 0.6)
    noise: float = 0.15
    noise_sigma: Range = (0.02, 0.15)
    recompress: float = 0.4
    quality: Range = (8.0, 70.0)

    @full_precision
    def __call__(self, clips: Tensor, seeds: Sequence[int]) -> Tensor:
        """Same shape out."""
        check(clips, seeds)
        draws = Draws(seeds)
        clips = self._moved(clips, draws)
        clips = self._coloured(clips, draws)
        clips = self._framed(clips, draws)
        clips = self._covered(clips, draws)
        return self._degraded(clips, draws)

    def _moved(self, clips: Tensor, draws: Draws) -> Tensor:
        ratio = aspect(clips)
        shrunk = self._drawn(draws, self.shrink, self.shrunk, 1)
        place = (2 * draws.block(2) - 1) * (1 - shrunk)[:, None]
        corners = (2 * draws.block(8) - 1).reshape(-1, 4, 2) * self.perspective * min(self.strength, 1)
        tilted = self._chance(draws, self.tilt)
        quarters = only(self._chance(draws, self.quarter_turn), 1 + draws.choice(3), 0)
        maps = [
            geometry.flip_horizontal(self._chance(draws, self.flip_horizontal)),
            geometry.flip_vertical(self._chance(draws, self.flip_vertical)),
            geometry.rotation(90.0 * quarters, ratio),
            self._crop(draws),
            geometry.perspective(only(tilted[:, None, None], corners, 0)),
            geometry.rotation(self._drawn(draws, self.rotate, self._either_way(self.rotation), 0), ratio),
            geometry.rescale(shrunk, *place.unbind(1)),
        ]
        ground = draws.choice(3)  # black, a colour, or the edge carried on
        fill = only((ground == 1)[:, None], draws.block(3), 0)
        return geometry.warp(clips, geometry.combine(maps), fill, ground == 2)

    def _crop(self, draws: Draws) -> Tensor:
        least, most = (1 - (1 - share) * self.strength for share in self.crop_area)
        area = draws.uniform((max(least, 0.05), most))
        low, high = (log(bound) * min(self.strength, 1) for bound in self.crop_aspect)
        stretch = draws.uniform((low, high)).exp().sqrt()
        width = (area.sqrt() * stretch).clamp(max=1)
        height = (area / width).clamp(max=1)
        left, top = draws.block(2).unbind(1)
        return geometry.crop(left * (1 - width), top * (1 - height), width, height)

    def _coloured(self, clips: Tensor, draws: Draws) -> Tensor:
        jitter = self._chance(draws, self.jitter)
        factors = [
            only(jitter, 1 + draws.uniform(self._either_way(reach)), 1).clamp(min=0.05)
            for reach in (self.brightness, self.contrast, self.saturation)
        ]
        hue = only(jitter, draws.uniform(self._either_way(self.hue)), 0)
        strong = self._chance(draws, self.strong)
        low, high = (log(bound) * min(self.strength, 1) for bound in self.strongly)
        factors = [torch.where(strong, draws.uniform((low, high)).exp(), factor) for factor in factors]
        hue = torch.where(strong, draws.uniform((-180.0, 180.0)), hue)
        mixture = draws.block(9).reshape(-1, 3, 3)
        share = self._drawn(draws, self.mix, (0.0, min(self.mixing * self.strength, 1)), 0)[:, None, None]
        mixing = (1 - share) * torch.eye(3).double() + share * mixture / mixture.sum(dim=2, keepdim=True)
        tinted = self._chance(draws, self.tint)[:, None]
        gains = only(tinted, 1 + (2 * draws.block(3) - 1) * min(self.gain * self.strength, 0.9), 1)
        dark = self._drawn(draws, self.dark, self.darkness, 1)
        clips = colour.adjust(
            clips,
            mixing=dark[:, None, None] * gains[:, :, None] * mixing,
            brightness=factors[0],
            contrast=factors[1],
            saturation=factors[2],
            hue=hue,
            grayscale=self._chance(draws, self.grayscale).double(),
        )
        exponents = draws.uniform((log(self.exponent[0]), log(self.exponent[1]))).exp()
        clips = on_chosen(clips, self._chance(draws, self.gamma), colour.gamma, exponents)
        return on_chosen(clips, self._chance(draws, self.negative), colour.negative)

    def _framed(self, clips: Tensor, draws: Draws) -> Tensor:
        """A band with blurred sides; a screen as a camera sees it."""
        pixels = clips.shape[-1] / REFERENCE_WIDTH
        band = (draws.uniform(self.band), draws.chance(0.5), draws.chance(0.3))
        sigmas, light = draws.uniform((4.0, 12.0)) * pixels, draws.uniform((0.5, 1.0))
        chosen = self._chance(draws, self.sides)
        clips = on_chosen(clips, chosen, overlay.blurred_sides, *band, sigmas, light)
        filmed = self._chance(draws, self.filmed)
        waves, phases = (2 * draws.block(2) - 1) * self.waves, draws.block(3)
        clips = on_chosen(clips, filmed, overlay.moire, waves, phases, draws.uniform(self.stripes))
        slope = (2 * draws.block(2) - 1) * self.falloff
        return on_chosen(clips, filmed, overlay.uneven_light, slope)

    def _covered(self, clips: Tensor, draws: Draws) -> Tensor:
        for _ in range(2):
            width, height = draws.uniform(self.box_side), draws.uniform(self.box_side)
            left, top = draws.block(2).unbind(1)
            place = (left - width / 2, top - height / 2, width, height, draws.block(3))
            clips = on_chosen(clips, self._chance(draws, self.boxes), overlay.box, *place)
        for _ in range(2):
            clips = self._pasted(
                clips, draws, self.text, stamps.texts(clips.device), self.text_width, tint=True
            )
        for _ in range(2):
            clips = self._pasted(clips, draws, self.sign, stamps.signs(clips.device), self.sign_width)
        clips = self._pasted(clips, draws, self.logo, stamps.signs(clips.device), (0.1, 0.2), "corner")
        lines = stamps.texts(clips.device)
        clips = self._pasted(clips, draws, self.subtitle, lines, (0.5, 0.95), "below", tint=True)
        both, first = draws.chance(0.7), draws.chance(0.5)
        across, widths = (
            draws.choice(3),
            draws.uniform(self.bar_width),
        )  # left and right, above and below, all
        at = [
            widths * ((across != other) & (both | (first == is_first)))
            for other, is_first in ((1, True), (0, True), (1, False), (0, False))
        ]
        ground = only(draws.chance(0.5)[:, None], draws.block(3), 0)
        return on_chosen(clips, self._chance(draws, self.bars), overlay.bars, *at, ground)

    def _pasted(
        self,
        clips: Tensor,
        draws: Draws,
        probability: float,
        bank: Tensor,
        widths: Range,
        where: Literal["anywhere", "corner", "below"] = "anywhere",
        tint: bool = False,
    ) -> Tensor:
        chosen = self._chance(draws, probability)
        which = draws.choice(len(bank))
        size = draws.uniform(widths)
        place = draws.block(2)
        if where == "below":
            place = torch.stack([0.5 + 0 * size, 0.8 + 0.15 * place[:, 1]], dim=1)
        elif where == "corner":
            place = torch.where(place < 0.5, 0.03 + size[:, None] / 2, 0.97 - size[:, None] / 2)
        degrees = only(draws.chance(0.4 if where == "anywhere" else 0.0), draws.uniform((-45.0, 45.0)), 0)
        opacity = only(draws.chance(0.4), draws.uniform((0.4, 1.0)), 1)
        colours = only((draws.chance(0.5) & torch.tensor(tint))[:, None], draws.block(3), 1)

        def change(part: Tensor, number: Tensor, *rest: Tensor) -> Tensor:
            return overlay.paste(part, bank[number.to(bank.device)], *rest)

        return on_chosen(clips, chosen, change, which, *place.unbind(1), size, degrees, opacity, colours)

    def _degraded(self, clips: Tensor, draws: Draws) -> Tensor:
        pixels = clips.shape[-1] / REFERENCE_WIDTH
        sides = (draws.uniform(self.block) * pixels).round().clamp(min=2)
        clips = on_chosen(clips, self._chance(draws, self.pixelate), quality.pixelate, sides)
        sigmas = draws.uniform(self.blur_sigma) * pixels
        clips = on_chosen(clips, self._chance(draws, self.blur), quality.blur, sigmas)
        shares = draws.uniform(self.resolution)
        clips = on_chosen(clips, self._chance(draws, self.lower), quality.lower_resolution, shares)
        sigmas, keys = draws.uniform(self.noise_sigma), draws.choice(1 << 31)
        clips = on_chosen(clips, self._chance(draws, self.noise), quality.noise, sigmas, keys)
        percent = draws.uniform(self.quality)
        again = self._chance(draws, self.recompress)
        return on_chosen(clips, again, quality.recompress, percent, halve_chroma=True)

    def _chance(self, draws: Draws, probability: float) -> Tensor:
        return draws.chance(probability * self.strength)

    def _drawn(self, draws: Draws, probability: float, bounds: Range, neutral: float) -> Tensor:
        return only(self._chance(draws, probability), draws.uniform(bounds), neutral)

    def _either_way(self, reach: float) -> Range:
        return -reach * self.strength, reach * self.strength


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
        result, own = overlay.picture_in_picture(clips, other, scale, left, top, inner)
        for parts, chosen in ((2, split & ~thirds), (3, split & thirds)):
            rows = chosen.nonzero()[:, 0]
            if not len(rows):
                continue
            index = rows.to(clips.device)
            place = ((slots * parts).long()[rows], stacked[rows], squeezed[rows])
            pictures, shares = overlay.split_screen(clips[index], other[index], *place, parts=parts)
            result, own = result.index_copy(0, index, pictures), own.index_copy(0, index, shares)
        return result, own
