"""A process that decodes videos which nobody vouches for: ``python -m visil.web.decoder MEMORY``.

It may take so much address space and time, may write no file, and speaks through one pipe; Windows has no such
bounds. Whatever a file does to it, the processes that asked live on (:mod:`visil.web.sandbox`). Requests are lines of
JSON; answers are a length, a JSON header, and as many raw bytes as the header says; the last one to a request says that
it is.
"""

from __future__ import annotations

import io
import json
import os
import signal
import struct
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, BinaryIO

import numpy as np

from visil.errors import VisilError
from visil.video import Image, Sampling, frames_at, probe, samples_at, stream_frames
from visil.video.sound import read_sound

Answer = tuple[dict[str, Any], bytes]

BATCH = 8
"""Frames of an answer: few, so that a decoder that stands still is told from one that is slow."""
JPEG_QUALITY = 78


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer every request, one after another."""
    for line in requests:
        request = json.loads(line)
        allow_processor(float(request["seconds"]))
        patience = max(1, round(float(request["idle"])))
        try:
            set_alarm(patience)
            for header, data in DOES[request["do"]](request):
                set_alarm(0)  # who asked may take its time to read
                send(answers, header, data)
                set_alarm(patience)
            last: dict[str, Any] = {"end": True}
        except VisilError as error:
            last = {"error": getattr(error, "reason", str(error))}
        except MemoryError:
            last = {"error": "decoding it needs more memory than it may have"}
        except BrokenPipeError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            last = {"error": f"could not be decoded ({type(error).__name__})"}
        set_alarm(0)
        send(answers, last)


def send(answers: BinaryIO, header: dict[str, Any], data: bytes = b"") -> None:
    """One answer."""
    text = json.dumps({**header, "bytes": len(data)}).encode()
    answers.write(struct.pack("!I", len(text)) + text + data)
    answers.flush()


def _probe(request: dict[str, Any]) -> Iterator[Answer]:
    yield {"info": asdict(probe(request["path"]))}, b""


def _picture(request: dict[str, Any]) -> Iterator[Answer]:
    """Frames at some times side by side, each ``width`` pixels wide, as one JPEG."""
    from PIL import Image as pillow

    width, height = int(request["width"]), int(request["height"])
    shots = frames_at(request["path"], request["times"], height)
    strip = pillow.new("RGB", (width * len(shots), height))
    for place, shot in enumerate(shots):
        strip.paste(_fitted(shot, width, height), (place * width, 0))
    file = io.BytesIO()
    strip.save(file, "JPEG", quality=JPEG_QUALITY)
    yield {"frames": len(shots)}, file.getvalue()


def _fitted(shot: Image, width: int, height: int) -> Any:
    """A frame in its proportions, in the middle of a black tile."""
    from PIL import Image as pillow
    from PIL import ImageOps

    return ImageOps.pad(pillow.fromarray(shot), (width, height), pillow.Resampling.BILINEAR)


def _shots(request: dict[str, Any]) -> Iterator[Answer]:
    """The frames at some times as they are, RGB."""
    for shot in frames_at(request["path"], request["times"], int(request["height"])):
        yield {"shape": list(shot.shape)}, np.ascontiguousarray(shot).tobytes()


def _samples(request: dict[str, Any]) -> Iterator[Answer]:
    """The frames at some times as a network takes them."""
    for sample in samples_at(request["path"], request["times"], Sampling(**request["sampling"])):
        yield {}, sample.tobytes()


def _sound(request: dict[str, Any]) -> Iterator[Answer]:
    """Every sound track, as :func:`visil.video.sound.read_sound` measures it."""
    for track in read_sound(request["path"]):
        told = {"codec": track.codec, "bits": track.bits, "channels": track.channels}
        yield {"shape": list(track.bands.shape), **told}, track.bands.tobytes()


def _frames(request: dict[str, Any]) -> Iterator[Answer]:
    """The file's facts about itself, then all sampled frames in batches, each with how far the video was read."""
    sampling = Sampling(**request["sampling"])
    with stream_frames(request["path"], sampling, batch_size=BATCH) as stream:
        yield {"info": asdict(stream.info)}, b""
        for batch in stream:
            so_far = {"duration": stream.duration, "damaged": stream.damaged}
            yield {"times": batch.timestamps.tolist(), **so_far}, batch.images.tobytes()
    yield {"times": [], "duration": stream.duration, "damaged": stream.damaged}, b""


DOES = {
    "probe": _probe,
    "picture": _picture,
    "shots": _shots,
    "samples": _samples,
    "sound": _sound,
    "frames": _frames,
}


def set_alarm(seconds: int) -> None:
    """Be ended by the system after so many seconds on the clock; 0 takes that back."""
    if sys.platform != "win32":
        signal.alarm(seconds)


def allow_processor(seconds: float) -> None:
    """Let this process run so long from now, and be ended by the system after that."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 1
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def confine(memory: int) -> None:
    """No more address space than that, no file, no core dump."""
    if sys.platform == "win32":
        return
    import resource

    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        _, hard = resource.getrlimit(kind)
        wanted = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(kind, (wanted, wanted))
        except (ValueError, OSError):
            if kind != resource.RLIMIT_AS or sys.platform != "darwin":  # macOS has no bound on address space
                raise


def own_output() -> BinaryIO:
    """Standard output for answers alone: whatever libraries print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def main() -> None:
    """Until standard input ends."""
    import av  # noqa: F401  before memory is bounded: an import that fails halfway is no answer
    import PIL.ImageOps
    import PIL.JpegImagePlugin  # noqa: F401

    answers = own_output()
    confine(int(sys.argv[1]))
    try:
        send(answers, {"ready": True})
        serve(sys.stdin.buffer, answers)
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(1)


if __name__ == "__main__":
    main()
