"""Where a report's pictures and matrices come from: the files of a collection, or two files that were compared."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from visil.collection.identity import content_id, stamp_of
from visil.errors import VisilError
from visil.video import Image, frames_at

if TYPE_CHECKING:
    from visil.collection.catalogue import Video
    from visil.collection.index import Index
    from visil.collection.parts import AnyCatalogue
    from visil.compare.visil import ViSiL
    from visil.model.features import VideoFeatures

FramesAt = Callable[[str, list[float], int], list[Image]]
"""Path, times, height: :func:`visil.video.frames_at`, or one that decodes in a process of its own."""


class Footage(Protocol):
    """Where a report gets its pictures and matrices: a collection, or two files."""

    @property
    def model(self) -> ViSiL:
        """The model that made the features."""

    def features(self, video: str) -> VideoFeatures:
        """Of a video, by id; a VisilError where they cannot be read."""

    def pictures(self, video: Video, times: list[float], largest: tuple[int, int]) -> list[str] | str:
        """Data URIs of the frames at ``times``; why there are none, where there are none."""


class CollectionFootage:
    """The videos of a collection, from files that still hold them."""

    def __init__(self, index: Index, frames_at: FramesAt = frames_at) -> None:
        self.index = index
        self._frames_at = frames_at

    @property
    def model(self) -> ViSiL:
        """See :attr:`Footage.model`."""
        return self.index.model

    def features(self, video: str) -> VideoFeatures:
        """See :meth:`Footage.features`."""
        return self.index.store.read(video)

    def pictures(self, video: Video, times: list[float], largest: tuple[int, int]) -> list[str] | str:
        """See :meth:`Footage.pictures`."""
        return _pictures(self.index.catalogue, video, times, largest, self._frames_at)


class FileFootage:
    """Two files, with the features that were made of them, by the videos' ids."""

    def __init__(
        self, model: ViSiL, features: dict[str, VideoFeatures], frames_at: FramesAt = frames_at
    ) -> None:
        self.model = model
        self._features = features
        self._frames_at = frames_at

    def features(self, video: str) -> VideoFeatures:
        """See :meth:`Footage.features`."""
        return self._features[video]

    def pictures(self, video: Video, times: list[float], largest: tuple[int, int]) -> list[str] | str:
        """See :meth:`Footage.pictures`."""
        path = self._features[video.id].path or video.path
        try:
            return [jpeg(frame, largest) for frame in self._frames_at(path, times, largest[1])]
        except VisilError as error:
            return str(getattr(error, "reason", "cannot be read"))


def _pictures(
    catalogue: AnyCatalogue,
    video: Video,
    times: list[float],
    largest: tuple[int, int],
    frames_at: FramesAt,
) -> list[str] | str:
    """Data URIs of the frames at ``times``; why there are none, where no file holds the video any more."""
    reason = "no file holds it any more"
    for path in catalogue.paths(video.id) or [video.path]:
        try:
            known = catalogue.file(path)
            if known is not None and known != (video.id, stamp_of(Path(path))) and not _holds(path, video):
                reason = "the file has changed since it was added"
                continue
            return [jpeg(frame, largest) for frame in frames_at(path, times, largest[1])]
        except VisilError as error:
            reason = getattr(error, "reason", "cannot be read")
        except (OSError, ValueError, MemoryError):
            reason = "cannot be read"
    return reason


def _holds(path: str, video: Video) -> bool:
    """Whether a file with another time stamp has the same bytes: it was copied, or touched."""
    return stamp_of(Path(path)).size == video.bytes and content_id(Path(path)) == video.id


def jpeg(frame: Image, largest: tuple[int, int]) -> str:
    """A frame as a data URI, whole and no larger than that."""
    from PIL import Image as pillow

    picture = pillow.fromarray(frame)
    picture.thumbnail(largest, pillow.Resampling.BILINEAR)
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=72, optimize=True)
    return data_uri("jpeg", file.getvalue())


def data_uri(kind: str, data: bytes) -> str:
    """A picture as an address that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
