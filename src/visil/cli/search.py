"""``visil search INDEX QUERY...``: what in a collection shares footage with a video."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.options import (
    AsJson,
    Device,
    Exports,
    Location,
    Precision,
    RayAddress,
    Verdicts,
    Workers,
    choose_device,
    opened_over,
)
from visil.cli.output import (
    SOME_FAILED,
    check_exports,
    counted,
    print_json,
    say_written,
    stretch,
    write_exports,
)
from visil.cli.progress import count_progress
from visil.errors import FileError, VisilError, printable

if TYPE_CHECKING:
    from visil.collection.index import Index
    from visil.collection.search import Hit, Hits
    from visil.report.relations import Relation

MANY = 8
"""Queries from which workers are started beside a GPU."""


def search(
    index: Location,
    queries: Annotated[
        list[str],
        typer.Argument(
            metavar="QUERY...", help="Videos, folders of videos, folders of images, or ids of the collection."
        ),
    ],
    k: Annotated[int, typer.Option("-k", min=1, help="Hits for each query, at the most.")] = 10,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Compare with every video, not only with likely ones.")
    ] = False,
    first_look: Annotated[
        int | None,
        typer.Option(
            "--first-look",
            min=1,
            metavar="N",
            help="Look at every video by the signs of its vectors, and compare with the N most alike.",
        ),
    ] = None,
    min_confidence: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Leave out hits of lower confidence.")
    ] = 0.0,
    verdict: Verdicts = None,
    refine: Annotated[
        bool,
        typer.Option("--refine", help="Look at likely hits four times a second: surer, and slower."),
    ] = False,
    export: Exports = None,
    workers: Workers = None,
    ray: RayAddress = None,
    device: Device = None,
    precision: Precision = None,
    as_json: AsJson = False,
) -> None:
    """What in INDEX shares footage with each QUERY, and where. A folder of videos is a query for each of them.

    Of several queries, one that cannot be read is named and passed over: exit status 3 then, 1 where all are such.
    """
    choose_device(device, precision)
    from visil.collection.discover import videos_named

    named = [video for query in queries for video in videos_named(query)]
    verdicts = {one.value for one in verdict} if verdict else None
    check_exports(export, len(named))
    answers: list[dict[str, object]] = []
    failed: list[str] = []
    relations: list[Relation] = []
    with opened_over(index, ray, many=len(named) >= MANY) as collection:
        if first_look is not None:
            with count_progress("videos read for the first look", quiet=as_json) as progress:
                collection.prepare_first_look(progress)
        found = collection.search_many(
            *(named, k),
            workers=workers,
            exhaustive=exhaustive,
            first_look=first_look,
            min_confidence=min_confidence,
            verdicts=verdicts,
            refine=refine,
        )
        for query, hits in zip(named, found, strict=True):
            if isinstance(hits, VisilError):
                if len(named) == 1:
                    raise hits
                failed.append(query)
                reason = hits.reason if isinstance(hits, FileError) else str(hits)
                answers.append({"query": query, "hits": [], "error": reason})
                typer.echo(f"visil: {hits}", err=True)
                continue
            told = {"note": hits.note} if hits.note else {}
            answers.append({"query": query, "hits": [hit.to_dict() for hit in hits], **told})
            if export:
                relations += _relations(collection, query, hits)
            if not as_json:
                _tell(query, hits, all_of_them=verdicts is not None)
    write_exports(relations, export)
    if as_json:
        print_json(answers[0] if named == queries and len(queries) == 1 else answers)
    else:
        say_written(export or ())
    if failed:
        raise typer.Exit(1 if len(failed) == len(named) else SOME_FAILED)


def _relations(collection: Index, query: str, hits: list[Hit]) -> list[Relation]:
    from visil.report.relations import Relation

    path = query if os.path.exists(query) else collection.video(query).path
    return [Relation.of_hit(path, hit) for hit in hits]


def _tell(query: str, hits: Hits, *, all_of_them: bool) -> None:
    related = [hit for hit in hits if all_of_them or hit.shares]
    told = (
        counted(len(hits), "hit")
        if all_of_them
        else f"{len(related)} of the {len(hits)} nearest share footage"
    )
    typer.echo(f"{printable(query)}: {told}{f'; {hits.note}' if hits.note else ''}")
    for hit in related:
        notes = "".join(
            f"  ({note})" for note in (hit.note, "the file is gone" if hit.missing else "") if note
        )
        typer.echo(f"  {hit.confidence:.3f}  {hit.verdict:<8} {printable(hit.path)}{notes}")
        for segment in hit.segments[:5]:
            way = ", backwards" if segment.reversed else ""
            typer.echo(f"         {stretch(segment.query)} is {stretch(segment.target)} there{way}")
