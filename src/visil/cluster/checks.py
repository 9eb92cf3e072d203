"""Shards that belong together: of one model, with one kind of codes, all of them there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from visil.cluster.manifest import Manifest
from visil.errors import IndexFolderError

if TYPE_CHECKING:
    from visil.cluster.shard import ShardFacts


def check(folder: Path, manifest: Manifest, facts: Sequence[ShardFacts]) -> None:
    """Refuse shards that another model made, or whose features are kept another way, than the collection's."""
    wanted = manifest.facts
    for shard in facts:
        if shard.fingerprint is not None and shard.fingerprint != wanted.get("fingerprint"):
            raise IndexFolderError(
                shard.location,
                f"was made with the model {shard.model}, and the collection {folder} with "
                f"{wanted.get('model', 'none yet')}: features of two models cannot be compared",
            )
        if shard.codes is not None and shard.codes != wanted.get("codes"):
            raise IndexFolderError(
                shard.location,
                f"keeps its features as {shard.codes}, and the collection {folder} as "
                f"{wanted.get('codes', 'nothing yet')}: shards must be of one kind",
            )
