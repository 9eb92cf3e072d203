"""Bars on a terminal, nothing elsewhere; Ctrl-C that waits for the step."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading

import pytest

from visil.progress import video_progress
from visil.training.interrupt import stop_on_interrupt
from visil.training.progress import step_progress
from visil.training.trainer import Step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with step_progress() as tell:
        assert tell is not None
        tell(Step(1, 3, 4, 12, 0.25, 7.5, 0.125))
        tell(Step(2, 3, 12, 12, 0.125, 8.0, 0.0))
    with video_progress("reading") as show:
        assert show is not None
        show(2, 5, "/videos/b.mp4")
    shown = terminal.getvalue()
    for part in ("epoch 2 of 3", "24/36", "loss 0.1250, 8.0/s, data 0%", "reading", "2/5", "b.mp4"):
        assert part in shown


@pytest.mark.parametrize("quiet", [True, False])
def test_elsewhere_nothing_is_shown(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal() if quiet else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with step_progress(quiet) as tell, video_progress("reading", quiet) as show:
        assert tell is None
        assert show is None
    assert screen.getvalue() == ""


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
