"""Score two videos by an exported model that sees whole frames, as the default does; neither torch nor visil is needed.

python onnx_without_torch.py FOLDER QUERY TARGET
"""

import json
import sys
from pathlib import Path

import av
import numpy as np
import onnxruntime as ort

folder, query, target = sys.argv[1:]
fps, side = (json.loads(Path(folder, "visil.json").read_text())["sampling"][name] for name in ("fps", "crop"))
extractor, similarity = (
    ort.InferenceSession(f"{folder}/{name}.onnx") for name in ("extractor", "similarity")
)


def features(path: str) -> np.ndarray:
    """Region vectors [T, R, C] of the frame on display every 1 / fps seconds."""
    vectors: list[np.ndarray] = []
    start = None
    for frame in av.open(path).decode(video=0):
        start = frame.time if start is None else start
        if frame.time - start + 1e-3 >= len(vectors) / fps:
            pixels = frame.to_ndarray(format="rgb24", width=side, height=side, interpolation="BICUBIC")
            vectors.append(extractor.run(["vectors"], {"frames": pixels[None]})[0])
    return np.concatenate(vectors)


(score,) = similarity.run(["score"], {"query": features(query), "target": features(target)})
print(f"{score:.4f}")
