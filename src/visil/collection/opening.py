"""One door to every kind of collection: a folder here, whole or in shards, or a place on a store by its URL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

from visil.collection.collection import Index
from visil.model.codes import Codes

if TYPE_CHECKING:
    from visil.compare.visil import ViSiL


def opened(
    location: str | os.PathLike[str],
    *,
    model: ViSiL | str | None = None,
    codes: Codes | None = None,
    create: bool = True,
) -> Index:
    """The collection at ``location``, opened or made: a folder, or ``s3://bucket/name`` and other fsspec URLs."""
    from visil.collection.remote_objects import is_url

    if is_url(location):
        if not str(location).lower().startswith("file://"):
            from visil.collection.remote import RemoteIndex

            return RemoteIndex(str(location), model=model, codes=codes, create=create)
        location = url2pathname(urlsplit(str(location)).path)
    from visil.cluster.manifest import is_sharded

    if is_sharded(location):
        from visil.cluster.sharded import ShardedIndex

        return ShardedIndex(location, model=model, codes=codes)
    return Index(location, model=model, codes=codes, create=create)
