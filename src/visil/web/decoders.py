"""Several decoding processes for the videos of one ``add``: each goes on with the next file."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from visil.errors import IndexFolderError, VideoError
from visil.video import Sampling
from visil.web.sandbox import DecodedStream, Decoder
from visil.web.settings import Limits


class Decoders:
    """As many as are used at once; threads may share them."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._all: list[Decoder] = []
        self._killed = False
        self._idle: queue.SimpleQueue[Decoder] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for decoder in self._all:
            decoder.close()

    def kill(self) -> None:
        """End the whole run at once: no video is to blame for what becomes of it."""
        self._killed = True
        for decoder in list(self._all):
            decoder.kill()

    @contextmanager
    def stream(self, path: Path, sampling: Sampling) -> Iterator[DecodedStream]:
        """A video that is added, decoded in one of them."""
        try:
            decoder = self._idle.get_nowait()
        except queue.Empty:
            decoder = Decoder(self.limits)
            self._all.append(decoder)
        try:
            with decoder.stream(path, sampling, self.limits.decode_add_s) as stream:
                yield stream
        except VideoError:
            if self._killed:
                raise IndexFolderError(path.parent, "adding it was stopped") from None
            raise
        finally:
            self._idle.put(decoder)
