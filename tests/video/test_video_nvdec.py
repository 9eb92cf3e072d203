"""Decoding on a GPU gives the CPU path's samples, or hands the file to it. A stand-in decodes in NVDEC's place."""

from __future__ import annotations

import ctypes
import logging
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synthetic import moving_scene, read_stamps, write_video
from synthetic import stamped_frames as stamped_frames_of
from visil import ViSiL
from visil.cli import main
from visil.errors import UsageError, VideoError
from visil.model.config import VISIL_F
from visil.video import Frames, FrameStream, Image, Sampling, decoders, nvdec, stream_frames
from visil.video.decoders import chosen, decode_with, decoded_frames, on_device
from visil.video.nv12 import Pictures, resampling, rgb_from_ycbcr
from visil.video.nvdec import NvdecStream, why_not, why_not_file
from visil.video.nvdec_plan import Unfit, referred_to
from visil.video.pictures import FULL, LIMITED, Colour, Size

CPU = torch.device("cpu")
SMALL = Sampling(resize=128, crop=112)
B_FRAMES = {"preset": "veryfast", "bf": "3", "threads": "1"}


def stamped_frames(count: int, size: tuple[int, int] = (96, 128)) -> Iterator[Image]:
    """Small ones, which are soon encoded."""
    return stamped_frames_of(count, size)


# ---------------------------------------------------------------- a stand-in for PyNvVideoCodec, decoding with PyAV


class StandInFrame:
    """NV12 that torch takes over by DLPack, as NVIDIA's frames are."""

    def __init__(self, frame: av.VideoFrame, stamp: int) -> None:
        self.nv12 = torch.from_numpy(frame.reformat(format="nv12").to_ndarray())
        self.stamp = stamp

    def getPTS(self) -> int:
        return self.stamp

    def __dlpack__(self, **_: Any) -> Any:
        return self.nv12.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.nv12.__dlpack_device__()


class StandInDecoder:
    """Takes packets by address and gives frames in order of display; knows nothing of the file."""

    def __init__(self, library: StandIn, codec: str) -> None:
        self.library = library
        self.context: Any = av.CodecContext.create(codec, "r")

    def Decode(self, data: Any) -> list[StandInFrame]:
        assert data.decode_flag == (2 if data.bsl else 1)
        packet = None
        if data.bsl:
            self.library.packets += 1
            packet = av.Packet(ctypes.string_at(data.bsl_data, data.bsl))
            packet.pts = data.pts
        found = []
        for frame in self.context.decode(packet):
            self.library.frames += 1
            if self.library.frames == self.library.fails_at:
                raise RuntimeError("CUDA error: out of order\nwhile executing: something")
            if self.library.frames == self.library.leaves_out:
                continue
            found.append(StandInFrame(frame, frame.pts))
        return found


