"""``visil info``, ``verify``, ``remove``, ``prune``, ``judge``: the state of a collection."""

from __future__ import annotations

from typing import Annotated

import typer

from visil.cli.options import AsJson, Location
from visil.cli.output import counted, print_json, say
from visil.errors import UsageError, printable


def info(
    index: Location,
    failed: Annotated[bool, typer.Option("--failed", help="List the files that could not be read.")] = False,
    as_json: AsJson = False,
) -> None:
    """How many videos, frames and bytes; which model; how features are kept; what could not be read."""
    from visil.collection.index import Index

    with Index(index, create=False) as collection:
        state = collection.info()
    if as_json:
        print_json(state.to_dict())
    elif failed:
        for failure in state.failed:
            typer.echo(f"{printable(failure.path)}: {failure.reason}")
    else:
        typer.echo(f"{state.videos} videos, {state.frames} frames, {state.hours:.2f} hours")
        made = "" if state.embedding is None else f", embedded in {state.embedding}"
        typer.echo(
            f"{state.bytes / 1e6:.1f} MB on disk, model {state.model}{made}, features as {state.codes}"
        )
        if state.failed:
            typer.echo(f"{counted(len(state.failed), 'file')} could not be read: visil info {index} --failed")


def verify(
    index: Location,
    repair: Annotated[
        bool, typer.Option("--repair", help="Take damaged entries out, so that adding makes them anew.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read everything in the collection and name damage; exit status 1 where something is."""
    from visil.collection.index import Index

    with Index(index, create=False) as collection:
        problems = collection.verify(repair=repair)
    if as_json:
        print_json({"problems": [{"what": p.what, "reason": p.reason} for p in problems]})
    else:
        for problem in problems:
            typer.echo(f"{printable(problem.what)}: {problem.reason}")
        typer.echo(counted(len(problems), "problem") if problems else "sound")
        if problems and repair:
            say("taken out; run `visil add` on the same files again")
    if problems and not repair:
        raise typer.Exit(1)


def remove(
    index: Location,
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Ids or paths of videos.")],
) -> None:
    """Take videos out of the collection. The files themselves are never touched."""
    from visil.collection.index import Index

    with Index(index, create=False) as collection:
        say(f"{collection.remove(ids)} removed from the collection")


def prune(
    index: Location,
    gone_folders: Annotated[
        bool,
        typer.Option(
            "--gone-folders",
            help="Also forget files whose whole folder is gone. Make sure first that its disk is mounted.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without this, only say what would be forgotten.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Forget files that are not there any more, and videos that no file holds. Without --yes nothing is changed."""
    from visil.collection.index import Index

    with Index(index, create=False) as collection:
        gone = collection.prune(dry_run=not yes, gone_folders=gone_folders)
    forgotten = [*gone.files, *(gone.folders if gone_folders else ())]
    kept = [] if gone_folders else gone.folders
    if as_json:
        print_json({"done": yes, "forgotten": forgotten, "folder_gone": kept})
        return
    for path in forgotten:
        typer.echo(f"{'forgotten' if yes else 'would be forgotten'}: {printable(path)}")
    for path in kept:
        typer.echo(f"kept, as its whole folder is gone: {printable(path)}")
    if not forgotten:
        say("nothing to forget")
        return
    say(
        f"{counted(len(forgotten), 'file')} {'is' if len(forgotten) == 1 else 'are'} gone"
        + ("" if yes else "; nothing was changed: add --yes to forget them")
    )


def judge(
    index: Location,
    a: Annotated[str, typer.Argument(help="Id or path of a video.")],
    b: Annotated[str, typer.Argument(help="Id or path of another.")],
    verdict: Annotated[str, typer.Argument(help="same, different, or undo.")],
) -> None:
    """Record that two videos are the same or not a match; `duplicates` respects it, also after renames."""
    from visil.collection.index import Index

    with Index(index, create=False) as collection:
        match verdict:
            case "same":
                collection.judge(a, b, "same")
            case "different":
                collection.judge(a, b, "different")
            case "undo":
                collection.judge(a, b, None)
            case _:
                raise UsageError(f"a verdict is same, different or undo, not {verdict!r}")
    say(f"recorded: {verdict}")
