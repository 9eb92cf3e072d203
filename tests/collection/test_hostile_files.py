"""A folder as an adversary would fill it: whatever a file is, it costs itself alone, and is named in one line."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from synthetic import stamped_frames, write_video

from .conftest import Command

SIZE = (48, 64)
FRAMES = list(stamped_frames(10, SIZE))

Harm = Callable[[bytes, random.Random], bytes]


def flipped(data: bytes, dice: random.Random) -> bytes:
    """One byte in two hundred is another."""
    changed = bytearray(data)
    for place in dice.sample(range(len(data)), max(1, len(data) // 200)):
        changed[place] ^= 1 << dice.randrange(8)
    return bytes(changed)


def oversized(data: bytes, dice: random.Random) -> bytes:
    """Four bytes somewhere near the start claim four gigabytes."""
    place = dice.randrange(4, min(len(data) - 4, 600))
    return data[:place] + b"\xff\xff\xff\xff" + data[place + 4 :]


HARMS: dict[str, Harm] = {
    "cut in half": lambda data, _: data[: len(data) // 2],
    "cut to a header": lambda data, _: data[:40],
    "without its start": lambda data, _: data[len(data) // 3 :],
    "flipped": flipped,
    "oversized": oversized,
    "zeros in it": lambda data, _: (
        data[: len(data) // 3] + bytes(len(data) // 3) + data[2 * len(data) // 3 :]
    ),
    "twice": lambda data, _: data + data,
    "with noise behind": lambda data, dice: data + dice.randbytes(5000),
    "halves exchanged": lambda data, _: data[len(data) // 2 :] + data[: len(data) // 2],
}

NAMES = ("a.mp4", "b.mkv", "c.avi", "d.ts", "e.gif", "f.webp", "g.png")


def sound(folder: Path) -> dict[str, bytes]:
    """One small video of each kind, byte by byte."""
    made: dict[str, bytes] = {}
    for name in NAMES:
        path = folder / name
        if path.suffix in (".gif", ".webp", ".png"):
            first, *others = map(Image.fromarray, FRAMES)
            first.save(path, save_all=True, append_images=others, duration=200)
        else:
            codec = "mpeg4" if path.suffix == ".avi" else "libx264"
            write_video(path, FRAMES, 5, codec=codec)
        made[name] = path.read_bytes()
        path.unlink()
    return made


def impostors(folder: Path) -> None:
    """What is named like a video and is something else."""
    (folder / "empty.mp4").touch()
    (folder / "text.mp4").write_text("not a film\n" * 99)
    (folder / "playlist.mp4").write_text("#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n")
    (folder / "list.mkv").write_text("ffconcat version 1.0\nfile '/etc/passwd'\n")
    (folder / "page.webm").write_text("<html><video src='file:///etc/passwd'></video></html>")
    (folder / "archive.mp4").write_bytes(b"PK\x03\x04" + bytes(200))
    (folder / "zeros.avi").write_bytes(bytes(4096))
    (folder / "noise.mov").write_bytes(random.Random(1).randbytes(4096))
    (folder / "boxes.mp4").write_bytes(
        struct.pack(">I4s", 8, b"ftyp") + struct.pack(">I4s", 8, b"moov") * 500
    )
    (folder / "nested.mp4").write_bytes(
        b"".join(struct.pack(">I4s", 8 * n, b"moov") for n in range(500, 0, -1))
    )
    (folder / "huge.y4m").write_bytes(b"YUV4MPEG2 W999999 H999999 F25:1 C420jpeg\nFRAME\n" + bytes(99))
    (folder / "no clock.y4m").write_bytes(
        b"YUV4MPEG2 W16 H16 F0:0 C420jpeg\n" + (b"FRAME\n" + bytes(384)) * 3
    )
    (folder / "lone\udcff name.mp4").write_text("not a film") if sys.platform == "linux" else None
    (folder / "two\nlines.mp4").write_text("not a film")
    (folder / "a folder.mp4").mkdir()
    (folder / "loop.mp4").symlink_to("loop.mp4")
    (folder / "nowhere.mp4").symlink_to("nothing there.mp4")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty files, of which one is sound."""
    folder = tmp_path_factory.mktemp("hostile")
    dice = random.Random(7)
    for name, data in sound(folder).items():
        for harm, spoil in HARMS.items():
            (folder / f"{harm} {name}").write_bytes(spoil(data, dice))
    impostors(folder)
    write_video(folder / "sound.mp4", FRAMES, 5)
    return folder


def test_each_file_costs_itself_alone(hostile: Path, tmp_path: Path, run: Command) -> None:
    index = tmp_path / "all.visil"
    done = run("add", index, hostile, "--workers", "1", "--json")
    assert done.status == 3
    found = done.json
    assert found["added"] + found["unchanged"] + len(found["failed"]) >= 70
    reasons = {Path(failed["path"]).name: failed["reason"] for failed in found["failed"]}
    assert {"empty.mp4", "text.mp4", "playlist.mp4", "list.mkv", "huge.y4m", "two\nlines.mp4"} <= set(reasons)
    for reason in reasons.values():
        assert reason
        assert not [word for word in ("\n", "Errno", "Error", "Traceback", "passwd") if word in reason]
    again = run("add", index, hostile, "--workers", "1", "--json")
    assert (again.status, again.json["added"], len(again.json["failed"])) == (3, 0, len(reasons))
    assert run("verify", index).out == "sound\n"

    asked = [hostile / "sound.mp4", *(hostile / name for name in sorted(reasons)[:20])]
    answers = run("search", index, *asked, "--json")
    assert answers.status == 3
    assert answers.json[0]["hits"][0]["path"] == str(hostile / "sound.mp4")
    assert all(one["error"] == reasons[Path(one["query"]).name] for one in answers.json[1:])
    assert len(answers.err.splitlines()) == 20, "one line for each query that cannot be read"
    assert run("search", index, asked[1]).status == 1
