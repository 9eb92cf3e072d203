"""``visil demo``: the whole thing on videos it makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.output import stretch

if TYPE_CHECKING:
    from visil.demo import DemoCollection


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the videos and the pictures.")] = Path(
        "demo-output"
    ),
) -> None:
    """Render videos that share edited footage; compare two, then find the duplicates among twelve."""
    _pair(folder)
    _collection(folder)


def _pair(folder: Path) -> None:
    from visil.cli.compare import compare
    from visil.demo import make_pair

    typer.echo(f"rendering two videos into {folder} …")
    pair = make_pair(folder)
    for query, target in pair.truth:
        typer.echo(f"shared by design: {stretch(query)} and {stretch(target)}")
    picture = folder / "match.png"
    typer.echo(f"$ visil compare {pair.query} {pair.target} --plot {picture}")
    compare(str(pair.query), str(pair.target), plot=picture)


def _collection(folder: Path) -> None:
    from visil.cli.add import add
    from visil.cli.duplicates import duplicates
    from visil.demo import make_collection

    videos, index, report = folder / "collection", folder / "collection.visil", folder / "report.html"
    typer.echo(f"\nrendering a collection into {videos} …")
    collection = make_collection(videos)
    _tell_truth(collection)
    typer.echo(f"$ visil add {index} {videos}")
    add(str(index), [str(videos)])
    typer.echo(f"$ visil duplicates {index} --html {report}")
    duplicates(str(index), html=report)


def _tell_truth(collection: DemoCollection) -> None:
    groups = collection.groups
    alone = len(collection.videos) - sum(len(group) for group in groups)
    sizes = ", ".join(str(len(group)) for group in groups)
    typer.echo(
        f"by design: {len(collection.videos)} videos; groups of {sizes} share footage, {alone} share none"
    )
    originals = {next(video for video in collection.videos if video.name in group) for group in groups}
    for shared in collection.truth:
        if shared.query in originals:
            there = f"{shared.target.name} at {stretch(shared.target_span)}"
            typer.echo(f"  {shared.query.name} {stretch(shared.query_span)} is in {there}")
