"""``visil add INDEX PATH...``: files and folders into a collection."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from visil.cli.file_selection import (
    Exclude,
    FollowLinks,
    Include,
    MaxDuration,
    MinDuration,
    MinSize,
    passed_over_line,
    selection_of,
)
from visil.cli.options import (
    AsJson,
    CodesName,
    Device,
    GpusPerActor,
    RayAddress,
    Workers,
    begin_on_gpu,
    choose_device,
    joined,
)
from visil.cli.output import MOST_FAILURES, SOME_FAILED, counted, failures_as_json, print_json, say
from visil.cli.progress import add_progress
from visil.errors import UsageError, printable

if TYPE_CHECKING:
    from visil.collection.intake import AddReport
    from visil.collection.presence import Gone


class DecoderKind(StrEnum):
    """``visil.video.decoders.DecoderName``."""

    cpu = "cpu"
    nvdec = "nvdec"
    auto = "auto"


class EmbeddingKind(StrEnum):
    """``visil.kernels.precision.Embedding``."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"


class SamplingKind(StrEnum):
    """What is looked at."""

    even = "even"
    keyframes = "keyframes"


def add(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX", help="The collection's folder or URL; a new one is made if there is none."
        ),
    ],
    paths: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...", help="Video files and folders; - reads a list from standard input."
        ),
    ] = None,
    list_file: Annotated[
        Path | None, typer.Option("--list", metavar="FILE", help="A text file of paths, one a line.")
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="Mark as originals that others are compared against.")
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Then forget files of these folders that are not there any more."),
    ] = False,
    include: Include = None,
    exclude: Exclude = None,
    min_size: MinSize = None,
    min_duration: MinDuration = None,
    max_duration: MaxDuration = None,
    follow_links: FollowLinks = False,
    workers: Workers = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help="For a new collection: its model.")
    ] = None,
    codes: Annotated[
        CodesName | None,
        typer.Option(help="For a new collection: how its features are kept; fp16 by default."),
    ] = None,
    fast_decode: Annotated[
        bool,
        typer.Option(
            "--fast-decode", help="Twice as fast to decode; samples up to some tenths of a second early."
        ),
    ] = False,
    sampling: Annotated[
        SamplingKind,
        typer.Option(
            help="Frames to embed: one a second, or the key frame nearest to each second, many times faster."
        ),
    ] = SamplingKind.even,
    decoder: Annotated[
        DecoderKind,
        typer.Option(envvar="VISIL_DECODER", help="The decoder: cpu, nvdec (a GPU) or auto."),
    ] = DecoderKind.cpu,
    embedding: Annotated[
        EmbeddingKind | None,
        typer.Option(
            envvar="VISIL_EMBEDDING",
            help="Arithmetic to embed in on a processor: fp32, bf16 or auto, the faster one; auto if not given.",
        ),
    ] = None,
    ray: RayAddress = None,
    gpus_per_actor: GpusPerActor = 0.0,
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Add files and folders. Run it again to resume, or to take in new and changed files.

    Exit status 3 where some files could not be taken, 1 where none could.
    """
    choose_device(device)
    if embedding is not None:
        os.environ["VISIL_EMBEDDING"] = embedding.value
    from visil.collection.discover import read_list, read_list_file
    from visil.collection.index import Index
    from visil.collection.local_engine import Decode, decode_fast, decode_keyframes
    from visil.model.code_kinds import checked
    from visil.video.decoders import decode_with

    selection = selection_of(include, exclude, min_size, min_duration, max_duration, follow_links)
    wanted: list[str] = []
    for path in paths or []:
        wanted += read_list(sys.stdin.buffer.read()) if path == "-" else [path]
    if list_file is not None:
        wanted += read_list_file(list_file)
    if not wanted:
        raise UsageError("nothing to add: name files or folders, or give a --list")
    if fast_decode and ray is not None:
        raise UsageError("--fast-decode and --ray do not go together: leave one out")
    if decoder == DecoderKind.nvdec and (fast_decode or ray is not None):
        raise UsageError("--decoder nvdec goes with neither --fast-decode nor --ray: leave one out")
    decode: Decode | None = decode_fast if fast_decode else decode_with(decoder.value)
    if sampling == SamplingKind.keyframes:
        if fast_decode or ray is not None or decoder == DecoderKind.nvdec:
            raise UsageError(
                "--sampling keyframes goes with none of --fast-decode, --decoder nvdec and --ray: leave them out"
            )
        decode = decode_keyframes
    kind = None if codes is None else checked(codes.value)
    if ray is None:
        begin_on_gpu()
    with (
        joined(ray, workers=workers, gpus=gpus_per_actor) as cluster,
        Index(index, model=model, codes=kind) as collection,
        add_progress(quiet=as_json) as progress,
    ):
        engine = None
        if cluster is not None:
            from visil.cluster.ray_extraction import over

            engine = over(cluster, workers=workers, gpus_per_actor=gpus_per_actor)
        report = collection.add(
            wanted,
            workers=workers,
            selection=selection,
            reference=reference,
            progress=progress,
            decode=decode,
            engine=engine,
        )
        gone = None
        if prune:
            gone = collection.prune([path for path in wanted if os.path.isdir(path)], dry_run=False)
    _tell(index, report, gone, as_json)
    if report.failed:
        raise typer.Exit(SOME_FAILED if report.added or report.unchanged else 1)


def _tell(index: str, report: AddReport, gone: Gone | None, as_json: bool) -> None:
    if as_json:
        failed = failures_as_json(report.failed)
        known: dict[str, object] = {"added": report.added, "unchanged": report.unchanged, "failed": failed}
        if report.passed_over:
            known["passed_over"] = failures_as_json(report.passed_over)
        if gone is not None:
            known["pruned"] = gone.files
        print_json(known)
        return
    say(f"{report.added} added, {report.unchanged} unchanged, {len(report.failed)} failed")
    for path, reason in report.failed[:MOST_FAILURES]:
        typer.echo(f"  {printable(path)}: {reason}")
    if len(report.failed) > MOST_FAILURES:
        typer.echo(f"  and {len(report.failed) - MOST_FAILURES} more: visil info {index} --failed")
    if report.passed_over:
        say(passed_over_line(report.passed_over))
    if gone is not None:
        say(f"{counted(len(gone.files), 'file')} forgotten: gone from disk")
        if gone.folders:
            say(f"{len(gone.folders)} whose folders are gone are kept: visil prune {index} --gone-folders")
