"""Only the file asked for is ever opened: no network, no other file, no device."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from synthetic import read_stamps, stamped_frames, write_video
from visil.errors import VideoError
from visil.video import frames_at, probe, read_frames, stream_frames
from visil.video.container import AUDIO_DEMUXERS, VIDEO_DEMUXERS


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "clip.mp4", stamped_frames(50))


@pytest.fixture
def server() -> Iterator[tuple[int, list[bytes]]]:
    """A loopback server, and what it has been asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            asked.append(connection.recv(1024))
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    port = listener.getsockname()[1]
    try:
        yield port, asked
    finally:
        # Wakes accept() whether or not closing does, and proves that the server counts.
        seen = len(asked)
        with socket.create_connection(("127.0.0.1", port)) as probe_connection:
            probe_connection.sendall(b"done")
            probe_connection.recv(1)
        assert len(asked) == seen + 1
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def refuse(path: Path | str) -> None:
    for read in (read_frames, probe, stream_frames, lambda path: frames_at(path, [0.0])):
        with pytest.raises(VideoError):
            read(path)


@pytest.mark.parametrize("suffix", ["mp4", "m3u8", "ts", "mkv", "txt"])
def test_playlists_are_not_followed(tmp_path: Path, clip: Path, suffix: str) -> None:
    segment = write_video(tmp_path / "segment.ts", stamped_frames(50))
    texts = {
        "hls": f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{segment}\n#EXT-X-ENDLIST\n",
        "ffconcat": f"ffconcat version 1.0\nfile '{clip.name}'\n",
        "concat": f"file '{clip}'\n",
        "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n",
        "dash": f'<MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><BaseURL>{clip}</BaseURL></MPD>',
    }
    for kind, text in texts.items():
        path = tmp_path / f"{kind}.{suffix}"
        path.write_text(text)
        refuse(path)


def test_playlists_reach_no_server(tmp_path: Path, server: tuple[int, list[bytes]]) -> None:
    port, asked = server
    url = f"http://127.0.0.1:{port}/clip.ts"
    for suffix in ("m3u8", "mp4"):
        playlist = tmp_path / f"list.{suffix}"
        playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{url}\n#EXT-X-ENDLIST\n")
        refuse(playlist)
        concat = tmp_path / f"concat.{suffix}"
        concat.write_text(f"ffconcat version 1.0\nfile '{url}'\n")
        refuse(concat)
    assert asked == []


def test_urls_are_only_names(
    clip: Path, server: tuple[int, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, asked = server
    monkeypatch.chdir(clip.parent)
    for url in (
        f"http://127.0.0.1:{port}/clip.mp4",
        f"tcp://127.0.0.1:{port}",
        f"rtsp://127.0.0.1:{port}/clip",
        f"file:{clip}",
        f"file://{clip}",
        f"concat:{clip}|{clip}",
        f"subfile,,start,0,end,1000,,:{clip}",
        f"cache:{clip}",
        f"crypto:{clip}",
        "data:video/mp4;base64,AAAA",
        "pipe:",
        "pipe:0",
        "-",
        "clip%03d.mp4",
        "*.mp4",
    ):
        with pytest.raises(VideoError) as caught:
            read_frames(url)
        assert caught.value.reason == "no such file"
    assert asked == []


@pytest.mark.parametrize(
    "name",
    [
        "concat:a.mp4",
        "http:a.mp4",
        "-",
        "file:x.mp4",
        "a%03d.mp4",
        "a b|c.mp4",
        "pipe:",
        "q?x=1#y.mp4",
        "é\n.mp4",
    ],
)
def test_files_with_names_like_urls_are_files(clip: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clip.rename(clip.parent / name)
    monkeypatch.chdir(clip.parent)
    assert read_stamps(read_frames(name).images) == [0, 25]
    assert probe(name).path == name
    assert len(frames_at(name, [0.0, 1.5])) == 2


def test_a_name_that_is_not_utf8(clip: Path) -> None:
    name = os.fsdecode(os.fsencode(clip.parent) + b"/caf\xe9.mp4")
    try:
        os.rename(clip, name)
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    assert len(read_frames(name)) == 2


def test_symbolic_links_to_files_are_followed(clip: Path) -> None:
    link = clip.parent / "link.mp4"
    link.symlink_to(clip)
    assert len(read_frames(link)) == 2
    dangling = clip.parent / "dangling.mp4"
    dangling.symlink_to(clip.parent / "nowhere.mp4")
    refuse(dangling)


def test_pipes_sockets_and_devices_are_refused_without_waiting(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo.mp4"
    os.mkfifo(fifo)
    refuse(fifo)
    with socket.socket(socket.AF_UNIX) as listener:
        address = tmp_path / "s.mp4"
        listener.bind(os.fspath(address))
        refuse(address)
    for device in ("/dev/zero", "/dev/null", "/dev/stdin"):
        if Path(device).exists() and not Path(device).is_file():
            refuse(device)
    link = tmp_path / "zero.mp4"
    link.symlink_to("/dev/zero")
    refuse(link)


def test_a_folder_with_a_pipe_named_like_an_image_does_not_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.png")
    refuse(tmp_path)


def test_no_demuxer_on_the_list_reads_other_files() -> None:
    listed = set(f"{VIDEO_DEMUXERS},{AUDIO_DEMUXERS}".split(","))
    reaching = {"hls", "dash", "concat", "sdp", "rtsp", "rtp", "image2", "image2pipe", "imf", "lavfi", "tty"}
    reaching |= {"vobsub", "mlv", "webm_dash_manifest", "applehttp", "sap", "alsa", "v4l2", "x11grab", "data"}
    assert not listed & reaching


def test_the_list_of_demuxers_is_applied(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(read_frames(clip)) == 2
    monkeypatch.setattr("visil.video.container.VIDEO_DEMUXERS", "matroska")
    refuse(clip)
