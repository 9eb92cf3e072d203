"""Which versions a machine has of what features depend on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version


@dataclass(frozen=True)
class NodeFacts:
    """Versions by package, as installed."""

    visil: str
    torch: str
    av: str
    cuda: bool | None
    """Whether torch sees a GPU; None where nobody asked."""


def facts(look_for_gpu: bool) -> NodeFacts:
    """Of this machine. Looking for a GPU imports torch, which takes seconds."""
    cuda = None
    if look_for_gpu:
        import torch

        cuda = torch.cuda.is_available()
    return NodeFacts(_version("visil"), _version("torch"), _version("av"), cuda)


def mismatch(here: NodeFacts, there: NodeFacts) -> tuple[str | None, str | None]:
    """Why a node cannot be used, and what may make its features differ; None where nothing does."""
    if there.visil != here.visil:
        return f"has visil {there.visil}, and this machine {here.visil}: install the same", None
    if there.cuda is False:
        return "has a GPU that its torch cannot use: install torch for CUDA there", None
    ours, theirs = asdict(here), asdict(there)
    other = [name for name in ("torch", "av") if ours[name] != theirs[name]]
    if not other:
        return None, None
    named = ", ".join(f"{name} {theirs[name]} (here {ours[name]})" for name in other)
    return None, f"has other versions: {named}; its features may differ in their last bits"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
