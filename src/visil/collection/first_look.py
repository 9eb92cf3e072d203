"""A first look at every video of a collection by the signs of its vectors; the best are then compared exactly.

The signs are a sixteenth of the features' bytes and stand in one file, ``first-look.signs``, made from the features
when first needed and extended when videos have come. Deleting it loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from visil.collection.lock import exclusive
from visil.collection.sign_file import Record, SignFile, Signs, clear_leftovers
from visil.collection.store import CHUNK, PartFeatures
from visil.errors import IndexFolderError, ModelError, UsageError

if TYPE_CHECKING:
    from visil.collection.catalogue import Catalogue, Video
    from visil.compare.pair_reading import Common
    from visil.compare.visil import ViSiL
    from visil.model.features import VideoFeatures
    from visil.progress import OnCount

FILE = "first-look.signs"
LOCK = "first-look.lock"

STALE_SHARE = 0.2
"""Share of removed videos in the file from which it is written anew."""


Ranked = tuple[float, str, int]
"""Of a video: its negated score, its id, its number. So the best come first when sorted, and which of two that tie does
not depend on the order in which they came."""


class FirstLook:
    """The signs of a collection in ``folder``, kept in step with its catalogue."""

    def __init__(self, folder: Path, model: ViSiL, catalogue: Catalogue, store: PartFeatures) -> None:
        if model.whitening is None:
            raise ModelError(
                f"a first look goes by signs, which need a model that whitens, and {model.config.name} does not: "
                "search without it"
            )
        self.folder = folder
        self.model = model
        self.catalogue = catalogue
        self.store = store
        self._file = SignFile(folder / FILE, model.fingerprint(), model.dim)
        self._unsaved: dict[int, Record] = {}
        """Of videos whose signs could not be written."""
        self._present: dict[int, str] = {}
        """Ids of the collection's videos by number."""
        self._version: object = None
        """Of the catalogue when the signs were last seen to fit it, with nothing left out."""

    # ------------------------------------------------------------------ keeping in step

    def refresh(self, *, save: bool, progress: OnCount | None = None) -> None:
        """Signs of all readable videos; new ones are only kept on disk if told to, and where that works."""
        version = self.catalogue.version()
        if version == self._version:
            return
        self._present = {video.number: video.id for video in self.catalogue.videos()}
        self._file.load()
        if not save:
            self._extend(self._keep_here, progress)
        elif self._missing() or not self._file.sound or self._worn():
            with exclusive(self.folder / LOCK):
                self._write(progress)
        self._version = None if self._missing() else version

    def _write(self, progress: OnCount | None) -> None:
        self._file.load()  # somebody else may have written since
        try:
            if not self._file.sound or self._worn():
                self._file.write_anew(self._present)
            if self._missing():
                with self._file.appending() as append:
                    self._extend(append, progress)
        except (OSError, UsageError):  # a full disk, say: no reason not to answer
            self._extend(self._keep_here, progress)

    def _extend(self, keep: Callable[[Record], object], progress: OnCount | None) -> None:
        from visil.compare.matches import check

        missing = self._missing()
        for done, (video, features) in enumerate(self.store.readable(self._videos(missing)), 1):
            try:
                check(self.model, features, "video")
            except UsageError as error:
                self.store.warn(video, IndexFolderError(self.store.path(video.id), str(error)))
                continue
            keep(Record(video.number, video.id, signs_of(features)))
            if progress is not None:
                progress(done, len(missing))

    def _keep_here(self, record: Record) -> None:
        self._unsaved[record.number] = record

    def _videos(self, numbers: list[int]) -> Iterator[Video]:
        for start in range(0, len(numbers), 500):
            yield from self.catalogue.numbered(numbers[start : start + 500]).values()

    def _missing(self) -> list[int]:
        return [number for number in self._present if self._record(number) is None]

    def _record(self, number: int) -> Record | None:
        """The signs of a video of the collection; a number may have been another's in a catalogue put back since."""
        for records in (self._file.records, self._unsaved):
            record = records.get(number)
            if record is not None and record.id == self._present[number]:
                return record
        return None

    def _worn(self) -> bool:
        known = self._file.records
        return sum(n not in self._present for n in known) > STALE_SHARE * len(known)

    # ------------------------------------------------------------------ looking

    def nearest(self, query: VideoFeatures, common: Common | None, count: int) -> list[Ranked]:
        """The ``count`` videos that look most like a query, best first; as of the last :meth:`refresh`."""
        numbers, scores = self.scores(query, common)
        likely = np.argsort(-scores, kind="stable")
        last = scores[likely[min(count, len(likely)) - 1]] if len(likely) else 0.0
        tied = np.flatnonzero(scores >= last)
        looks = [(-float(scores[i]), self._present[int(numbers[i])], int(numbers[i])) for i in tied]
        return sorted(looks)[:count]

    def scores(
        self, query: VideoFeatures, common: Common | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Numbers of all videos, and how much each looks like a query: see :mod:`visil.collection.sign_scores`."""
        import torch

        from visil.collection.sign_scores import sign_scores
        from visil.compare.matches import check

        check(self.model, query, "query")
        if common is not None and query.blank is not None:
            common = common[~query.blank.cpu().numpy()]
        records = [record for number in self._present if (record := self._record(number)) is not None]
        signs = torch.from_numpy(signs_of(query)).transpose(0, 1).contiguous()
        scores = sign_scores(signs, (record.signs for record in records), self.model.dim, common)
        return np.array([record.number for record in records], np.int64), scores


def signs_of(video: VideoFeatures) -> Signs:
    """Of the frames that are not blank; some frames at a time, so that a long video need not be in memory."""
    import torch

    from visil.model.codes import encode

    parts = []
    for start in range(0, len(video), CHUNK):
        part = slice(start, start + CHUNK)
        vectors = video.vectors[part] if video.blank is None else video.vectors[part][~video.blank[part]]
        parts.append(encode(vectors.cpu(), "binary").values)
    return torch.cat(parts).transpose(0, 1).contiguous().numpy()


def check_first_look(count: int | None) -> None:
    """Refuse a number of videos that is none."""
    if count is not None and count < 1:
        raise UsageError(f"first_look must be at least 1, not {count}")


def clear_first_look(folder: Path) -> None:
    """Delete what killed processes left of the signs, unless one is writing them now."""
    if (folder / LOCK).exists():
        with suppress(BlockingIOError), exclusive(folder / LOCK, wait=False):
            clear_leftovers(folder / FILE)
