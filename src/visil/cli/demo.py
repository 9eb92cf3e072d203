"""``visil demo``: the whole thing on videos it makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[Path, typer.Argument(help="Where to put the videos and the picture.")] = Path(
        "demo-output"
    ),
) -> None:
    """Render two videos that share edited footage, compare them, and draw the match."""
    from visil.cli.compare import compare
    from visil.cli.words import clock
    from visil.demo import make_pair

    typer.echo(f"rendering two videos into {folder} …")
    pair = make_pair(folder)
    for query, target in pair.truth:
        typer.echo(
            f"shared by design: {clock(query[0])} – {clock(query[1])} and {clock(target[0])} – {clock(target[1])}"
        )
    picture = folder / "match.png"
    typer.echo(f"$ visil compare {pair.query} {pair.target} --plot {picture}")
    compare(str(pair.query), str(pair.target), plot=picture)
