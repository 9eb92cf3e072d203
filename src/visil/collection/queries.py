"""What a search is asked about: a file, an id or features; and whether the collection holds those very bytes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from visil.collection.identity import content_id, stamp_of
from visil.errors import VideoError

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.parts import AnyCatalogue, Parts
    from visil.model.features import VideoFeatures


def held(catalogue: AnyCatalogue, query: str | os.PathLike[str] | VideoFeatures) -> Video | None:
    """The video of a collection that a query is: by id, or by the bytes of its file, whatever that is called."""
    from visil.model.features import VideoFeatures

    path = query.path if isinstance(query, VideoFeatures) else os.fspath(query)
    if path is None or not os.path.exists(path):
        return None if path is None or isinstance(query, VideoFeatures) else catalogue.video(path)
    whole = Path(os.path.abspath(path))
    known = catalogue.file(os.fspath(whole))
    try:
        unchanged = known is not None and known[1] == stamp_of(whole)
        return catalogue.video(known[0] if known is not None and unchanged else content_id(whole))
    except VideoError:
        return None  # whoever reads it says it better


def features_of(
    parts: Parts, query: str | os.PathLike[str] | VideoFeatures, known: Video | None
) -> VideoFeatures:
    """Features of a query that is ``known`` in the collection, or not; those it has are not made again."""
    from visil.model.features import VideoFeatures

    if isinstance(query, VideoFeatures):
        return query
    name = os.fspath(query)
    if known is not None and not os.path.exists(name):
        return parts.store.read(known.id, path=known.path)
    features = None if known is None else parts.store.try_read(known)
    return parts.model.embed(query) if features is None else replace(features, path=name)
