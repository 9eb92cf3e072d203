"""Decoding on an NVIDIA GPU (NVDEC, through PyNvVideoCodec): the samples of the CPU path, left on the GPU.

The file is opened and taken apart by PyAV, with all of its checks; NVDEC sees single packets and never a path. A first
look at the packets' time stamps tells which frames are samples. A file that does not fit, and the
rest of one from which NVDEC leaves out a frame, is decoded on the CPU: the samples are the same, and there is no error.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from visil.errors import UsageError, VideoError, printable
from visil.video.container import AnyPath, open_video, plain_errors
from visil.video.frames import Frames, FrameStream
from visil.video.nv12 import Pictures, turned
from visil.video.nvdec_plan import Plan, Unfit, chosen_packets, planned
from visil.video.pictures import Size
from visil.video.sampling import DEFAULT_SAMPLING, Sampling

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream

logger = logging.getLogger("visil")

INSTALL = "pip install 'visil[nvdec]'"


def why_not(device: torch.device) -> str | None:
    """The reason why NVDEC cannot be used at all, for people; None: it can."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return "no CUDA GPU that torch can use"
    library, reason = _loaded()
    return reason if library is None else _refusal(library, _number(device))


def why_not_file(path: AnyPath, sampling: Sampling = DEFAULT_SAMPLING) -> str | None:
    """The reason why NVDEC cannot decode a video, so that the CPU does; None: it can."""
    try:
        planned(path, sampling)
    except Unfit as reason:
        return str(reason)
    return None


@dataclass(frozen=True)
class GpuFrames:
    """:class:`Frames` whose pictures are on the GPU."""

    images: Tensor
    """uint8 [T, H, W, 3], RGB."""
    timestamps: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.timestamps)


class NvdecStream:
    """As :class:`FrameStream`, but :meth:`on_gpu` leaves frames there; :class:`Unfit` where NVDEC cannot decode it."""

    def __init__(
        self,
        path: AnyPath,
        sampling: Sampling = DEFAULT_SAMPLING,
        batch_size: int = 32,
        *,
        device: torch.device,
    ) -> None:
        if batch_size < 1:
            raise UsageError(f"batch_size must be at least 1, not {batch_size}")
        self.path, self.sampling, self.batch_size = path, sampling, batch_size
        self.plan = planned(path, sampling)
        self.info = self.plan.info
        self.duration = self.plan.duration
        self.damaged = 0
        self.why_cpu: str | None = None
        """Why the rest was decoded on the CPU; None: it was not."""
        self._engine = _Engine(self.plan, sampling, device)
        self._batches = self._all_batches()

    def on_gpu(self) -> Iterator[GpuFrames]:
        """The batches, where they were made."""
        return self._batches

    def __iter__(self) -> Iterator[Frames]:
        for batch in self._batches:
            yield Frames(batch.images.cpu().numpy(), batch.timestamps)

    def close(self) -> None:
        """Close the file and give NVDEC back; iteration ends here."""
        self._batches.close()
        self._engine.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _all_batches(self) -> Generator[GpuFrames, None, None]:
        given = 0
        try:
            for batch in self._decoded():
                given += len(batch)
                yield batch
        except Unfit as reason:
            self.why_cpu = str(reason)
            tell(self.path, reason)
            yield from self._rest(given)

    def _decoded(self) -> Iterator[GpuFrames]:
        pictures: list[Tensor] = []
        times: list[float] = []
        for indices, picture in self._pictures():
            for index in indices:
                pictures.append(picture)
                times.append(index / self.sampling.fps)
                if len(times) == self.batch_size:
                    yield GpuFrames(self._engine.stacked(pictures), np.array(times))
                    pictures, times = [], []
        if times:
            yield GpuFrames(self._engine.stacked(pictures), np.array(times))

    def _pictures(self) -> Iterator[tuple[range, Tensor]]:
        """Each frame that is a sample, once, with its places on the grid."""
        waiting = deque(sorted(self.plan.wanted))
        try:
            with open_video(self.path) as (container, stream), plain_errors(self.path):
                for packet in chosen_packets(container, stream, self.plan):
                    for stamp, picture in self._engine.decode(packet):
                        if stamp != waiting.popleft():
                            raise Unfit("NVDEC left out a frame")
                        yield self.plan.wanted[stamp], picture
                    if not waiting:
                        return
        except VideoError as error:
            raise Unfit(error.reason) from error
        raise Unfit("NVDEC left out the last frames")

    def _rest(self, given: int) -> Iterator[GpuFrames]:
        """The samples after the first ``given``, from the CPU."""
        with FrameStream(self.path, self.sampling, self.batch_size) as stream:
            for batch in stream:
                new = slice(given, None)
                given = max(0, given - len(batch))
                if len(batch.timestamps[new]):
                    yield GpuFrames(self._engine.moved(batch.images[new]), batch.timestamps[new])
        self.duration, self.damaged = stream.duration, stream.damaged


