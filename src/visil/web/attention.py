"""What attention looks at in one frame, as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visil.compare.visil import ViSiL
from visil.files import replacing
from visil.video.pictures import centre_crop, scaled_to_shorter


def attention_picture(model: ViSiL, shot: NDArray[np.uint8], path: Path) -> None:
    """A frame in grey under the weights of its regions; its scale is the frame's own, blue least and red most."""
    from matplotlib.colors import Normalize
    from PIL import Image as pillow

    from visil.plots.attention_figure import under_weights, weight_maps

    seen = _as_sampled(model, shot)
    weights = model.attention_weights(seen[None]).double().numpy()
    (cells,) = weight_maps(weights, None)
    low, high = float(cells.min()), float(cells.max())
    mixed = under_weights(seen, cells, Normalize(low, max(high, low + 1e-9)))
    height, width = shot.shape[:2] if model.config.sampling.fit == "whole" else seen.shape[:2]
    picture = pillow.fromarray((mixed * 255).round().astype(np.uint8)).resize((width, height))
    with replacing(path) as fresh:
        picture.save(fresh, "PNG")


def _as_sampled(model: ViSiL, shot: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The square of a frame that the model sees."""
    from PIL import Image as pillow

    sampling = model.config.sampling
    picture = pillow.fromarray(shot)
    if sampling.fit == "whole":
        return np.asarray(picture.resize((sampling.crop, sampling.crop), pillow.Resampling.BICUBIC))
    size = scaled_to_shorter(picture.width, picture.height, sampling.resize)
    return np.ascontiguousarray(
        centre_crop(np.asarray(picture.resize(size, pillow.Resampling.BICUBIC)), sampling.crop)
    )
