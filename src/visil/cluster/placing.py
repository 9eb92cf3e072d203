"""Which shard a video belongs to: by its content, and evenly (rendezvous hashing).

Each shard draws a number for each video from their two names; the highest has it. A shard that is added wins what it
draws highest for, one part in n from each of the others, and nothing else moves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def home(key: str | bytes, shards: Sequence[str]) -> int:
    """The place of the shard that a video (its id) belongs to; ``shards`` are their names, which never change."""
    data = key if isinstance(key, bytes) else key.encode()
    draws = [hashlib.blake2b(data, digest_size=8, key=name.encode()).digest() for name in shards]
    return max(range(len(shards)), key=draws.__getitem__)
