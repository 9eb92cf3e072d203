"""``-q``, ``-v`` and ``--log-file``, which every command has: who is told what."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from typer.main import get_command

from synthetic import moving_scene, write_video
from visil.cli.app import app
from visil.cli.verbosity import chosen, is_quiet

from .conftest import Here


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video, a file that is none, and one that no video is named like."""
    folder = tmp_path_factory.mktemp("films")
    write_video(folder / "good.mp4", moving_scene(1, 3, 4, (96, 128)), 4)
    (folder / "bad.mp4").write_text("not a film")
    (folder / "notes.txt").touch()
    return folder


def test_every_command_has_them() -> None:
    def commands(group: object) -> list[object]:
        below = getattr(group, "commands", None)
        return [group] if below is None else [one for inner in below.values() for one in commands(inner)]

    found = commands(get_command(app))
    assert len(found) > 20
    for command in found:
        options = {option for parameter in getattr(command, "params", []) for option in parameter.opts}
        assert {"-q", "--quiet", "-v", "--verbose", "--log-file"} <= options


def test_quiet_leaves_out_summaries_and_names_failures(here: Here, films: Path, tmp_path: Path) -> None:
    done = here("add", tmp_path / "i", films, "-q")
    assert done.stdout.splitlines() == [f"  {films / 'bad.mp4'}: not a video file: it holds text"]
    assert done.stderr == ""
    assert here("info", tmp_path / "i", "--quiet").stdout.startswith("1 videos, 3 frames")
    assert here("remove", tmp_path / "i", films / "good.mp4", "-q").stdout == ""


def test_verbose_names_every_file(here: Here, films: Path, tmp_path: Path) -> None:
    told = sorted(here("add", tmp_path / "i", films, "-v").stderr.splitlines())
    assert told == [
        f"visil: added: {films / 'good.mp4'}: 3 frames of 3.0 s",
        f"visil: failed: {films / 'bad.mp4'}: not a video file: it holds text",
        f"visil: passed over: {films / 'notes.txt'}: not named like a video",
    ]
    again = here("add", tmp_path / "i", films, "--verbose").stderr
    assert f"visil: known: {films / 'good.mp4'}" in again.splitlines()
    assert here("add", tmp_path / "i", films).stderr == ""


def test_the_log_holds_times_files_and_how_it_ended(here: Here, films: Path, tmp_path: Path) -> None:
    log = tmp_path / "visil.log"
    quiet = here("add", tmp_path / "i", films, "-q", "--log-file", log)
    assert quiet.stderr == ""
    first = log.read_text("utf-8").splitlines()
    assert f"INFO visil add {tmp_path / 'i'} {films} -q --log-file {log}" in first[0]
    assert any(line.endswith(f"INFO added: {films / 'good.mp4'}: 3 frames of 3.0 s") for line in first)
    assert "INFO ended with status 3 after" in first[-1]
    failed = here("info", tmp_path / "nowhere", "--log-file", log)
    assert failed.returncode == 1
    assert len(failed.stderr.splitlines()) == 1
    later = log.read_text("utf-8").splitlines()
    assert later[: len(first)] == first
    assert later[-1].endswith(f"ERROR {tmp_path / 'nowhere'}: no collection here; `visil add` makes one")


def test_no_log_holds_a_token(here: Here, tmp_path: Path) -> None:
    log = tmp_path / "visil.log"
    for words in (["--token", "short12"], ["--token=short12"]):
        assert here("serve", tmp_path / "i", *words, "--log-file", log).returncode == 1
    text = log.read_text("utf-8")
    assert "short12" not in text
    assert "--token …" in text
    assert "--token=…" in text


def test_what_cannot_be(here: Here, tmp_path: Path) -> None:
    both = here("info", tmp_path, "-q", "-v")
    assert (both.returncode, both.stderr) == (
        1,
        "visil: --quiet and --verbose do not go together: leave one out\n",
    )
    nowhere = here("info", tmp_path, "--log-file", tmp_path / "no" / "log")
    assert nowhere.returncode == 1
    assert (
        nowhere.stderr == f"visil: {tmp_path / 'no' / 'log'}: cannot be written: no such file or directory\n"
    )


def test_a_log_that_cannot_be_written_any_more_is_one_line(here: Here, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no full disk here")
    done = here("info", tmp_path / "nowhere", "--log-file", "/dev/full")
    assert done.stderr.splitlines() == [
        "visil: /dev/full: the log cannot be written any more",
        f"visil: {tmp_path / 'nowhere'}: no collection here; `visil add` makes one",
    ]


def test_nothing_is_written_over_what_is_named_like_a_video(here: Here, films: Path, tmp_path: Path) -> None:
    film = films / "good.mp4"
    before = film.read_bytes()
    for words in (
        ["info", tmp_path, "--log-file", film],
        ["report", film, film, "--out", film],
        ["compare", film, film, "--plot", film],
        ["duplicates", tmp_path, "--html", film],
        ["duplicates", tmp_path, "--csv", film],
    ):
        done = here(*words)
        assert done.returncode == 1
        assert str(film) in done.stderr
    assert film.read_bytes() == before


def test_warnings_are_lines_unless_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    from visil.cli.verbosity import logged_to_console

    with logged_to_console():
        with chosen():
            logging.getLogger("visil").warning("seen")
            logging.getLogger("visil").info("not seen")
        with chosen(quiet=True):
            assert is_quiet()
            logging.getLogger("visil").warning("not seen")
        with chosen(verbose=1):
            assert not is_quiet()
            logging.getLogger("visil").info("seen as well")
            logging.getLogger("visil").debug("not seen")
            logging.getLogger("another").info("not seen")
        with chosen(verbose=2):
            logging.getLogger("visil").debug("seen at last")
    assert capfd.readouterr().err.splitlines() == [
        "visil: seen",
        "visil: seen as well",
        "visil: seen at last",
    ]
