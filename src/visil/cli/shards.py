"""``visil shards``: collections that are cut into several."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from visil.cli.commands import Commands
from visil.cli.options import AsJson, CodesName
from visil.cli.output import print_json, say
from visil.cli.progress import count_progress
from visil.errors import UsageError, printable

app = Commands(help="Collections cut into shards: make, grow, rebalance, list.", no_args_is_help=True)

IndexArgument = Annotated[Path, typer.Argument(metavar="INDEX", help="The sharded collection's folder.")]


@app.command("create")
def create(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="The folder to make.")],
    shards: Annotated[int | None, typer.Option(min=1, help="How many, inside INDEX.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="LOCATION",
            help="A folder or URL for a shard, again for each, instead of --shards.",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="OLD", help="An ordinary collection to take the videos of; it stays."),
    ] = None,
    codes: Annotated[
        CodesName | None, typer.Option(help="How features are kept, as for `visil add`.")
    ] = None,
) -> None:
    """A new sharded collection, empty or with all that another one knows; nothing is embedded again."""
    from visil.collection.shards.create import create as make
    from visil.model.code_kinds import checked

    if (shards is None) == (not at):
        raise UsageError("say how many shards (--shards 4), or where each of them is (--at), not both")
    with count_progress("videos") as progress:
        videos = make(
            index,
            shards or at or [],
            codes=None if codes is None else checked(codes.value),
            source=source,
            progress=progress,
        )
    say(f"{printable(str(index))}: {shards or len(at or [])} shards, {videos} videos")


@app.command("add")
def add(
    index: IndexArgument,
    location: Annotated[
        str,
        typer.Argument(
            metavar="LOCATION", help="A new folder or URL, or a collection that is there already."
        ),
    ],
) -> None:
    """One shard more."""
    from visil.collection.shards.create import add_shard

    name = add_shard(index, location)
    say(f"{name} added; `visil shards rebalance {printable(str(index))}` gives it its part of the videos")


@app.command("rebalance")
def rebalance(index: IndexArgument) -> None:
    """Move every video to the shard that its content belongs to; stopped at any moment, run it again."""
    from visil.collection.shards.rebalance import rebalance as move

    with count_progress("videos") as progress:
        moved = move(index, progress=progress)
    say(f"{moved} videos moved")


@app.command("list")
def list_shards(
    index: IndexArgument,
    as_json: AsJson = False,
) -> None:
    """Each shard with its videos, frames, bytes and location."""
    from visil.collection.shards.parts import ShardedParts

    with closing(ShardedParts(index)) as parts:
        facts, manifest = parts.facts(measure=True), parts.manifest
        parts.catalogue.order()  # a video in two shards is an error now, not at the next search
    if as_json:
        listed = [
            {
                "name": name,
                "location": one.location,
                "videos": one.videos,
                "frames": one.frames,
                "hours": one.seconds / 3600,
                "bytes": one.bytes,
            }
            for name, one in zip(manifest.names, facts, strict=True)
        ]
        print_json({"shards": listed, "moving": manifest.moving, **manifest.facts})
        return
    for name, one in zip(manifest.names, facts, strict=True):
        size = f"{one.videos:8} videos {one.frames:10} frames {one.bytes / 1e6:10.1f} MB"
        typer.echo(f"{name} {size}  {printable(one.location)}")
    if manifest.moving:
        typer.echo(f"a rebalance was cut short: `visil shards rebalance {printable(str(index))}` finishes it")
