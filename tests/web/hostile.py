"""Files that make their decoder misbehave: a marker at the end of a good MP4 says how, a start-up file acts on it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

KINDS = {"hangs": b"\0\0\0HANGS", "eats": b"\0\0\0\0EATS", "crashes": b"\0CRASHES"}
WELL = b"\0\0\0\0WELL"

# Python imports a module of this name when it starts: here, in processes that decode and no others.
CUSTOM = """
import sys
if "visil.web.decoder" in sys.orig_argv:
    import visil.video as video
    def misbehaving(real):
        def read(path, *arguments, **options):
            with open(path, "rb") as file:
                file.seek(-8, 2)
                marker = file.read()
            if marker.endswith(b"HANGS"):
                __import__("time").sleep(60)
            if marker.endswith(b"EATS"):
                bytearray(1 << 34)
            if marker.endswith(b"CRASHES"):
                __import__("ctypes").string_at(0)
            return real(path, *arguments, **options)
        return read
    for name in ("stream_frames", "frames_at", "samples_at"):
        setattr(video, name, misbehaving(getattr(video, name)))
"""


def install(folder: Path) -> Path:
    """The start-up file; its folder belongs into PYTHONPATH."""
    (folder / "sitecustomize.py").write_text(CUSTOM)
    return folder


def marked(source: Path, file: Path, marker: bytes) -> Path:
    """A copy of an MP4 with a box at its end that players skip."""
    file.write_bytes(source.read_bytes() + struct.pack(">I4s", 16, b"free") + marker)
    return file


def turn(file: Path, marker: bytes) -> None:
    """Let a file that was well turn hostile, without its size or time telling."""
    status = file.stat()
    file.write_bytes(file.read_bytes()[: -len(marker)] + marker)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
