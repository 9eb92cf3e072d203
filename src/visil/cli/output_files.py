"""Files that the user names to be written: what can be said of them before the work."""

from __future__ import annotations

from pathlib import Path

from visil.errors import UsageError, printable


def check_folder(file: Path | None) -> None:
    """Find out before the work, not after it, that a file cannot be written because its folder is not there."""
    if file is not None:
        check_name(file)
        if not file.parent.is_dir():
            raise UsageError(f"{printable(str(file))}: cannot be written: its folder does not exist")


def check_name(file: Path) -> None:
    """Write over nothing that is named like a video."""
    from visil.video.container import is_video_path

    if is_video_path(file):
        raise UsageError(f"{printable(str(file))}: is named like a video; name another file to write to")
