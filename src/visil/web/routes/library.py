"""Calls that change the library: several videos leave at once, files that failed are tried again, a clip comes in."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from visil.video import VIDEO_SUFFIXES
from visil.web import shapes
from visil.web.jobs import as_dict
from visil.web.library import NO_VIDEO
from visil.web.problems import RESPONSES, Problem
from visil.web.service import Service, caller
from visil.web.state import CLIPS

READ_ONLY = "This collection is read-only."
LONGEST_NAME = 60
"""Letters of a clip's name that are kept."""

Names = Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=1000)]


class RemoveRequest(shapes.Asked):
    """Videos by id, and files that failed by their key."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"videos": [shapes.ID], "files": []}]}
    )

    videos: Names = Field(default_factory=list)
    files: Names = Field(default_factory=list)


class RetryRequest(shapes.Asked):
    """Files that failed, by their key."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"files": [shapes.ID[:16]]}]}
    )

    files: Annotated[Names, Field(min_length=1)]


def routes(service: Service) -> APIRouter:
    """Calls about several videos, failures, and a clip that was sent."""
    router = APIRouter(prefix="/api", responses=RESPONSES, tags=["videos"])

    @router.post("/videos/remove", status_code=204, summary="Take videos and failures out; files stay")
    async def remove(body: RemoveRequest) -> None:
        def take_out() -> None:
            failed = service.library.failed(body.files)
            if not all(service.index.catalogue.has(video) for video in body.videos):
                raise Problem(404, NO_VIDEO)
            if body.videos:
                service.index.remove(body.videos)
            if failed:
                service.index.forget_files(failed)
            service.library.left(body.videos, failed)

        await service.change(take_out)

    @router.post(
        "/videos/retry", response_model=shapes.Started, status_code=202, summary="Try files that failed again"
    )
    async def retry(body: RetryRequest, request: Request) -> dict[str, Any]:
        service.long_jobs.take(caller(request))

        def forget() -> list[str]:
            paths = service.library.failed(body.files)
            real = [os.fspath(service.roots.resolve(path)) for path in paths]
            service.index.forget_files(paths)
            return real

        paths = await service.change(forget)
        roots = [os.fspath(root) for root in service.roots.folders]
        title = f"Try {len(paths)} file{'' if len(paths) == 1 else 's'} again"
        return {"job": as_dict(service.submit(request, "add", title, {"paths": paths, "roots": roots}))}

    @router.post(
        "/uploads/{upload}/add",
        response_model=shapes.Started,
        status_code=202,
        tags=["uploads"],
        summary="Add a clip that was sent: it is copied into the collection's folder",
    )
    async def add(upload: str, request: Request) -> dict[str, Any]:
        service.long_jobs.take(caller(request))
        one = service.uploads.get(upload)
        if not service.index.writable:
            raise Problem(403, READ_ONLY)
        folder = service.settings.index / CLIPS
        clip = await service.look_up(_kept, one.path, folder, one.name)
        asked = {"paths": [os.fspath(clip)], "roots": [os.fspath(folder)]}
        return {"job": as_dict(service.submit(request, "add", f"Add {one.name}", asked))}

    return router


def _kept(source: Path, folder: Path, name: str) -> Path:
    """A copy under its own name, or the next one that is free; its ending is one of a video's."""
    folder.mkdir(exist_ok=True)
    stem, ending = os.path.splitext(name.lstrip("."))
    if ending.lower() not in VIDEO_SUFFIXES:
        ending = source.suffix if source.suffix in VIDEO_SUFFIXES else ".mp4"
    number = 1
    while True:
        clip = folder / f"{stem[:LONGEST_NAME] or 'clip'}{'' if number == 1 else f' ({number})'}{ending}"
        try:
            with clip.open("xb") as out, source.open("rb") as data:
                shutil.copyfileobj(data, out, 1 << 20)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            clip.unlink(missing_ok=True)
            raise Problem(507, "The clip could not be copied: the disk may be full.") from error
        return clip
