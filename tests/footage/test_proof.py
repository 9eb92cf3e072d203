"""Two files compared for certain: what only one has, and what cannot be read."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as pillow

from footage.scenes import FPS, Frames, shots
from synthetic import Image, write_video
from visil.errors import VideoError
from visil.footage import proof as module
from visil.footage.miniatures import MOST_BYTES, SIDE, rate_for, read_miniatures
from visil.footage.proof import File, Proof, Prover

FILM = shots(4, 4)
WHOLE = [((0.0, 4.0), (0.0, 4.0))]


def file(path: Path) -> File:
    return File(str(path), 4.0, path.stat().st_size)


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> dict[str, File]:
    folder = tmp_path_factory.mktemp("films")
    grey = [np.repeat(frame.mean(axis=2, keepdims=True), 3, axis=2).astype(np.uint8) for frame in FILM]
    doubled = [frame for frame in FILM for _ in range(2)]
    other = shots(5, 4)
    return {
        "plain": file(write_video(folder / "plain.mp4", FILM, FPS)),
        "sound": file(write_video(folder / "sound.mp4", FILM, FPS, sound=True)),
        "grey": file(write_video(folder / "grey.mp4", grey, FPS)),
        "paler": file(write_video(folder / "paler.mp4", [*map(paler, FILM)], FPS)),
        "captions": file(captioned(folder / "captions.ts")),
        "cover": file(with_more(folder / "cover.mkv", "cover")),
        "smooth": file(write_video(folder / "smooth.mp4", doubled, 2 * FPS)),
        "two": file(two_videos(folder / "two.mkv", FILM, other)),
        "english": file(subtitled(folder / "english.mkv", "Good morning")),
        "german": file(subtitled(folder / "german.mkv", "Guten Tag")),
        "chapters": file(with_more(folder / "chapters.mkv", "chapters")),
        "attachment": file(with_more(folder / "attachment.mkv", "attachment")),
        "ten bits": file(write_video(folder / "ten.mkv", FILM, FPS, pix_fmt="yuv420p10le")),
        "hdr": file(with_more(folder / "hdr.mkv", "hdr")),
        "all colours": file(write_video(folder / "444.mkv", FILM, FPS, pix_fmt="yuv444p")),
        "transparent": file(write_video(folder / "clear.mov", FILM, FPS, codec="qtrle", pix_fmt="argb")),
        "interlaced": file(write_video(folder / "fields.mkv", FILM, FPS, options={"x264-params": "tff=1"})),
        "gone": File(str(folder / "gone.mp4"), 4.0, 10),
    }


def paler(frame: Image) -> Image:
    return (0.7 * frame + 0.3 * (frame @ [0.299, 0.587, 0.114])[..., None]).astype(np.uint8)


def captioned(path: Path) -> Path:
    """The film with captions between its pictures, as broadcasts have them."""
    import av

    said = b"\xb5\x00\x31GA94\x03\x41\xff\xfc\x94\x2c\xff"
    message = b"\x00\x00\x00\x01\x06\x04" + bytes([len(said)]) + said + b"\x80"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18", "bf": "0"})
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = FILM[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        frames = [av.VideoFrame.from_ndarray(image, format="rgb24") for image in FILM]
        for packet in [*(one for frame in frames for one in stream.encode(frame)), *stream.encode()]:
            data = bytes(packet)
            picture = min(
                at
                for kind in b"\x25\x41\x45\x61\x65\x01\x05\x21"
                if (at := data.find(bytes([0, 0, 1, kind]))) >= 0
            )
            fresh = av.Packet(data[:picture] + message + data[picture:])
            fresh.pts, fresh.dts, fresh.time_base = packet.pts, packet.dts, packet.time_base
            fresh.is_keyframe, fresh.stream = packet.is_keyframe, stream
            container.mux(fresh)
    return path


def with_more(path: Path, kind: str) -> Path:
    """The film in a file that has chapters, another file or a cover in it, or says that it is HDR."""
    import av

    with av.open(str(path), "w") as container:
        if kind == "attachment":
            container.add_attachment("notes.txt", "text/plain", b"who is who")
        if kind == "cover":
            picture = BytesIO()
            pillow.fromarray(FILM[0]).save(picture, "JPEG")
            container.add_attachment("cover.jpg", "image/jpeg", picture.getvalue())
        if kind == "chapters":
            places = ((0, "Arrival"), (2, "Departure"))
            container.set_chapters(
                [
                    {
                        "id": at,
                        "start": at,
                        "end": at + 2,
                        "time_base": Fraction(1),
                        "metadata": {"title": name},
                    }
                    for at, name in places
                ]
            )
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "18"})
        assert isinstance(stream, av.VideoStream)
        stream.height, stream.width = FILM[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        if kind == "hdr":
            stream.codec_context.color_trc = 16
        for image in FILM:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
    return path


def two_videos(path: Path, first: Frames, second: Frames) -> Path:
    """A file with two video streams, the first of which is the one that is read."""
    import av

    with av.open(str(path), "w") as container:
        streams = [container.add_stream("libx264", rate=FPS, options={"crf": "18"}) for _ in range(2)]
        for stream in streams:
            assert isinstance(stream, av.VideoStream)
            stream.height, stream.width = first[0].shape[:2]
            stream.pix_fmt = "yuv420p"
        for images in zip(first, second, strict=True):
            for stream, image in zip(streams, images, strict=True):
                assert isinstance(stream, av.VideoStream)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        for stream in streams:
            assert isinstance(stream, av.VideoStream)
            container.mux(stream.encode())
    return path


def subtitled(path: Path, text: str) -> Path:
    """The film with one subtitle."""
    import av

    plain, words = write_video(path.with_suffix(".mp4"), FILM, FPS), path.with_suffix(".srt")
    words.write_text(f"1\n00:00:00,000 --> 00:00:03,000\n{text}\n")
    with av.open(str(plain)) as film, av.open(str(words)) as subtitles, av.open(str(path), "w") as both:
        sources = [(subtitles, subtitles.streams[0]), (film, film.streams[0])]
        copies = [both.add_stream_from_template(stream) for _, stream in sources]
        for (source, stream), copy in zip(sources, copies, strict=True):
            for packet in source.demux(stream):
                if packet.dts is not None:
                    packet.stream = copy
                    both.mux(packet)
    return path


@pytest.mark.parametrize(
    ("kind", "only"),
    [
        ("sound", "has sound"),
        ("two", "holds a second video, which was not compared"),
        ("smooth", "has 16 frames a second"),
        ("english", "has subtitles"),
        ("captions", "has subtitles"),
        ("cover", "holds other data (fonts, files, measurements)"),
        ("chapters", "has chapters"),
        ("attachment", "holds other data (fonts, files, measurements)"),
        ("ten bits", "has colours of 10 bits"),
        ("hdr", "is HDR"),
        ("all colours", "has colours for each pixel"),
        ("transparent", "is transparent in places"),
        ("interlaced", "is interlaced, with two moments in each frame"),
        ("plain", None),
    ],
)
def test_what_a_file_has_that_another_has_not(kind: str, only: str | None, films: dict[str, File]) -> None:
    found = Prover().prove(films[kind], films["plain"], WHOLE)
    assert found.first_in_second.whole
    assert found.second_in_first.whole
    assert (found.first_only, found.second_only) == (only, None)
    turned = Prover().prove(films["plain"], films[kind], WHOLE)
    assert (turned.first_only, turned.second_only) == (None, only)
    assert turned.turned() == replace(found, **{name: getattr(turned.turned(), name) for name in MEASURED})


def test_subtitles_are_kept_though_the_other_has_some_as_well(films: dict[str, File]) -> None:
    found = Prover().prove(films["english"], films["german"], WHOLE)
    assert found.first_in_second.whole
    assert found.first_only == found.second_only == "has subtitles, which were not compared"


MEASURED = ("first_in_second", "second_in_first", "finer")


@pytest.mark.parametrize("kind", ["grey", "paler"])
def test_colour_that_is_lost_is_missed(kind: str, films: dict[str, File]) -> None:
    found = Prover().prove(films["plain"], films[kind], WHOLE)
    assert (found.first_only, found.second_only) == ("has more colour", None)


def test_a_file_that_cannot_be_read_shows_nothing(films: dict[str, File]) -> None:
    found = Prover().prove(films["plain"], films["gone"], WHOLE)
    assert found.unread == f"{films['gone'].path}: no such file"
    assert not found.first_in_second.whole
    assert not found.second_in_first.whole


def test_it_survives_json(films: dict[str, File]) -> None:
    for proof in (
        Prover().prove(films["sound"], films["plain"], WHOLE),
        Prover().prove(films["sound"], films["gone"], WHOLE),
        Proof(),
    ):
        told = json.loads(json.dumps(proof.to_dict("query", "target")))
        assert set(told) >= {"query_in_target", "target_in_query", "finer", "clearly", "unread"}
        assert told["query_in_target"].keys() == {"seconds", "of", "whole"}
        read = Proof.from_dict(told, "query", "target")
        assert read.to_dict() == proof.to_dict()


def test_each_file_is_decoded_once(films: dict[str, File], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(path: str, *rest: object) -> object:
        read.append(path)
        return read_miniatures(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "read_miniatures", reading)
    prover = Prover()
    for one, other in (("plain", "sound"), ("grey", "plain")):
        assert prover.prove(films[one], films[other], WHOLE).unread is None
    prover.prove(films["gone"], films["plain"], WHOLE)
    prover.prove(films["gone"], films["sound"], WHOLE)
    assert sorted(read) == sorted(films[name].path for name in ("plain", "sound", "grey", "gone"))
    monkeypatch.setattr(module, "KEPT_BYTES", 0)
    prover.prove(films["plain"], films["sound"], WHOLE)
    prover.prove(films["grey"], films["sound"], WHOLE)
    assert read.count(films["grey"].path) == 2, "there was no room to keep it"


def test_longer_videos_get_fewer_pictures_and_the_longest_none(films: dict[str, File]) -> None:
    assert rate_for(60) == 16
    rates = [rate_for(60.0 * minutes) for minutes in range(0, 60 * 10, 20)]
    assert [rate for rate in rates if rate is not None] == sorted(filter(None, rates), reverse=True)
    assert rates[-1] is None
    for minutes, rate in zip(range(0, 60 * 10, 20), rates, strict=True):
        assert rate is None or 60 * minutes * rate * SIDE * SIDE <= MOST_BYTES
    with pytest.raises(VideoError, match="too long to be compared"):
        read_miniatures(films["plain"].path, 1e6)


def test_a_file_that_grew_is_not_read_without_end(
    films: dict[str, File], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visil.footage.miniatures.MOST_BYTES", 16 * SIDE * SIDE)
    with pytest.raises(VideoError, match="longer than it was"):
        read_miniatures(films["plain"].path, 1.0)
