"""The command as a user runs it: real files, exit status and every line of output, in a process where one matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest

from synthetic import write_video
from visil.demo import photograph, render_scene
from visil.video import Image

from .conftest import Here


def visil(*arguments: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "visil", *(os.fspath(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture(scope="module")
def shared(videos: Path) -> str:
    """What ``visil compare --json`` prints for the two videos that share footage."""
    done = visil("compare", videos / "query.mp4", videos / "target.mp4", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos that share five seconds, and one that shares nothing."""
    folder = tmp_path_factory.mktemp("videos")

    def scene(name: str, seconds: float) -> list[Image]:
        return list(render_scene(photograph(name), seconds, 8, (192, 144)))

    shared = scene("chelsea", 5)
    write_video(folder / "query.mp4", [*shared, *scene("coffee", 2)], fps=8)
    write_video(folder / "target.mp4", [*scene("rocket", 3), *shared], fps=8)
    write_video(folder / "other.mp4", scene("astronaut", 4), fps=8)
    return folder


def test_compare_finds_the_shared_stretch(videos: Path, shared: str) -> None:
    answer = json.loads(shared)
    assert list(answer) == ["query", "target", "score", "confidence", "verdict", "segments", "note"]
    assert answer["query"] == str(videos / "query.mp4")
    assert answer["verdict"] == "copy"
    assert answer["confidence"] > 0.9
    best = max(answer["segments"], key=lambda s: s["query"][1] - s["query"][0])
    assert best["query"] == pytest.approx([0, 5], abs=1)
    assert best["target"] == pytest.approx([3, 8], abs=1)
    assert -1 <= best["score"] <= 1


def test_compare_tells_people(
    videos: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")  # a sentence is one line all the same
    picture = tmp_path / "match.png"
    done = here("compare", videos / "query.mp4", videos / "target.mp4", "--plot", picture)
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("copy: ")
    assert first.endswith(" in the target")
    assert last == f"plot: {picture}"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_unrelated_videos(videos: Path, here: Here) -> None:
    done = here("compare", videos / "query.mp4", videos / "other.mp4", "--json")
    answer = json.loads(done.stdout)
    assert answer["verdict"] == "unrelated"
    assert answer["confidence"] < 0.5


def test_a_folder_of_images_is_a_video(videos: Path, tmp_path: Path, here: Here) -> None:
    from PIL.Image import fromarray

    from visil.video import read_frames

    for i, image in enumerate(read_frames(videos / "query.mp4").images):
        fromarray(image).save(tmp_path / f"frame{i}.png")
    done = here("compare", tmp_path, videos / "target.mp4", "--json")
    assert json.loads(done.stdout)["verdict"] != "unrelated"


def silent_sound(path: Path) -> None:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        samples = np.zeros((1, 44100 * 2), np.int16)
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
        frame.sample_rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


BAD: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("not a film\n" * 50),
    "noise": lambda path: path.write_bytes(np.random.default_rng(0).bytes(5000)),
    "sound": silent_sound,
    "playlist": lambda path: path.write_text("#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/x.ts\n"),
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("position", ["query", "target"])
def test_bad_input_is_one_line_and_exit_1(
    videos: Path, tmp_path: Path, kind: str, position: str, here: Here
) -> None:
    bad = tmp_path / "bad.mp4"
    BAD[kind](bad)
    good = videos / "other.mp4"
    pair = (bad, good) if position == "query" else (good, bad)
    picture = tmp_path / "match.png"
    done = here("compare", *pair, "--json", "--plot", picture)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"visil: {bad}: ")
    assert "Traceback" not in line
    assert not picture.exists()
    assert {entry.name for entry in tmp_path.iterdir()} <= {"bad.mp4"}


def test_a_name_with_a_line_break_stays_on_one_line(tmp_path: Path, here: Here) -> None:
    bad = tmp_path / "two\nlines.mp4"
    bad.write_text("no")
    done = here("compare", bad, bad)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "two\\nlines.mp4" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--plot", "match.xyz"], "match.xyz"),
        (["--plot", "nowhere/match.png"], "nowhere"),
        (["--model", "no-such-model"], "no-such-model"),
    ],
)
def test_what_cannot_be_done(
    videos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
    here: Here,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = here("compare", videos / "query.mp4", videos / "other.mp4", *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert said in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["compare"], ["compare", "a.mp4"], ["nonsense"], ["compare", "--nope"]]
)
def test_wrong_usage_is_exit_2(arguments: list[str], here: Here) -> None:
    assert here(*arguments).returncode == 2


