"""``visil apply INDEX PLAN``: carry out a plan that someone has reviewed, and undo it."""

from __future__ import annotations

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import AsJson
from visil.cli.output import SOME_FAILED, counted, failures_as_json, print_json, say
from visil.cli.progress import count_progress
from visil.errors import UsageError, printable

if TYPE_CHECKING:
    from visil.collection.apply import Applied, Checked, Step
    from visil.collection.undo import Undone


class HowName(StrEnum):
    """``visil.collection.apply.How``."""

    trash = "trash"
    move = "move"
    hardlink = "hardlink"
    symlink = "symlink"


def apply(
    index: Annotated[
        str | None, typer.Argument(metavar="INDEX", help="The collection that the plan was made for.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="PLAN", help="The file of `visil duplicates --plan` or --json, which you reviewed."
        ),
    ] = None,
    how: Annotated[
        HowName,
        typer.Option(
            help="How files go that the plan drops: into the trash, into another folder, or a link to the "
            "file that holds their footage."
        ),
    ] = HowName.trash,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="The folder for --how move.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this, only say what would be done.")
    ] = False,
    undo_log: Annotated[
        Path | None,
        typer.Option("--undo-log", metavar="FILE", help="The log to undo it from; PLAN.undo if not given."),
    ] = None,
    undo: Annotated[
        Path | None,
        typer.Option("--undo", metavar="LOG", help="Bring back what an earlier run did, by its log."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let the files go that a plan drops, each after a look at the file that is kept. Without --yes nothing is done.

    The whole plan is refused while anything in it is uncertain: a file that has changed, is missing or is not in the
    collection, or a file to keep that the plan drops as well.
    """
    if undo is not None:
        if plan is not None or index is not None:
            raise UsageError("--undo takes the log alone: it knows its collection")
        _undo(undo, yes, as_json)
        return
    if index is None or plan is None:
        raise UsageError("name the collection and the plan, or --undo LOG")
    if (how is HowName.move) != (to is not None):
        raise UsageError("--how move needs --to FOLDER, and --to goes with nothing else")
    from visil.collection.apply import apply as carry_out
    from visil.collection.apply import check
    from visil.collection.index import Index
    from visil.collection.plan_file import read_plan

    rows = read_plan(plan)
    with Index(index, create=False) as collection:
        checked = check(collection, rows, how.value)
        if checked.uncertain or not yes:
            _tell_check(checked, how.value, as_json)
            raise typer.Exit(1 if checked.uncertain else 0)
        log = _free(Path(f"{plan}.undo") if undo_log is None else undo_log, undo_log is not None)
        with count_progress("files", quiet=as_json) as count:

            def progress(_: Step, done: int, total: int) -> None:
                if count is not None:
                    count(done, total)

            applied = carry_out(collection, checked, log, how=how.value, to=to, progress=progress)
    _tell(checked, applied, log, as_json)
    if applied.failed:
        raise typer.Exit(1)


def _free(log: Path, chosen: bool) -> Path:
    """A name that is free: the one that was asked for, or the next of those that are not."""
    if chosen:
        return log
    number = 1
    while log.exists():
        number += 1
        log = log.with_name(f"{log.name.rstrip('0123456789').rstrip('-')}-{number}")
    return log


def _tell_check(checked: Checked, how: str, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "done": False,
                "how": how,
                "files": [_as_json(step) for step in checked.steps],
                "gone": checked.done,
                "uncertain": failures_as_json(checked.uncertain),
            }
        )
        return
    if not checked.uncertain:
        for step in checked.steps:
            typer.echo(f"{how} {printable(step.path)}  (its footage is in {printable(step.keeper)})")
    for path, reason in checked.uncertain:
        typer.echo(f"visil: {printable(path)}: {reason}", err=True)
    if checked.uncertain:
        typer.echo(
            "visil: the plan is uncertain, and nothing was done: mend these rows, or set them to keep",
            err=True,
        )
        return
    gone = f", {len(checked.done)} done already" if checked.done else ""
    megabytes = sum(step.bytes for step in checked.steps) / 1e6
    typer.echo(
        f"{counted(len(checked.steps), 'file')}, {megabytes:.1f} MB{gone}; nothing was done: add --yes to do it"
    )


def _tell(checked: Checked, applied: Applied, log: Path, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "done": not applied.failed,
                "files": [_as_json(step) for step in applied.steps],
                "gone": checked.done,
                "failed": failures_as_json(applied.failed),
                "undo_log": str(log),
            }
        )
        return
    megabytes = sum(step.bytes for step in applied.steps) / 1e6
    done = f", {len(checked.done)} done already" if checked.done else ""
    typer.echo(f"{len(applied.steps)} of {counted(len(checked.steps), 'file')}, {megabytes:.1f} MB{done}")
    for path, reason in applied.failed:
        typer.echo(f"visil: {printable(path)}: {reason}; the plan ended there", err=True)
    if applied.steps:
        say(f"to undo it: visil apply --undo {shlex.quote(str(log))}")


def _as_json(step: Step) -> dict[str, object]:
    return {"path": step.path, "footage_in": step.keeper, "bytes": step.bytes, "id": step.video}


def _undo(log: Path, yes: bool, as_json: bool) -> None:
    from visil.collection.index import Index
    from visil.collection.undo import read_log, undo

    told = read_log(log)
    with Index(told.index, create=False) as collection:
        result = undo(told, collection, only_look=not yes)
    _tell_undone(result, yes, as_json)
    if result.failed:
        raise typer.Exit(SOME_FAILED if result.back else 1)


def _tell_undone(result: Undone, yes: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "done": yes,
                "back": result.back,
                "there": result.there,
                "failed": failures_as_json(result.failed),
                "add_again": result.to_add,
            }
        )
        return
    for path in result.back:
        typer.echo(f"{'back' if yes else 'would come back'}: {printable(path)}")
    for path, reason in result.failed:
        typer.echo(f"visil: {printable(path)}: {reason}", err=True)
    already = f", {len(result.there)} there already" if result.there else ""
    typer.echo(
        f"{counted(len(result.back), 'file')}{already}"
        + ("" if yes else "; nothing was done: add --yes to do it")
    )
    if yes and result.to_add:
        say(f"{counted(len(result.to_add), 'file')} to add to the collection again with visil add:")
        for path in result.to_add:
            say(f"  {printable(path)}")