class _Engine:
    """NVDEC for one video, and what follows on the same CUDA stream: resizing, colour, turning, cropping."""

    def __init__(self, plan: Plan, sampling: Sampling, device: torch.device) -> None:
        self.plan, self.sampling, self.device = plan, sampling, device
        self._nvc = _loaded()[0]
        cuda = device.type == "cuda"  # the tests' stand-in for NVDEC decodes on the CPU
        self._stream = torch.cuda.Stream(device) if cuda else None
        place = _number(device) if cuda else 0
        codec = getattr(self._nvc.cudaVideoCodec, plan.codec)
        try:
            limits = self._nvc.GetDecoderCaps(gpuid=place, codec=codec)
            self._check(limits)
            self._decoder = self._nvc.CreateDecoder(
                gpuid=place,
                codec=codec,
                cudastream=self._stream.cuda_stream if self._stream else 0,
                usedevicememory=True,
            )
            self._pictures = Pictures(plan.stored, plan.scaled, plan.colour, device)
        except Unfit:
            raise
        except Exception as error:  # whatever a driver raises: the CPU takes over
            raise Unfit(f"NVDEC: {_first_line(error)}") from error

    def _check(self, limits: dict[str, int]) -> None:
        width, height = self.plan.stored
        smallest = Size(limits.get("width_min", 0), limits.get("height_min", 0))
        largest = Size(limits.get("width_max", width), limits.get("height_max", height))
        if not (smallest.width <= width <= largest.width and smallest.height <= height <= largest.height):
            raise Unfit(f"{self.plan.codec} of {width}x{height} pixels is not for this GPU")

    def decode(self, packet: Packet[VideoStream] | None) -> list[tuple[int, Tensor]]:
        """The samples among the frames that come out when ``packet`` goes in; None ends the stream."""
        data, flag = self._nvc.PacketData(), self._nvc.VideoPacketFlag
        data.decode_flag = int(flag.ENDOFSTREAM if packet is None else flag.TIMESTAMP)
        if packet is not None:
            assert packet.pts is not None
            data.bsl_data, data.bsl = packet.buffer_ptr, packet.buffer_size
            data.pts = packet.pts - self.plan.first
        found = []
        try:
            with self._on_stream():
                for frame in self._decoder.Decode(data):
                    stamp = frame.getPTS() + self.plan.first
                    if stamp in self.plan.wanted:
                        found.append((stamp, self._square(frame)))
        except Unfit:
            raise
        except Exception as error:  # whatever a driver raises: the CPU takes over
            raise Unfit(f"NVDEC: {_first_line(error)}") from error
        return found

    def _square(self, frame: Any) -> Tensor:
        width, height = self.plan.stored
        nv12 = from_dlpack(frame)
        if nv12.dtype != torch.uint8 or nv12.numel() != width * height * 3 // 2:
            raise Unfit(f"NVDEC gave out a frame of {nv12.dtype} {list(nv12.shape)}")
        image = turned(self._pictures.rgb(nv12.reshape(-1, width)), self.plan.orientation)
        if self.sampling.fit == "whole":
            return image.contiguous()
        side = self.sampling.crop
        top, left = (int((length - side) / 2) for length in image.shape[:2])
        return image[top : top + side, left : left + side].contiguous()

    def stacked(self, pictures: list[Tensor]) -> Tensor:
        """One finished batch, for any CUDA stream to read."""
        with self._on_stream():
            batch = torch.stack(pictures)
        if self._stream is not None:
            self._stream.synchronize()
            # Its memory must not be taken for the next one while the network still reads it.
            batch.record_stream(torch.cuda.default_stream(self.device))
        return batch

    def moved(self, images: NDArray[np.uint8]) -> Tensor:
        """Pictures of the CPU, where the others are."""
        return torch.from_numpy(np.ascontiguousarray(images)).to(self.device)

    def release(self) -> None:
        """Free the decoder and the GPU memory that it holds."""
        self._decoder = None

    def _on_stream(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


@lru_cache(maxsize=1)
def _loaded() -> tuple[Any, str]:
    """PyNvVideoCodec, or None and the reason; tried once in a process."""
    try:
        return import_module("PyNvVideoCodec"), ""
    except ModuleNotFoundError as error:
        if error.name == "PyNvVideoCodec":
            return None, f"PyNvVideoCodec is not installed: {INSTALL}"
        return None, f"PyNvVideoCodec cannot be loaded: {_first_line(error)}"
    except Exception as error:  # it raises whatever a driver lacks, as in a container without "video"
        return None, f"PyNvVideoCodec cannot be loaded: {_first_line(error)}"


@lru_cache(maxsize=64)
def _refusal(library: Any, number: int) -> str | None:
    """Why the driver refuses to decode on a GPU; None: it does not."""
    try:
        library.GetDecoderCaps(gpuid=number, codec=library.cudaVideoCodec.H264)
    except Exception as error:  # libnvcuvid is missing, or the chip has no NVDEC
        return f"NVDEC cannot be used: {_first_line(error)}"
    return None


def _number(device: torch.device) -> int:
    return device.index if device.index is not None else torch.cuda.current_device()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def tell(path: AnyPath, reason: Unfit) -> None:
    """Say in the log why a file is decoded on the CPU."""
    logger.info("%s: decoded on the CPU: %s", printable(str(path)), reason)
