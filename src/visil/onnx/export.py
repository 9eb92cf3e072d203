"""Writing a model as ONNX, checked against torch before it is put in place."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from visil.compare.visil import ViSiL
from visil.errors import ModelError, os_reason, printable, require_extra
from visil.files import replacing_together
from visil.onnx.graphs import Extractor, Similarity

FORMAT = 1
"""Of ``visil.json``."""

OPSET = 17
"""Version of the ONNX operators: of 2022, so that older runtimes read it."""

TOLERANCE = 1e-4
"""The most that an answer may differ from torch's."""

FRAMES_CHECKED = (1, 2, 5)
LENGTHS_CHECKED = ((1, 1), (1, 6), (7, 2), (3, 3), (4, 5), (13, 9), (30, 22))
"""Lengths that the graphs are tried on; none is the one that they were traced with."""

EXTRACTOR, SIMILARITY, ABOUT = "extractor.onnx", "similarity.onnx", "visil.json"


@dataclass(frozen=True)
class Exported:
    """The files that were written, and how near they are to torch."""

    folder: str
    extractor_difference: float
    similarity_difference: float


def export_onnx(model: ViSiL, folder: str | os.PathLike[str]) -> Exported:
    """Write ``extractor.onnx``, ``similarity.onnx`` and ``visil.json``, checked against torch in ONNX Runtime.

    Where they differ by more than 1e-4, or cannot be written, ModelError, and no file is left.
    """
    require_extra("ONNX export", "onnx", "onnx", "onnxruntime")
    target = Path(folder)
    plain = deepcopy(model).to("cpu", torch.float32).eval()
    try:
        # The description last: it names the others' checksums.
        with replacing_together(target, (EXTRACTOR, SIMILARITY, ABOUT)) as fresh:
            return _write(plain, fresh, target)
    except OSError as error:
        reason = os_reason(error)
        raise ModelError(f"{printable(str(target))}: the model could not be written ({reason})") from error


@torch.inference_mode()
def _write(model: ViSiL, fresh: Path, target: Path) -> Exported:
    side = model.config.sampling.crop
    generator = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (3, side, side, 3), dtype=torch.uint8, generator=generator)
    regions = model.embed_frames(frames).vectors.shape[1]
    similarity = Similarity(model.formula)
    _trace(Extractor(model), (frames,), fresh / EXTRACTOR, {"frames": "T"}, {"vectors": ("T",)})
    shapes = {"frame_matrix": ("X", "Y"), "output_matrix": ("X_out", "Y_out"), "score": ()}
    _trace(
        similarity,
        (_vectors(8, regions, model.dim, generator), _vectors(11, regions, model.dim, generator)),
        fresh / SIMILARITY,
        {"query": "X", "target": "Y"},
        {name: shapes[name] for name in similarity.outputs},
    )
    differences = (
        _extractor_difference(model, fresh / EXTRACTOR, generator),
        _similarity_difference(model, similarity, fresh / SIMILARITY, regions, generator),
    )
    for part, difference in zip(("extractor", "similarity"), differences, strict=True):
        if not difference <= TOLERANCE:  # NaN is no agreement either
            raise ModelError(
                f"{printable(str(target))}: nothing was written: in ONNX Runtime the {part} of {model.config.name} "
                f"differs from torch by {difference:.1g}, more than {TOLERANCE:.0e}"
            )
    about = _about(model, regions, similarity.outputs, fresh, max(differences))
    (fresh / ABOUT).write_text(json.dumps(about, indent=2) + "\n", "utf-8")
    return Exported(os.fspath(target), *differences)


def _trace(
    module: nn.Module,
    example: tuple[Tensor, ...],
    file: Path,
    lengths: dict[str, str],
    outputs: dict[str, tuple[str, ...]],
) -> None:
    """By the tracing exporter: it keeps lengths variable down to one frame, and needs no package but onnx.

    ``lengths`` names the first axis of each input, ``outputs`` the variable axes of each output.
    """
    axes = {name: {0: axis} for name, axis in lengths.items()}
    axes |= {name: dict(enumerate(variable)) for name, variable in outputs.items() if variable}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constants that are meant to be constant; a newer exporter exists
        torch.onnx.export(
            module.eval(),
            example,
            os.fspath(file),
            input_names=list(lengths),
            output_names=list(outputs),
            dynamic_axes=axes,
            opset_version=OPSET,
            dynamo=False,
        )


