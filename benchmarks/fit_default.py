"""Make the default model's first form, ViSiL_f+W on EfficientNet-Lite0: fit its whitening on a folder of videos.

    python benchmarks/fit_default.py VIDEOS FOLDER

Writes config.json and model.safetensors (without the backbone, which has its own package) into FOLDER.
Why these stages and this width: docs/default-model.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from visil.config import ViSiLConfig
from visil.errors import VideoError
from visil.model import ViSiL
from visil.video import is_video_path, stream_frames
from visil.whitening import PCA

CONFIG = ViSiLConfig(
    name="visil-lite0-f+w",
    backbone="efficientnet-lite0",
    stages=(1, 2, 3),
    levels=(3,),
    dim=384,
)


def main() -> None:
    """Stream all frames through the backbone into a PCA."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("videos", type=Path)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    model = ViSiL(CONFIG, with_backbone=False).load_backbone()
    pca = PCA()
    videos = sorted(p for p in args.videos.rglob("*") if is_video_path(p))
    for i, video in enumerate(videos):
        try:
            with stream_frames(video, CONFIG.sampling) as stream, torch.inference_mode():
                for batch in stream:
                    pca.partial_fit(model.region_vectors(batch.images))
        except VideoError as error:
            print(f"left out: {error}")
        if i % 100 == 0:
            print(f"{i} of {len(videos)} videos, {pca.count_} vectors", flush=True)
    model.whitening = pca.whitening(CONFIG.dim)
    model.save_pretrained(args.folder, include_backbone=False)
    print(f"{pca.count_} vectors of {len(videos)} videos → {args.folder}")


if __name__ == "__main__":
    main()
