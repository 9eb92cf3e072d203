"""Hostile files: they end the process that decodes them, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visil.errors import VideoError
from visil.video import Sampling, frames_at, read_frames, stream_frames
from visil.video.sound import read_sound
from visil.web.sandbox import Decoder
from visil.web.settings import MIB, Limits

from .conftest import Running


def test_the_sandbox_decodes_as_visil_does(root: Path) -> None:
    sampling = Sampling(fps=2.0, resize=64, crop=64)
    file = root / "cut.mp4"
    with Decoder(Limits()) as decoder, stream_frames(file, sampling) as truth:
        with decoder.stream(file, sampling, 60.0) as stream:
            assert stream.info == truth.info
            batches = list(stream)
        expected = read_frames(file, sampling)
        assert sum(map(len, truth)) == 6
        assert np.array_equal(np.concatenate([part.images for part in batches]), expected.images)
        assert np.array_equal(np.concatenate([part.timestamps for part in batches]), expected.timestamps)
        assert stream.duration == truth.duration > 2.9
        for here, there in zip(
            frames_at(file, [2.0, 0.5], 60), decoder.frames_at(file, [2.0, 0.5], 60), strict=True
        ):
            assert np.array_equal(here, there)
        assert decoder.sound(str(file)) == read_sound(file) == []
        child = decoder._child
        assert decoder.probe(file).width == 160
        assert decoder._child is child
        with decoder.stream(file, sampling, 60.0):
            pass  # left half-read: the next answers come from a process of their own
        assert decoder.probe(file).width == 160
        assert decoder._child is not child
        with pytest.raises(VideoError, match="not a video file: it holds text"):
            decoder.probe(root / "videos" / "broken.mp4")
        assert decoder.probe(file).height == 120


HOSTILE = """
import visil.web.decoder as decoder
real, answers = decoder.own_output, []
def own_output():
    answers.append(real())
    return answers[0]
decoder.own_output = own_output
def hostile(request):
    {does}
    yield {{}}, b""
decoder.DOES["probe"] = hostile
decoder.main()
"""


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("import ctypes; ctypes.string_at(0)", "gave up"),
        ("x = b'x' * (4 << 30)", "memory"),
        ("x = [bytearray(1 << 28) for _ in range(100)]", "memory"),
        ("open({file!r}, 'wb', 0).write(b'x' * 10)", "OSError|gave up"),
        ("open({file!r}, 'wb').close()\n    while True: pass", "too long|gave up"),
        ("open({file!r}, 'wb').close(); import time; time.sleep(60)", "too long"),
        ("decoder.send(answers[0], {{'info': {{'path': '', 'width': None}}}}, b'')", "gave up"),
        ("answers[0].write(b'x' * 5000); answers[0].flush()", "gave up"),
    ],
)
def test_a_hostile_file_ends_its_own_process_only(
    monkeypatch: pytest.MonkeyPatch, root: Path, tmp_path: Path, does: str, reason: str
) -> None:
    real = subprocess.Popen
    file = tmp_path / "written"

    def popen(command: list[str], **options: Any) -> Any:
        script = HOSTILE.format(does=does.format(file=str(file)))
        return real([sys.executable, "-c", script, command[-1]], **options)

    monkeypatch.setattr("visil.web.sandbox.subprocess.Popen", popen)
    limits = Limits(decode_memory=1024 * MIB, decode_picture_s=0.4 if "too long" in reason else 20.0)
    with Decoder(limits) as decoder:
        with pytest.raises(VideoError, match=reason):
            decoder.probe(root / "cut.mp4")
        monkeypatch.setattr("visil.web.sandbox.subprocess.Popen", real)
        decoder.close()
        decoder.limits = Limits()
        assert decoder.probe(root / "cut.mp4").width == 160
    assert not file.exists() or file.stat().st_size == 0
    assert file.exists() == ("file" in does)  # it was reached, and not only slow to start


def test_hostile_uploads_leave_the_server_well(shared: Running, root: Path) -> None:
    whole = (root / "videos" / "cat.mp4").read_bytes()
    noise = bytes(i * 7919 % 256 for i in range(5000))
    for data in (
        noise,
        b"\0" * 5000,
        whole[:400],
        whole[:200] + noise,
        b"ffconcat version 1.0\nfile /etc/passwd",
    ):
        answer = shared.http.post("/api/uploads?name=a.mp4", content=data)
        assert answer.status_code in (201, 422)
        if answer.status_code == 201:
            job = shared.http.post("/api/search", json={"upload": answer.json()["upload"]}).json()["job"][
                "id"
            ]
            while shared.client.job(job)["state"] in ("waiting", "running"):
                time.sleep(0.05)
            assert "Traceback" not in (shared.client.job(job)["error"] or "")
    assert shared.client.videos()["total"] == 4