def test_version_and_help(here: Here) -> None:
    import visil as package

    assert visil("--version").stdout == f"visil {package.__version__}\n"
    assert "compare" in here("--help").stdout


def test_models_list(here: Here) -> None:
    listing = json.loads(here("models", "list", "--json").stdout)
    assert listing["default"]["backbone"].startswith("efficientnet-lite")
    assert "visil-v" in listing["presets"]
    assert listing["backbones"]["efficientnet-lite0"].endswith(".pth")


def test_models_export_gives_what_compare_takes(
    videos: Path, shared: str, tmp_path: Path, here: Here
) -> None:
    assert here("models", "export", tmp_path / "model").returncode == 0
    pair = (videos / "query.mp4", videos / "target.mp4")
    assert here("compare", *pair, "--json", "--model", tmp_path / "model").stdout == shared


def test_a_closed_pipe_is_no_error(videos: Path) -> None:
    command = f"{sys.executable} -m visil compare --help | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_error_is_one_line_and_no_warning_beside_it(videos: Path) -> None:
    """In a process of its own: here pytest would take the warnings that a user would see."""
    done = visil("compare", videos / "query.mp4", videos / "other.mp4", "--model", "nowhere")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert "nowhere" in line


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys; sys.argv = ['visil', '--help']\n"
        "from visil.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    print([name for name in ('torch', 'av', 'numpy', 'matplotlib') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_folders_of_videos_are_compared_each_with_each(videos: Path, tmp_path: Path, here: Here) -> None:
    several = tmp_path / "several"
    several.mkdir()
    for name in ("target.mp4", "other.mp4"):
        (several / name).write_bytes((videos / name).read_bytes())
    (several / "bad.mp4").write_text("not a film")
    done = here("compare", videos / "query.mp4", several)
    assert done.returncode == 3, "some could not be compared"
    assert done.stderr == f"left out: {several / 'bad.mp4'}: not a video file: it holds text\n"
    first, second, last = done.stdout.splitlines()
    assert first.endswith(f"{videos / 'query.mp4'} and {several / 'target.mp4'}")
    assert second.strip().startswith("copy: ")
    assert last == "1 of 2 pairs share footage"
    (several / "bad.mp4").unlink()
    whole = here("compare", several, several, "--json")
    assert whole.returncode == 0
    answers = json.loads(whole.stdout)
    assert [(Path(one["query"]).name, Path(one["target"]).name) for one in answers] == [
        ("other.mp4", "target.mp4"),
        ("target.mp4", "other.mp4"),
    ]
    assert "--plot draws one match" in here("compare", several, several, "--plot", tmp_path / "a.png").stderr


def test_a_match_is_exported(videos: Path, tmp_path: Path, here: Here) -> None:
    files = [tmp_path / f"match.{ending}" for ending in ("jsonl", "csv", "edl", "srt")]
    options = [word for file in files for word in ("--export", file)]
    done = here("compare", videos / "query.mp4", videos / "target.mp4", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == [f"written: {file}" for file in files]
    answer = json.loads(files[0].read_text("utf-8"))
    assert answer["verdict"] == "copy"
    assert len(files[1].read_text("utf-8").splitlines()) == 1 + len(answer["segments"])
    assert files[2].read_text("utf-8").startswith("TITLE: query.mp4\n")
    assert "target.mp4" in files[3].read_text("utf-8")
    wrong = here("compare", videos / "query.mp4", videos / "target.mp4", "--export", tmp_path / "match.xyz")
    assert wrong.stderr.startswith(f"visil: {tmp_path / 'match.xyz'}: an export ends in ")


def test_folders_that_hold_nothing_readable(videos: Path, tmp_path: Path, here: Here) -> None:
    (tmp_path / "bad.mp4").write_text("not a film")
    done = here("compare", tmp_path, videos / "other.mp4")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"visil: {tmp_path / 'bad.mp4'}: ")
