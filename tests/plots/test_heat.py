"""Matrices as pictures."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from visil.plots.heat import heat_png


def test_a_matrix_as_a_picture_runs_from_dark_to_light() -> None:
    png = heat_png(np.array([[-1.0, 0.0, 1.0], [np.nan, 2.0, -5.0]], np.float32), -1.0)
    drawn = np.asarray(Image.open(BytesIO(png)).convert("L")).astype(int)
    assert drawn[0, 0] < drawn[0, 1] < drawn[0, 2]
    assert drawn[1].tolist() == [drawn[0, 1], drawn[0, 2], drawn[0, 0]]
