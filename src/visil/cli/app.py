"""The command line as a whole: commands, version, and how errors reach people."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import Annotated, NoReturn

import typer

from visil.cli import (
    add,
    apply,
    bench,
    collection,
    compare,
    config,
    demo,
    duplicates,
    evaluate,
    models,
    report,
    search,
    serve,
    shards,
    tables,
    train,
    watch,
)
from visil.cli.commands import Commands
from visil.cli.verbosity import logged_to_console
from visil.errors import VisilError
from visil.machine.heap import bound_arenas
from visil.machine.ours import be_ours

ASLEEP = {
    "OMP_WAIT_POLICY": "PASSIVE",
    "OPENBLAS_THREAD_TIMEOUT": "4",  # the logarithm of the cycles; the least there is
}
"""Read once by OpenMP and OpenBLAS, when they are loaded, by our worker processes too: their threads go on looking for
work for some time when they have none, and with sixteen of them a command that computes for a tenth of a second kept
all cores busy for its whole life."""

app = Commands(
    name="visil",
    help="How two videos relate: which share footage, where, and how sure it is.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("compare")(compare.compare)
app.command("add")(add.add)
app.command("watch")(watch.watch)
app.command("search")(search.search)
app.command("duplicates")(duplicates.duplicates)
app.command("apply")(apply.apply)
app.command("report")(report.report)
app.command("info")(collection.info)
app.command("verify")(collection.verify)
app.command("remove")(collection.remove)
app.command("prune")(collection.prune)
app.command("judge")(collection.judge)
app.command("config")(config.config)
app.command("serve")(serve.serve)
app.command("train")(train.train)
app.command("fit-whitening")(train.fit_whitening)
app.command("evaluate")(evaluate.evaluate)
app.command("tables")(tables.tables)
app.command("bench")(bench.bench)
app.command("demo")(demo.demo)
app.add_typer(models.app, name="models")
app.add_typer(shards.app, name="shards")


def _version(value: bool) -> None:
    if value:
        from visil import __version__

        typer.echo(f"visil {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001  its callback does it all
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""
    bound_arenas()
    for name, value in ASLEEP.items():  # what the user says holds
        os.environ.setdefault(name, value)


def main() -> NoReturn:
    """Run; every expected failure is one line on standard error and exit status 1."""
    be_ours()
    atexit.register(gc.freeze)  # nobody looks for garbage in a process that ends: a third of a second
    try:
        with logged_to_console():
            app()
    except SystemExit as end:
        if end.code == 128 + signal.SIGINT:  # Typer catches Ctrl-C itself
            print("visil: stopped", file=sys.stderr)
        raise
    except VisilError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        print("visil: stopped", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:  # `visil … | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _fail("out of memory")
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    sys.exit(0)


def _fail(message: str) -> NoReturn:
    line = " ".join(message.splitlines())
    print(f"visil: {line}", file=sys.stderr)
    sys.exit(1)
