"""Bars on a terminal, nothing elsewhere; Ctrl-C that waits for the step."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading

import pytest

from visil.cli.progress import training_progress
from visil.training.run import Reading
from visil.training.trainer import Step, stop_on_interrupt


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with training_progress() as report:
        report("left out: c.mp4: not a video")
        report(Reading("reading", 2, 5, "/videos/b.mp4"))
        report(Step("frames", 1, 1, 20, 40, {"loss": 0.5, "accuracy": 0.75}, 90.0, 0.25))
        report(Step("videos", 1, 3, 4, 12, {"loss": 0.25}, 7.5, 0.125))
        report(Step("videos", 2, 3, 12, 12, {"loss": 0.125}, 8.0, 0.0))
    shown = terminal.getvalue()
    for part in (
        *("left out: c.mp4: not a video", "reading", "2/5", "b.mp4"),
        *("20/40", "steps, loss 0.500, found 75%, 90 pairs/s, data 25%"),
        *("epoch 2 of 3", "24/36", "triplets, loss 0.1250, 8.0/s, data 0%"),
    ):
        assert part in shown


@pytest.mark.parametrize("quiet", [True, False])
def test_elsewhere_only_lines_are_shown(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal() if quiet else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with training_progress(quiet) as report:
        report(Reading("reading", 2, 5, "/videos/b.mp4"))
        report(Step("videos", 1, 3, 4, 12, {"loss": 0.25}, 7.5, 0.125))
        report("3 videos to learn from, 2 to validate on")
    assert screen.getvalue() == "3 videos to learn from, 2 to validate on\n"


def test_the_first_interrupt_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT)
    with stop_on_interrupt() as stop:
        assert not stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_may_train_too() -> None:
    answers: list[bool] = []

    def work() -> None:
        with stop_on_interrupt() as stop:
            answers.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]
