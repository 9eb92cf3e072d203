"""Features of a video: region vectors and when they were on screen. A video is decoded only once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from visil.errors import UsageError


@dataclass(frozen=True, eq=False)
class VideoFeatures:
    """A video as the model sees it: ``vectors`` [T, R, C] and ``timestamps`` [T] in seconds."""

    vectors: Tensor
    timestamps: Tensor
    duration: float | None = None
    """Seconds from the first frame to the end of the last, where known."""
    path: str | None = None
    """The file they came from, where known: for plots and messages."""
    blank: Tensor | None = None
    """Which frames are nearly one colour, bool [T]: they make no matches. None: not known, taken as none."""

    def __post_init__(self) -> None:
        if self.vectors.ndim != 3 or 0 in self.vectors.shape:
            raise UsageError(f"features must be [frames, regions, channels], got {list(self.vectors.shape)}")
        if not self.vectors.is_floating_point():
            raise UsageError(f"features must be floating point, got {self.vectors.dtype}")
        if self.timestamps.shape != self.vectors.shape[:1]:
            raise UsageError(
                f"{len(self.vectors)} frames need as many timestamps, got {list(self.timestamps.shape)}"
            )
        if self.blank is not None and (
            self.blank.shape != self.timestamps.shape or self.blank.dtype != torch.bool
        ):
            raise UsageError(
                f"blank must be bool [{len(self.vectors)}], got {self.blank.dtype} {list(self.blank.shape)}"
            )
        if not torch.isfinite(self.timestamps).all() or (self.timestamps.diff() <= 0).any():
            raise UsageError("timestamps must be finite and rise from frame to frame")

    @classmethod
    def joined(
        cls, parts: Sequence[VideoFeatures], duration: float | None = None, path: str | None = None
    ) -> VideoFeatures:
        """Parts of one video, in order, as one."""
        blank = [part.blank for part in parts if part.blank is not None]
        return cls(
            torch.cat([part.vectors for part in parts]),
            torch.cat([part.timestamps for part in parts]),
            duration,
            path,
            torch.cat(blank) if len(blank) == len(parts) else None,
        )

    def __len__(self) -> int:
        return self.vectors.shape[0]

    @property
    def ends(self) -> Tensor:
        """When each frame gives way to the next, in seconds [T]: a frame stands for the time until then."""
        times = self.timestamps.double()
        steps = times.diff()
        step = float(steps.median()) if len(steps) else 1.0
        last = float(times[-1]) + step
        if self.duration is not None and self.duration > float(times[-1]):
            last = min(last, self.duration)
        return torch.cat([times[1:], times.new_tensor([last])])


def shown_frames(video: VideoFeatures) -> Tensor:
    """Which frames are not blank, bool [T]."""
    return torch.ones(len(video), dtype=torch.bool) if video.blank is None else ~video.blank


def shown_vectors(video: VideoFeatures) -> Tensor:
    """The vectors of frames that are not blank, [t, R, C]."""
    if video.blank is None or not bool(video.blank.any()):
        return video.vectors
    return video.vectors[shown_frames(video).nonzero()[:, 0].to(video.vectors.device)]