class StandIn:
    """The part of PyNvVideoCodec that is used, with faults on demand."""

    cudaVideoCodec = SimpleNamespace(H264="h264", HEVC="hevc", MPEG2="mpeg2video")
    VideoPacketFlag = SimpleNamespace(ENDOFSTREAM=1, TIMESTAMP=2)

    def __init__(self) -> None:
        self.packets = self.frames = 0
        self.fails_at = self.leaves_out = -1
        self.limits = {"width_min": 48, "height_min": 16, "width_max": 4096, "height_max": 4096}

    def PacketData(self) -> SimpleNamespace:
        return SimpleNamespace(bsl_data=0, bsl=0, pts=0, decode_flag=0)

    def GetDecoderCaps(self, *, gpuid: int, codec: str) -> dict[str, int]:
        assert (gpuid, codec) == (0, codec)
        return self.limits

    def CreateDecoder(
        self, *, gpuid: int, codec: str, cudastream: int, usedevicememory: bool
    ) -> StandInDecoder:
        assert (gpuid, cudastream, usedevicememory) == (0, 0, True)
        return StandInDecoder(self, codec)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The stand-in, installed, with the CPU as its GPU."""
    stand_in = StandIn()
    monkeypatch.setattr(nvdec, "_loaded", lambda: (stand_in, ""))
    monkeypatch.setattr(decoders, "why_not", lambda _: None)
    monkeypatch.setattr(decoders, "_gpu", lambda _: CPU)
    return stand_in


def joined(batches: Sequence[Frames]) -> tuple[NDArray[np.int64], list[float]]:
    images = np.concatenate([batch.images for batch in batches]).astype(np.int64)
    return images, [time for batch in batches for time in batch.timestamps.tolist()]


def same_samples(path: Path, sampling: Sampling = SMALL, closeness: float = 2.0) -> NvdecStream:
    """Compares NVDEC's samples with the CPU's, and returns the stream they came from."""
    with stream_frames(path, sampling, batch_size=3) as plain:
        expected, expected_times = joined(list(plain))
    with NvdecStream(path, sampling, batch_size=3, device=CPU) as stream:
        images, times = joined(list(stream))
    assert times == expected_times
    assert stream.duration == plain.duration
    assert stream.info == plain.info
    assert images.shape == expected.shape
    assert np.abs(images - expected).mean(axis=(1, 2, 3)).max() < closeness
    return stream


# ---------------------------------------------------------------- the same samples


@pytest.mark.parametrize(
    ("name", "codec", "options"),
    [
        ("a.mp4", "libx264", B_FRAMES),
        ("a.mkv", "libx264", B_FRAMES | {"g": "20", "x264-params": "open-gop=1"}),
        ("a.ts", "libx264", B_FRAMES),
        ("a.mp4", "libx265", {}),
        ("a.mkv", "mpeg2video", {"bf": "2"}),
    ],
)
def test_the_frames_and_times_of_the_cpu_path(
    tmp_path: Path, library: StandIn, name: str, codec: str, options: dict[str, str]
) -> None:
    path = write_video(tmp_path / name, stamped_frames(85), codec=codec, options=options)
    stream = same_samples(path, Sampling())
    assert stream.why_cpu is None
    with NvdecStream(path, device=CPU) as again:
        images, times = joined(list(again))
    assert times == [0, 1, 2, 3]
    assert read_stamps(images.astype(np.uint8)) == [0, 25, 50, 75]


def test_variable_rate_and_held_frames(tmp_path: Path, library: StandIn) -> None:
    times = [0, 0.04, 0.3, 0.99, 1.01, 1.5, 4.2, 4.25, 4.3, 5.0, 5.05]
    path = write_video(
        tmp_path / "a.mkv", stamped_frames(len(times)), timestamps=times, time_base=Fraction(1, 1000)
    )
    assert same_samples(path, Sampling()).why_cpu is None
    with NvdecStream(path, device=CPU) as stream:
        images, _ = joined(list(stream))
    assert read_stamps(images.astype(np.uint8)) == [0, 3, 5, 5, 5, 9]


@pytest.mark.parametrize(
    "look",
    [
        {"colorspace": 1, "color_range": LIMITED},
        {"colorspace": 5, "color_range": LIMITED},
        {"colorspace": 1, "color_range": FULL},
        {"colorspace": 9, "color_range": LIMITED},
        {"rotation": 90},
        {"rotation": 180},
        {"rotation": 270},
        {"pixel_aspect": Fraction(4, 3)},
    ],
)
def test_colours_turns_and_oblong_pixels(tmp_path: Path, library: StandIn, look: dict[str, Any]) -> None:
    """Turned frames of an odd and an even width, which swscale converts in two ways."""
    for width, closeness in ((360, 1.2), (322, 1.5)):
        scene = moving_scene(3, 0.5, 10, (240, width))
        path = write_video(tmp_path / f"{width}.mp4", scene, fps=10, **look)
        for sampling in (
            Sampling(fps=3, resize=98 if width == 360 else 100, crop=91),
            Sampling(fps=3, crop=91 if width == 360 else 90, fit="whole"),
        ):
            assert same_samples(path, sampling, closeness).why_cpu is None


def test_the_wrong_matrix_would_be_seen(tmp_path: Path, library: StandIn) -> None:
    path = write_video(tmp_path / "a.mp4", moving_scene(3, 1, 10), fps=10, colorspace=1, color_range=LIMITED)
    with stream_frames(path, SMALL) as plain:
        expected, _ = joined(list(plain))
    with NvdecStream(path, SMALL, device=CPU) as stream:
        engine = stream._engine
        engine._pictures = Pictures(stream.plan.stored, stream.plan.scaled, Colour(5, LIMITED), CPU)
        images, _ = joined(list(stream))
    assert np.abs(images - expected).mean() > 2


def test_frames_that_nothing_refers_to_are_not_decoded(tmp_path: Path, library: StandIn) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(100), options=B_FRAMES)
    same_samples(path)
    assert library.packets < 75


def test_parts_of_a_packet() -> None:
    start = b"\0\0\0\1"
    reference, unreferred, idr = b"\x41\x9a", b"\x01\x9e", b"\x65\x88"
    notes = start + b"\x06\x05\x01\x80" + start + b"\x68\xce"
    assert referred_to(start + reference)
    assert referred_to(notes + start + idr)
    assert not referred_to(start + unreferred)
    assert not referred_to(notes + b"\0\0\1" + unreferred)
    assert referred_to(notes)
    assert referred_to(b"")
    assert referred_to(b"\0\0\1")


# ---------------------------------------------------------------- what goes to the CPU


def test_files_for_the_cpu(tmp_path: Path, library: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    def made(name: str, size: tuple[int, int] = (96, 128), **how: Any) -> Path:
        return write_video(tmp_path / name, stamped_frames(30, size), **how)

    raw = made("raw.h264")
    tail = tmp_path / "tail.ts"
    tail.write_bytes(made("whole.ts", options=B_FRAMES | {"g": "12"}).read_bytes()[188 * 30 :])
    reasons = {
        made("odd.mp4", (95, 127), codec="libx264", pix_fmt="yuv444p"): "yuv444p",
        made("ten.mp4", pix_fmt="yuv420p10le"): "yuv420p10le",
        made("odd.mkv", (95, 127), codec="mpeg2video"): "odd size",
        made("vp9.webm", codec="libvpx-vp9"): "vp9 is not a codec that is left to NVDEC",
        made("old.mp4", codec="mpeg4"): "mpeg4 is not a codec that is left to NVDEC",
        made("strip.mp4", (32, 640)): "strip",
        raw: "without time stamps",
    }
    for path, reason in reasons.items():
        assert reason in (why_not_file(path) or ""), path
        with decoded_frames(path, SMALL, decoder="nvdec") as stream, stream_frames(path, SMALL) as plain:
            assert isinstance(stream, FrameStream)
            images, times = joined(list(stream))
            expected, expected_times = joined(list(plain))
        assert times == expected_times
        assert np.array_equal(images, expected)
    assert why_not_file(tail) is not None
    assert library.packets == 0
    assert "sampling by count" in (why_not_file(raw, Sampling(mode="count")) or "")
    assert why_not_file(made("good.mp4")) is None


def test_what_is_no_video_fails_as_ever(tmp_path: Path, library: StandIn) -> None:
    playlist = tmp_path / "list.mp4"
    playlist.write_text("#EXTM3U\n/etc/passwd\n")
    with pytest.raises(VideoError, match="a playlist"):
        decoded_frames(playlist, decoder="nvdec")
    with pytest.raises(VideoError, match="no such file"):
        decoded_frames(tmp_path / "none.mp4", decoder="nvdec")
    with pytest.raises(VideoError, match="no such file"):
        decoded_frames("http://localhost/a.mp4", decoder="auto")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"fails_at": 1}, "CUDA error: out of order"),
        ({"fails_at": 60}, "CUDA error: out of order"),
        ({"leaves_out": 51}, "left out a frame"),
        ({"leaves_out": 101}, "left out the last frames"),
    ],
)
def test_the_cpu_takes_over(
    tmp_path: Path,
    library: StandIn,
    fault: dict[str, int],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(110), options={"bf": "0"})
    for name, value in fault.items():
        setattr(library, name, value)
    with caplog.at_level(logging.INFO, "visil"):
        stream = same_samples(path)
    assert reason in (stream.why_cpu or "")
    assert stream.why_cpu is not None
    assert "\n" not in stream.why_cpu
    assert "a.mp4: decoded on the CPU: NVDEC" in caplog.text


def test_frames_of_another_size_are_not_taken(tmp_path: Path, library: StandIn) -> None:
    """A file that changes between the first look and the decoding."""
    path = write_video(tmp_path / "a.mp4", stamped_frames(30))
    with NvdecStream(path, SMALL, device=CPU) as stream:
        write_video(path, stamped_frames(30, (64, 96)))
        with stream_frames(path, SMALL) as plain:
            assert np.array_equal(joined(list(stream))[0], joined(list(plain))[0])
    assert "gave out a frame of" in (stream.why_cpu or "")


def test_beyond_the_gpus_limits(tmp_path: Path, library: StandIn) -> None:
    path = write_video(tmp_path / "a.mp4", stamped_frames(10, (96, 128)))
    library.limits = library.limits | {"width_min": 144}
    with pytest.raises(Unfit, match="H264 of 128x96 pixels is not for this GPU"):
        NvdecStream(path, device=CPU)
    with decoded_frames(path, decoder="auto") as stream:
        assert isinstance(stream, FrameStream)


# ---------------------------------------------------------------- asking for it


def test_who_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISIL_DECODER", raising=False)
    assert chosen(None) == "cpu"
    assert chosen("auto") == "auto"
    monkeypatch.setenv("VISIL_DECODER", "nvdec")
    assert chosen(None) == "nvdec"
    assert chosen("cpu") == "cpu"
    monkeypatch.setenv("VISIL_DECODER", "gpu")
    with pytest.raises(UsageError, match="VISIL_DECODER must be one of cpu, nvdec, auto, not 'gpu'"):
        chosen(None)
    with pytest.raises(UsageError, match=r"^decoder must be one of"):
        chosen("GPU")


def test_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    nvdec._loaded.cache_clear()
    assert why_not(CPU) == "no CUDA GPU that torch can use"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert why_not(torch.device("cuda")) == "no CUDA GPU that torch can use"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(nvdec, "import_module", absent)
    assert why_not(torch.device("cuda")) == "PyNvVideoCodec is not installed: pip install 'visil[nvdec]'"

    def broken(name: str) -> Any:
        raise RuntimeError("libnvidia-encode.so: cannot open\n\n=== STEPS ===")

    nvdec._loaded.cache_clear()
    monkeypatch.setattr(nvdec, "import_module", broken)
    expected = "PyNvVideoCodec cannot be loaded: libnvidia-encode.so: cannot open"
    assert why_not(torch.device("cuda")) == expected
    nvdec._loaded.cache_clear()

    def no_driver(**_: Any) -> Any:
        raise RuntimeError("libnvcuvid.so.1: cannot open shared object file\nCould not load")

    without = StandIn()
    monkeypatch.setattr(without, "GetDecoderCaps", no_driver)
    monkeypatch.setattr(nvdec, "import_module", lambda _: without)
    expected = "NVDEC cannot be used: libnvcuvid.so.1: cannot open shared object file"
    assert why_not(torch.device("cuda", 0)) == expected
    nvdec._loaded.cache_clear()
    monkeypatch.setattr(nvdec, "import_module", lambda _: StandIn())
    assert why_not(torch.device("cuda", 0)) is None
    nvdec._loaded.cache_clear()


def test_without_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    path = write_video(tmp_path / "a.mp4", stamped_frames(30))
    with pytest.raises(UsageError, match="not possible: no CUDA GPU"):
        decoded_frames(path, decoder="nvdec")
    with pytest.raises(UsageError, match="not possible: no CUDA GPU"):
        decode_with("nvdec")
    decoders._say_once.cache_clear()
    for _ in range(2):
        with decoded_frames(path, SMALL, decoder="auto") as stream:
            assert isinstance(stream, FrameStream)
    assert decode_with("auto") is None
    assert decode_with("cpu") is None
    assert [record.message for record in caplog.records] == [
        "decoding on the CPU: no CUDA GPU that torch can use"
    ]
    with pytest.raises(UsageError, match="fast decoding is the CPU's"):
        decoded_frames(path, decoder="nvdec", fast=True)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["--decoder", "nvdec"],
            "visil: decoding on the GPU is not possible: no CUDA GPU that torch can use\n",
        ),
        (
            ["--decoder", "nvdec", "--fast-decode"],
            "visil: --decoder nvdec goes with neither --fast-decode nor --ray: leave one out\n",
        ),
    ],
)
def test_the_command_says_so_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    line: str,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["visil", "add", str(tmp_path / "index"), str(tmp_path), *options])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert capsys.readouterr().err == line
    assert not (tmp_path / "index").exists()


def test_embedding(tmp_path: Path, library: StandIn) -> None:
    model = ViSiL(VISIL_F.replaced(backbone="efficientnet-lite0", stages=(0, 1), sampling=SMALL))
    path = write_video(tmp_path / "a.mp4", moving_scene(5, 3, 10), fps=10)
    plain, fast = model.embed(path), model.embed(path, decoder="nvdec")
    assert library.frames > 0
    assert torch.equal(plain.timestamps, fast.timestamps)
    assert plain.duration == fast.duration
    assert fast.blank is not None
    assert plain.blank is not None
    assert torch.equal(plain.blank, fast.blank)
    assert torch.cosine_similarity(plain.vectors, fast.vectors, dim=-1).min() > 0.995
    with decoded_frames(path, SMALL, decoder="auto") as stream:
        batches = list(on_device(stream))
    assert all(isinstance(batch.images, torch.Tensor) for batch in batches)


# ---------------------------------------------------------------- colour and size, by the formulas

MATRICES = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 5: (0.299, 0.114), 7: (0.212, 0.087), 9: (0.2627, 0.0593)}


@given(
    st.sampled_from(sorted(MATRICES)),
    st.sampled_from([LIMITED, FULL]),
    st.tuples(*[st.floats(0, 255)] * 3),
)
def test_colour_by_its_definition(matrix: int, range_: int, rgb: tuple[float, float, float]) -> None:
    red, green, blue = rgb
    kr, kb = MATRICES[matrix]
    y = kr * red + (1 - kr - kb) * green + kb * blue
    cb, cr = (blue - y) / (2 * (1 - kb)), (red - y) / (2 * (1 - kr))
    stored = (
        [16 + 219 / 255 * y, 128 + 224 / 255 * cb, 128 + 224 / 255 * cr]
        if range_ == LIMITED
        else [y, 128 + cb, 128 + cr]
    )
    found_matrix, offset = rgb_from_ycbcr(Colour(matrix, range_))
    assert found_matrix @ np.array(stored) + offset == pytest.approx(np.array(rgb), abs=1e-9)


def test_colours_by_hand() -> None:
    """BT.709, limited: red is 63, 102, 240 (ITU-R BT.709), and BT.601's is 81, 90, 240."""
    for matrix, stored in ((1, (63, 102, 240)), (5, (81, 90, 240))):
        nv12 = torch.empty(6, 4, dtype=torch.uint8)
        nv12[:4] = stored[0]
        nv12[4:, ::2], nv12[4:, 1::2] = stored[1], stored[2]
        image = Pictures(Size(4, 4), Size(3, 5), Colour(matrix, LIMITED), CPU).rgb(nv12)
        assert image.shape == (5, 3, 3)
        assert (image.long() - torch.tensor([255, 0, 0])).abs().max() <= 2


def kernel(x: float) -> float:
    """Keys (1981) with a = -0.6."""
    x = abs(x)
    if x < 1:
        return 1.4 * x**3 - 2.4 * x**2 + 1
    return -0.6 * x**3 + 3 * x**2 - 4.8 * x + 2.4 if x < 2 else 0.0


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(1, 40))
def test_resizing_by_the_formula(length: int, wanted: int) -> None:
    weights = resampling(length, wanted)
    spread = max(1.0, length / wanted)
    expected = np.zeros((wanted, length))
    for row in range(wanted):
        centre = (row + 0.5) * length / wanted - 0.5
        for pixel in range(-3 * length - 10, 4 * length + 10):
            expected[row, min(max(pixel, 0), length - 1)] += kernel((pixel - centre) / spread)
    expected /= expected.sum(axis=1, keepdims=True)
    assert weights == pytest.approx(expected, abs=1e-12)
    if length == wanted:
        assert np.array_equal(weights, np.eye(length))
