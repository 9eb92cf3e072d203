"""Settings of every test, and the order in which files of tests are handed out to processes."""

import functools
import gc
import os
from collections import Counter

import pytest
from hypothesis import settings
from xdist.remote import Producer

import preloaded
from handing_out import ByRoom
from visil.machine.processes import python

# Nothing of what tests import is garbage: until all are collected it is not looked for, and then never looked through.
gc.disable()

WAITING = ("test_ray_cluster.py", "test_page.py")
"""Files whose tests mostly wait, for Ray's nodes and for a browser: they begin first, and others run beside them."""

LONG = (
    *(
        "test_extraction.py",
        "test_reproduce.py",
        "test_demo_collection.py",
        "test_onnx.py",
        "test_kernels_compile.py",
    ),
    *(
        "test_cli.py",
        "test_cli_train.py",
        "test_trainer.py",
        "test_hostile.py",
        "test_official.py",
        "test_frames.py",
    ),
)
"""Files that compute for ten seconds or more, and the first of a room that does for minutes: next, so that none of them
is left for the end."""

# What the machine's user has set is nothing to a test.
os.environ["VISIL_CONFIG"] = ""
# The same features on every processor.
os.environ["VISIL_EMBEDDING"] = "fp32"

# The same examples in every run, so that a run says something about the change it tests. To look for new ones:
# VISIL_EXAMPLES=new make test
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("new", deadline=None)
settings.load_profile(os.environ.get("VISIL_EXAMPLES", "same"))


@pytest.fixture(autouse=True)
def chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command that runs in a test's own process chooses for itself holds for that test alone."""
    for name in ("VISIL_DEVICE", "VISIL_PRECISION"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("VISIL_EMBEDDING", os.environ["VISIL_EMBEDDING"])
    tests = os.getpid()
    monkeypatch.setattr(
        "visil.machine.ours.is_ours", lambda: os.getpid() != tests
    )  # it is not the command's alone


@pytest.fixture
def fresh_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of how processes are started: none is :mod:`preloaded`."""
    for place in preloaded.PYTHONS:
        monkeypatch.setattr(place, python)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait first, then long ones, then those with the most tests."""
    tests = Counter(item.path for item in items)
    first = {name: place for place, name in enumerate((*WAITING, *LONG))}
    items.sort(key=lambda item: (first.get(item.path.name, len(first)), -tests[item.path], item.path))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByRoom | None:
    """As ``--dist loadfile`` hands out files, nearly."""
    return ByRoom(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where tests are run, which is not where they are handed out."""
    gc.freeze()
    gc.enable()
    import torch
    import typer.testing

    # Many small computations: threads would spend their time waiting for each other.
    torch.set_num_threads(1)
    # A process that runs one command describes all of them to typer once; tests run hundreds.
    typer.main.get_command = functools.cache(typer.main.get_command)
    typer.testing._get_command = typer.main.get_command  # type: ignore[attr-defined]
    if preloaded.AVAILABLE and not session.config.option.collectonly:
        preloaded.begin()


def pytest_sessionfinish() -> None:
    """One last look for what was not closed; a process that ends need not look through everything again."""
    gc.collect()
    gc.freeze()
