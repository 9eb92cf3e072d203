"""An experiment small enough for a test: made clips of 64 pixels in two folders, a few seconds each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from synthetic import moving_scene, write_video
from visil.compare.visil import ViSiL
from visil.model.config import ViSiLConfig
from visil.paper.experiment import Changes, Experiment
from visil.paper.feature_bank import Networks
from visil.paper.videos import BuiltInVideos
from visil.video import Sampling

SIDE = 64
SMALL = Sampling(resize=SIDE, crop=SIDE)
QUICK = Changes(
    quick=True, settings={"optim": {"epochs": 1}, "data": {"triplets": 3, "window": 8, "words": 8}}
)


def write_clips(root: Path, count: int = 10) -> Path:
    """Clips of 5 s, the first half in the folder a, the rest in b."""
    for number in range(count):
        place = root / ("a" if number < count // 2 else "b")
        place.mkdir(parents=True, exist_ok=True)
        write_video(place / f"{number}.mp4", moving_scene(number, 5, fps=4, size=(SIDE, SIDE), shot=5), fps=4)
    return root


def small_model(sampling: Sampling = SMALL) -> ViSiL:
    """An untrained model of one stage, whose frames are small."""
    config = ViSiLConfig(
        name="small", backbone="efficientnet-lite0", stages=(1,), levels=(2,), sampling=sampling
    )
    return ViSiL(config, with_backbone=False).load_backbone()


def small_experiment(clips: Path, out: Path, model: ViSiL | None = None, **options: Any) -> Experiment:
    """On the built-in benchmark of these clips."""
    videos = BuiltInVideos(clips, out / "cache", SMALL)
    return Experiment(videos, Networks(model=model), out, SMALL, changes=QUICK, **options)
