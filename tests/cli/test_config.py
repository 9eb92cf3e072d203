"""``visil.toml``: which file counts, what may stand in it, and what is said of what may not."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import visil
from synthetic import moving_scene, write_video

from .conftest import Here


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection of one video."""
    folder = tmp_path_factory.mktemp("made")
    write_video(folder / "film.mp4", moving_scene(1, 3, 4, (96, 128)), 4)
    with visil.Index(folder / "all.visil") as index:
        index.add(folder / "film.mp4")
    return folder


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file, empty."""
    path = tmp_path / "own" / "visil.toml"
    path.parent.mkdir()
    path.touch()
    monkeypatch.setenv("VISIL_CONFIG", os.fspath(path))
    monkeypatch.delenv("VISIL_EMBEDDING")
    return path


@pytest.fixture
def beside(made: Path) -> Path:
    """The file beside the collection, empty."""
    path = made / "visil.toml"
    path.write_text("")
    return path


def held(here: Here, made: Path, command: str) -> dict[str, object]:
    """What is set for a command on the collection."""
    told = json.loads(here("config", made / "all.visil", "--json").stdout)
    return {one["option"]: one["value"] for one in told["settings"] if one["command"] == command}


def test_an_option_in_the_users_file_holds(here: Here, made: Path, own: Path) -> None:
    own.write_text("[info]\njson = true\n")
    assert json.loads(here("info", made / "all.visil").stdout)["videos"] == 1
    assert here("info", made / "all.visil", "--no-json").stdout.startswith("1 videos")
    own.write_text("json = true\n")
    assert json.loads(here("verify", made / "all.visil").stdout) == {"problems": []}


def test_collection_beats_user_and_a_commands_own_table_what_is_for_all(
    here: Here, made: Path, own: Path, beside: Path
) -> None:
    own.write_text('k = 5\ndevice = "auto"\n[search]\nk = 6\n')
    assert held(here, made, "search")["k"] == 6
    beside.write_text("k = 7\n[add]\nexclude = ['*.tmp.*', 'x/']\nworkers = 2\nreference = true\n")
    assert held(here, made, "search")["k"] == 7
    assert held(here, made, "search")["device"] == "auto"
    assert held(here, made, "add") == {
        "device": "auto",
        "exclude": ["*.tmp.*", "x/"],
        "reference": True,
        "workers": 2,
    }
    assert held(here, made, "info") == {}


def test_the_command_line_and_variables_beat_files(
    here: Here, made: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own.write_text('[add]\ndecoder = "auto"\nmodel = "nowhere"\nworkers = 2\n')
    assert "nowhere" in here("add", made / "new.visil", made / "film.mp4").stderr
    assert here("add", made / "new.visil", made / "film.mp4", "--model", "default").returncode == 0
    assert held(here, made, "add")["decoder"] == "auto"
    monkeypatch.setenv("VISIL_DECODER", "cpu")
    assert held(here, made, "add")["decoder"] == "cpu"
    assert here("config").stdout.splitlines()[1] == 'decoder = "cpu"  for add, from VISIL_DECODER'


def test_what_is_typed_beats_its_opposite_in_a_file(here: Here, made: Path, own: Path) -> None:
    own.write_text("verbose = 1")
    assert here("info", made / "all.visil", "-q").returncode == 0
    own.write_text("quiet = true")
    assert here("info", made / "all.visil", "-v").returncode == 0
    own.write_text("quiet = true\nverbose = 1")
    assert "do not go together" in here("info", made / "all.visil").stderr


def test_what_holds_is_shown_with_where_it_comes_from(
    here: Here, made: Path, own: Path, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here("config").stdout.splitlines() == [str(own), "nothing is set"]
    own.write_text(
        'quiet = true\n[search]\nk = 3\n[models.export]\nonnx = true\n[serve]\ntoken = "secret one"\n'
    )
    beside.write_text("[add]\nexclude = ['a']\n[shards.create]\nshards = 4\n")
    shown = here("config", made / "all.visil")
    assert shown.stdout.splitlines() == [
        str(beside),
        str(own),
        f'exclude = ["a"]  for add, from {beside}',
        f"k = 3  for search, from {own}",
        f"onnx = true  for models export, from {own}",
        f"quiet = true  for every command that has it, from {own}",
        f"shards = 4  for shards create, from {beside}",
        f'token = "…"  for serve, from {own}',
    ]
    own.unlink()
    monkeypatch.setenv("VISIL_CONFIG", "")
    assert here("config", made / "all.visil").stdout == "nothing is set\n"


def test_the_users_folder_is_where_the_system_has_it(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISIL_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", os.fspath(tmp_path))
    (file,) = json.loads(here("config", "--json").stdout)["files"]
    assert file == {"path": os.fspath(tmp_path / "visil" / "visil.toml"), "exists": False}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kk = 3", "kk: there is no such option; k is one"),
        ("[compare]\nno-refine = true", "compare.no-refine: there is no such option; write refine = false"),
        ("min_confidence = 0.3", "min_confidence: there is no such option; min-confidence is one"),
        ("[serach]\nk = 3", "serach: there is no such command; search is one"),
        ("[search]\nframes = 3", "search.frames: there is no such option"),
        ("[models.list.x]\na = 1", "models.list.x: there is no such command"),
        ("[search]\nexhaustive = 1", "search.exhaustive: must be true or false"),
        ("[search]\nk = true", "search.k: must be text or a number"),
        ("[search]\nk = [1, 2]", "search.k: must be text or a number"),
        ("[add]\nexclude = [['a']]", "add.exclude: must be text or a number, or a list of them"),
        ("[search]\nk = 'many'", "search.k: "),
        ("[search]\nk = 0", "search.k: "),
        ("k = ", "is no TOML: "),
    ],
)
def test_a_wrong_key_or_value_is_one_line_with_file_and_key(
    here: Here, made: Path, own: Path, text: str, said: str
) -> None:
    own.write_text(text)
    done = here("search", made / "all.visil", made / "film.mp4")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"visil: {own}: {said}")


def test_a_value_that_is_not_used_is_not_complained_about(here: Here, made: Path, own: Path) -> None:
    own.write_text("[search]\nk = 'many'")
    assert here("search", made / "all.visil", made / "film.mp4", "-k", "2").returncode == 0


def test_files_that_cannot_be_read(here: Here, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_bytes(b"k = '\xff'")
    assert here("config").stderr == f"visil: {own}: cannot be read: it is not UTF-8\n"
    monkeypatch.setenv("VISIL_CONFIG", f"{own}.gone")
    assert here("config").stderr == f"visil: {own}.gone: no such file, which VISIL_CONFIG names\n"


def test_paths_begin_where_the_file_lies(here: Here, made: Path, own: Path, beside: Path) -> None:
    own.write_text("log-file = 'own.log'")
    assert here("info", made / "all.visil").returncode == 0
    assert (own.parent / "own.log").exists()
    beside.write_text("log-file = 'logs.txt'")
    assert here("info", made / "all.visil").returncode == 0
    assert (made / "logs.txt").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ray = 'stranger:6379'", "ray: only your own file, or the command line, may set this"),
        ("[serve]\nhost = '0.0.0.0'", "serve.host: only your own file"),
        ("[serve]\ntoken = 'known to me'", "serve.token: only your own file"),
        ("log-file = '../elsewhere.log'", "log-file: leads out of its folder"),
        ("log-file = '/elsewhere.log'", "log-file: leads out of its folder"),
        ("[serve]\nroot = ['/']", "serve.root: leads out of its folder"),
    ],
)
def test_a_file_that_came_with_a_collection_may_not_reach_out(
    here: Here, made: Path, own: Path, beside: Path, text: str, said: str
) -> None:
    beside.write_text(text)
    done = here("info", made / "all.visil")
    assert done.returncode == 1
    assert done.stderr.startswith(f"visil: {beside}: {said}")
    beside.write_text("")
    own.write_text(text)
    assert here("config", made / "all.visil").returncode == 0
    own.write_text("")


def test_every_flag_has_a_no(here: Here, made: Path) -> None:
    assert here("info", made / "all.visil", "--json", "--no-json").stdout.startswith("1 videos")
    assert "--no-json" not in here("info", "--help").stdout
    assert here("info", made / "all.visil", "--no-nonsense").returncode == 2
