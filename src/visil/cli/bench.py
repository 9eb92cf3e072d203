"""``visil bench``: how fast this machine is, from video file to score, against the plain formulas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from visil.cli.options import check_folder
from visil.cli.output import print_json
from visil.cli.verbosity import is_quiet

if TYPE_CHECKING:
    from rich.table import Table


def bench(
    only: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SECTION...", help="Parts of names of sections, or steps of --end-to-end; by default all."
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu or gpu alone; both where there are both.")] = None,
    json_out: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Keep the result as JSON.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE", help="Draw the result: time of a pair, speeds.")
    ] = None,
    end_to_end: Annotated[
        Path | None,
        typer.Option(
            "--end-to-end",
            metavar="FOLDER",
            help="Measure the commands instead, on the videos of a folder: decoding alone, add, search and "
            "duplicates by 1, 2, 4, ... workers.",
        ),
    ] = None,
    workers: Annotated[
        list[int] | None,
        typer.Option(min=1, help="With --end-to-end: a number of workers to try; may be repeated."),
    ] = None,
    show: Annotated[
        Path | None,
        typer.Option("--show", metavar="FILE", help="Print a result that --out kept; measure nothing."),
    ] = None,
) -> None:
    """Measure this machine, each figure beside the plain formula's in the same process; or from files to answers.

    Takes some minutes. Other work on the machine makes all figures smaller; ratios hold better than speeds.
    """
    from rich.console import Console

    from visil.bench.results import measured, read, sections, write

    for file in (out, plot):
        check_folder(file)
    terminal = Console(stderr=True, quiet=is_quiet())
    if show is not None:
        result = read(show)
    elif end_to_end is not None:
        from visil.bench.end_to_end import measured as measured_end_to_end

        with terminal.status("measuring") as status:
            result = measured_end_to_end(
                end_to_end,
                devices=list(sections(device)),
                tell=status.update,
                workers=workers or (),
                only=only or (),
            )
    else:
        with terminal.status("measuring") as status:
            result = measured(
                sections(device),
                lambda where, name: status.update(f"measuring on the {where}: {name}"),
                only or (),
            )
    if out is not None:
        write(result, out)
        terminal.print(f"kept in {out}")
    if plot is not None:
        from visil.bench.picture import draw, draw_end_to_end

        (draw_end_to_end if "end to end" in result else draw)(result, plot)
        terminal.print(f"drawn in {plot}")
    if json_out:
        print_json(result, indent=1)
        return
    console = Console()
    console.print(", ".join(str(value) for value in result["machine"].values() if value))
    for where in ("cpu", "gpu"):
        for name, rows in result.get(where, {}).items():
            console.print(table(f"{where.upper()}: {name}", rows))
    if "end to end" in result:
        found = result["end to end"]
        console.print(
            end_to_end_table(f"{found['videos']} videos, {found['samples']} samples", found["rows"])
        )


def end_to_end_table(title: str, rows: list[dict[str, Any]]) -> Table:
    """The figures of ``--end-to-end``."""
    from rich.table import Table

    made = Table(
        *("", "on", "workers", "seconds", "a second", "of n × one", "of decoding", "MB"),
        title=title,
        title_justify="left",
        show_edge=False,
    )
    for column in made.columns[2:]:
        column.justify = "right"
    for row in rows:
        made.add_row(
            f"{row['what']}, {row['queries']} {'queries' if row['what'] == 'search' else 'videos'}"
            if row["queries"]
            else row["what"],
            row["device"],
            str(row["workers"]),
            f"{row['seconds']:.1f}",
            number((row["samples"] or row["queries"]) / row["seconds"]),
            *("" if row[name] is None else f"{row[name]:.2f}" for name in ("efficiency", "of_decoding")),
            "" if row["memory"] is None else f"{row['memory']:,.0f}",
        )
    return made


def table(title: str, rows: list[dict[str, Any]]) -> Table:
    """Rows as a person reads them."""
    from rich.table import Table

    made = Table("", "here", "plain formula", "times", "", title=title, title_justify="left", show_edge=False)
    for column in made.columns[1:4]:
        column.justify = "right"
    for row in rows:
        plain, ratio = row["plain"], row["ratio"]
        made.add_row(
            row["name"],
            f"{number(row['value'])} {row['unit']}",
            "" if plain is None else number(plain),
            "" if ratio is None else f"{number(ratio)}×",
            row["note"],
        )
    return made


def number(value: float) -> str:
    """Three digits, with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
