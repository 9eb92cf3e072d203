"""What a model is made of, as data, and in ``config.json`` beside the weights; the paper's configurations by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from visil.errors import ModelError
from visil.matching.calibration import Calibration
from visil.matching.localize import LocalizeConfig
from visil.model.comparator import Padding
from visil.model.reader import ReaderConfig
from visil.model.similarity import Reduction
from visil.video import Sampling

Pooling = Literal["imac", "mac", "spoc", "rmac", "gem"]
Attention = Literal["context", "hidden", "binary"]

FORMAT = 1
"""Version of ``config.json``; raised when an older reader could misread it."""

YOUNGER = ("background", "reader")
"""Settings that came after the format, written only where they are set."""


@dataclass(frozen=True)
class ViSiLConfig:
    """Every choice that tells one model of the family from another."""

    name: str = "visil"
    backbone: str = "resnet50"
    stages: tuple[int, ...] = (0, 1, 2, 3)
    """Which of the backbone's stages are pooled, shallow to deep."""
    pooling: Pooling = "imac"
    levels: tuple[int, ...] = (3,)
    """Granularities N of L_N-iMAC; several stack their regions."""
    dim: int | None = None
    """Channels kept by whitening; None: no whitening, the backbone's own width."""
    whiten: bool = True
    """False: PCA reduces but does not whiten (the reduced rows of Table 2)."""
    attention: Attention | None = None
    """How regions are weighted; ``binary``: they are not, but coded by signs (DnS's binary student)."""
    comparator: Padding | None = None
    """Padding of the comparator; None: no comparator, the score is read off S_f (ViSiL_f)."""
    symmetric: bool = False
    """SCS in place of CS, between frames and between videos (ViSiL_sym)."""
    frame_pool: tuple[Reduction, Reduction] = ("max", "mean")
    video_pool: tuple[Reduction, Reduction] = ("max", "mean")
    sampling: Sampling = field(default_factory=Sampling)
    localize: LocalizeConfig = field(default_factory=LocalizeConfig)
    calibration: Calibration | None = None
    background: int = 0
    """Region vectors of the fixed background; 0: the model has none."""
    reader: ReaderConfig | None = None
    """The network that reads S_f cell by cell; None: stretches are looked for in S_f itself."""

    def __post_init__(self) -> None:
        _require(isinstance(self.backbone, str), "backbone must be a name")
        for name, values in (("stages", self.stages), ("levels", self.levels)):
            _require(all(type(v) is int for v in values), f"{name} must be whole numbers")
        _require(self.dim is None or type(self.dim) is int, "dim must be a whole number")
        _require(self.pooling in get_args(Pooling), f"unknown pooling {self.pooling!r}")
        _require(bool(self.stages) and list(self.stages) == sorted(set(self.stages)), "stages must rise")
        _require(min(self.stages) >= 0, "stages count from 0")
        _require(bool(self.levels) and all(level >= 1 for level in self.levels), "levels must be 1 or more")
        _require(self.dim is None or self.dim >= 1, "dim must be 1 or more")
        _require(self.attention in (None, *get_args(Attention)), f"unknown attention {self.attention!r}")
        _require(
            self.comparator in (None, *get_args(Padding)), f"unknown comparator padding {self.comparator!r}"
        )
        _require(type(self.background) is int and self.background >= 0, "background must be 0 or more")
        _require(self.reader is None or self.background > 0, "a reader needs a background")
        for pool in (self.frame_pool, self.video_pool):
            _require(len(pool) == 2 and set(pool) <= set(get_args(Reduction)), f"unknown pooling {pool!r}")

    def replaced(self, **changes: Any) -> ViSiLConfig:
        """A copy with some fields changed."""
        unknown = changes.keys() - {f.name for f in fields(self)}
        if unknown:
            raise ModelError(f"unknown setting {sorted(unknown)[0]!r} of a model")
        return replace(self, **changes)

    def to_json(self) -> str:
        """As ``config.json`` holds it."""
        values = asdict(self)
        for name in YOUNGER:
            if not values[name]:  # a visil that does not know it yet can go on reading models without it
                del values[name]
        return json.dumps({"model_type": "visil", "format": FORMAT, **values}, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, origin: str) -> ViSiLConfig:
        """Read what :meth:`to_json` wrote; ``origin`` names the file in errors."""
        try:
            values = json.loads(text)
            if not isinstance(values, dict) or values.pop("model_type", None) != "visil":
                raise ModelError(f"{origin}: is not the configuration of a visil model")
            if values.pop("format", FORMAT) > FORMAT:
                raise ModelError(f"{origin}: was written by a newer visil; upgrade to read it")
            return cls._from_mapping(values)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ModelError(f"{origin}: {error}") from error
        except ModelError as error:
            raise ModelError(str(error) if origin in str(error) else f"{origin}: {error}") from None

    @classmethod
    def _from_mapping(cls, values: Mapping[str, Any]) -> ViSiLConfig:
        parsed = dict(values)
        for name in ("stages", "levels", "frame_pool", "video_pool"):
            if name in parsed:
                parsed[name] = tuple(parsed[name])
        if "sampling" in parsed:
            parsed["sampling"] = Sampling(**parsed["sampling"])
        if "localize" in parsed:
            parsed["localize"] = LocalizeConfig(**parsed["localize"])
        if parsed.get("reader") is not None:
            shape = dict(parsed["reader"])
            for name in ("channels", "dilations"):
                if name in shape:
                    shape[name] = tuple(shape[name])
            parsed["reader"] = ReaderConfig(**shape)
        if parsed.get("calibration") is not None:
            values = dict(parsed["calibration"])
            for name in ("curve", "likeness"):
                values[name] = tuple(tuple(point) for point in values.get(name, ()))
            parsed["calibration"] = Calibration(**values)
        return cls(**parsed)


def read_config(folder: Path) -> ViSiLConfig:
    """The configuration of the model saved in ``folder``."""
    path = folder / "config.json"
    try:
        return ViSiLConfig.from_json(path.read_text("utf-8"), str(path))
    except FileNotFoundError:
        raise ModelError(f"{folder}: holds no model (no config.json)") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path}: could not be read ({error})") from error


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ModelError(message)


VISIL_F = ViSiLConfig(name="visil-f")
"""ViSiL_f: L3-iMAC of ResNet-50, Eq. 5 and Chamfer, nothing learned."""

VISIL_F_W = VISIL_F.replaced(name="visil-f+w", dim=3840)
"""+W: whitened."""

VISIL_F_W_A = VISIL_F_W.replaced(name="visil-f+w+a", attention="context")
"""+W+A: and weighted by attention."""

VISIL_V = VISIL_F_W_A.replaced(name="visil-v", comparator="replicate")
"""ViSiL_v: and read by the network of Table 1."""

VISIL_SYM = VISIL_V.replaced(name="visil-sym", dim=512, symmetric=True)
"""ViSiL_sym: SCS on both levels; 512 dimensions, as the authors' released symmetric model has."""

PRESETS: dict[str, ViSiLConfig] = {
    preset.name: preset for preset in (VISIL_F, VISIL_F_W, VISIL_F_W_A, VISIL_SYM, VISIL_V)
}


def preset(name: str) -> ViSiLConfig:
    """A preset by name; ``_`` and upper case are forgiven."""
    key = name.lower().replace("_", "-")
    try:
        return PRESETS[key]
    except KeyError:
        raise ModelError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}") from None
