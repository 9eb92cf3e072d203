"""The paper's configurations (Tables 3 and 5 to 8) by name, as data."""

from __future__ import annotations

from visil.errors import ModelError
from visil.model.config import ViSiLConfig

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