def _extractor_difference(model: ViSiL, file: Path, generator: torch.Generator) -> float:
    session, side = _session(file), model.config.sampling.crop
    worst = 0.0
    for count in FRAMES_CHECKED:
        noise = torch.randint(0, 256, (count, 12, 12, 3), dtype=torch.uint8, generator=generator)
        # Large patches as well as grain: something for every stage of a backbone.
        patches = F.interpolate(noise.permute(0, 3, 1, 2).float(), size=(side, side), mode="bilinear")
        frames = patches.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
        (got,) = session.run(None, {"frames": frames.numpy()})
        worst = _worse(worst, got, model.embed_frames(frames).vectors.numpy())
    return worst


def _similarity_difference(
    model: ViSiL, similarity: Similarity, file: Path, regions: int, generator: torch.Generator
) -> float:
    """Against the matrices and scores that ``compare`` and ``scores`` give, which come another way."""
    session = _session(file)
    worst = 0.0
    for x, y in LENGTHS_CHECKED:
        query, target = _vectors(x, regions, model.dim, generator), _vectors(y, regions, model.dim, generator)
        shared = min(x, y) // 2
        target[:shared] = query[:shared]
        got = dict(
            zip(
                similarity.outputs,
                session.run(None, {"query": query.numpy(), "target": target.numpy()}),
                strict=True,
            )
        )
        scorer = model.scorer()
        frame_matrix, output_matrix = scorer.matrices(query, target)
        worst = _worse(worst, got["frame_matrix"], frame_matrix)
        if "output_matrix" in got:
            worst = _worse(worst, got["output_matrix"], output_matrix)
        worst = _worse(worst, got["score"], np.float32(scorer.pair(query, target)))
    return worst


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = torch.get_num_threads()
    return onnxruntime.InferenceSession(os.fspath(file), options, providers=["CPUExecutionProvider"])


def _vectors(frames: int, regions: int, channels: int, generator: torch.Generator) -> Tensor:
    """Unit vectors that lean one way, as those of real frames do."""
    noise = torch.randn(frames, regions, channels, generator=generator)
    lean = torch.randn(channels, generator=generator)
    return F.normalize(noise + lean, dim=-1)


def _worse(worst: float, got: NDArray[Any], expected: NDArray[Any] | np.float32) -> float:
    if got.shape != np.shape(expected):
        return float("nan")
    return float(np.maximum(worst, np.abs(got - expected).max()))  # NaN stays NaN


def _about(
    model: ViSiL, regions: int, outputs: list[str], fresh: Path, difference: float
) -> dict[str, object]:
    """The facts that somebody without torch needs."""
    import onnxruntime

    config = model.config
    side = config.sampling.crop
    return {
        "model_type": "visil-onnx",
        "format": FORMAT,
        "name": config.name,
        "sampling": asdict(config.sampling),
        "extractor": {
            "file": EXTRACTOR,
            "sha256": _checksum(fresh / EXTRACTOR),
            "inputs": {"frames": {"type": "uint8", "shape": ["T", side, side, 3], "channels": "RGB"}},
            "outputs": {"vectors": {"type": "float32", "shape": ["T", regions, model.dim]}},
        },
        "similarity": {
            "file": SIMILARITY,
            "sha256": _checksum(fresh / SIMILARITY),
            "inputs": {
                name: {"type": "float32", "shape": [length, regions, model.dim]}
                for name, length in (("query", "X"), ("target", "Y"))
            },
            "outputs": outputs,
            "symmetric": config.symmetric,
        },
        "localize": asdict(config.localize),
        "calibration": None if config.calibration is None else asdict(config.calibration),
        "checked": {
            "onnxruntime": onnxruntime.__version__,
            "torch": torch.__version__,
            "largest_difference": difference,
            "tolerance": TOLERANCE,
        },
    }


def _checksum(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
