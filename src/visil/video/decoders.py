"""Who decodes a video: the CPU, or NVDEC on the GPU where it can and is asked for."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Literal, get_args

import torch

from visil.errors import UsageError
from visil.video.container import AnyPath
from visil.video.frames import Frames, FrameStream
from visil.video.nvdec import GpuFrames, NvdecStream, tell, why_not
from visil.video.nvdec_plan import Unfit
from visil.video.sampling import DEFAULT_SAMPLING, Sampling

logger = logging.getLogger("visil")

DecoderName = Literal["cpu", "nvdec", "auto"]
"""Who decodes; "auto": NVDEC where there is one."""

VARIABLE = "VISIL_DECODER"
"""The environment variable by which a user chooses for a whole process."""


def chosen(decoder: str | None) -> DecoderName:
    """``decoder``, if there is such a one; None: as :data:`VARIABLE` says, else the CPU."""
    asked = decoder or os.environ.get(VARIABLE) or "cpu"
    for known in get_args(DecoderName):
        if asked == known:
            return known
    origin = "decoder" if decoder else VARIABLE
    raise UsageError(f"{origin} must be one of {', '.join(get_args(DecoderName))}, not {asked!r}")


def decoded_frames(
    path: AnyPath,
    sampling: Sampling = DEFAULT_SAMPLING,
    batch_size: int = 32,
    *,
    decoder: str | None = None,
    device: torch.device | None = None,
    fast: bool = False,
) -> FrameStream | NvdecStream:
    """:func:`visil.video.stream_frames` by the decoder asked for; ``device`` is where the network is.

    A :class:`UsageError` where "nvdec" is asked for and there is none; "auto" then takes the CPU. A file that NVDEC
    cannot take goes to the CPU in any case (:func:`visil.video.nvdec.why_not_file`).
    """
    choice = chosen(decoder)
    if fast and choice == "nvdec":
        raise UsageError("fast decoding is the CPU's: leave it out, or decoder 'nvdec'")
    if choice == "cpu" or fast:
        return FrameStream(path, sampling, batch_size, fast=fast)
    on = _gpu(device)
    missing = why_not(on)
    if missing is not None:
        _cannot(choice, missing)
        return FrameStream(path, sampling, batch_size)
    try:
        return NvdecStream(path, sampling, batch_size, device=on)
    except Unfit as reason:
        tell(path, reason)
        return FrameStream(path, sampling, batch_size)


def decode_with(
    decoder: DecoderName,
) -> Callable[[AnyPath, Sampling], FrameStream | NvdecStream] | None:
    """For ``Index.add(…, decode=decode_with("nvdec"))``; None, which is its own way, for the CPU.

    A :class:`UsageError` where "nvdec" is asked for and there is none.
    """
    missing = why_not(_gpu(None)) if decoder != "cpu" else None
    if missing is not None:
        _cannot(decoder, missing)
    return None if decoder == "cpu" or missing else partial(decoded_frames, decoder=decoder)


def on_device(stream: FrameStream | NvdecStream) -> Iterator[Frames | GpuFrames]:
    """The batches of either stream, where they were made."""
    return stream.on_gpu() if isinstance(stream, NvdecStream) else stream


def _gpu(device: torch.device | None) -> torch.device:
    """Where to decode: beside the network, or on the first GPU where that is on the CPU."""
    return device if device is not None and device.type == "cuda" else torch.device("cuda")


def _cannot(decoder: DecoderName, missing: str) -> None:
    if decoder == "nvdec":
        raise UsageError(f"decoding on the GPU is not possible: {missing}")
    _say_once(f"decoding on the CPU: {missing}")


@lru_cache(maxsize=8)
def _say_once(line: str) -> None:
    logger.warning(line)
