"""Which of the files that are found are taken: by name, size, length, and where links lead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from visil.errors import UsageError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


@dataclass(frozen=True)
class Selection:
    """Which of the files that it finds :meth:`visil.Index.add` takes.

    Patterns are those of a ``.gitignore`` file (``*.tmp.mp4``, ``previews/``, ``/top.mp4``, ``!this one.mp4``), and
    speak of a file's place below the folder that was named. ``exclude`` comes before ``include``.
    """

    include: Sequence[str] = ()
    """Where there are some, only files that one of them names."""
    exclude: Sequence[str] = ()
    """No files that one of them names, and nothing below such a folder."""
    min_size: int = 0
    """Bytes of a file, at the least."""
    min_duration: float = 0.0
    max_duration: float = math.inf
    """Seconds of a video, at the least and at the most."""
    follow_links: bool = False
    """Whether links below a folder are followed that lead out of it."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_duration <= self.max_duration:
            raise UsageError(
                f"a video cannot last at least {self.min_duration:g} s and at most {self.max_duration:g} s"
            )
        _ = self._included, self._excluded  # a pattern that makes no sense is an error now

    @cached_property
    def _included(self) -> GitIgnoreSpec | None:
        return _patterns(self.include)

    @cached_property
    def _excluded(self) -> GitIgnoreSpec | None:
        return _patterns(self.exclude)

    def refuses_folder(self, place: str) -> str | None:
        """Why a folder is not entered; ``place`` is below the folder that was named, with slashes between."""
        return self._excludes(f"{place}/")

    def refuses_file(self, place: str, size: int) -> str | None:
        """Why a file is passed over."""
        reason = self._excludes(place)
        if reason is not None:
            return reason
        if self._included is not None and not self._included.match_file(place):
            return "not included"
        return f"smaller than {self.min_size:,} bytes" if size < self.min_size else None

    @property
    def asks_for_duration(self) -> bool:
        """Whether it matters how long a video is."""
        return self.min_duration > 0 or self.max_duration < math.inf

    def refuses_duration(self, seconds: float) -> str | None:
        """Why a video of this length is passed over."""
        from visil.plots.times import clock

        if seconds < self.min_duration:
            return f"shorter than {clock(self.min_duration)}"
        return f"longer than {clock(self.max_duration)}" if seconds > self.max_duration else None

    def _excludes(self, place: str) -> str | None:
        if self._excluded is None:
            return None
        found = self._excluded.check_file(place)
        return (
            f"excluded by {self.exclude[found.index]}" if found.include and found.index is not None else None
        )


def _patterns(lines: Sequence[str]) -> GitIgnoreSpec | None:
    if not lines:
        return None
    from pathspec import GitIgnoreSpec

    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            raise UsageError(f"{line!r} is no pattern: see those of .gitignore files") from None
    return GitIgnoreSpec.from_lines(lines)


EVERYTHING = Selection(follow_links=True)
"""Whatever is there, wherever links lead."""
