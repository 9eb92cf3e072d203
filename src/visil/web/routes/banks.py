"""Calls about banks, sets of the collection's videos that searches look among, and the JSON of these calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from visil.web.banks import Bank, NoBank, Reference
from visil.web.library import NO_VIDEO, iso
from visil.web.problems import RESPONSES, Problem
from visil.web.service import Service
from visil.web.shapes import ID, Asked
from visil.web.shapes_search import BankName

Description = Annotated[str, Field(max_length=1000)]
Threshold = Annotated[float, Field(ge=0, le=1, description="Confidence from which a hit counts.")]
Label = Annotated[str, Field(min_length=1, max_length=64)]
Labels = Annotated[list[Label], Field(max_length=50)]
ExternalId = Annotated[str, Field(max_length=256)]


class NewBank(Asked):
    """A bank to make."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "takedowns", "threshold": 0.9}]}
    )

    name: BankName
    description: Description = ""
    threshold: Threshold = 0.0
    enabled: bool = True


class BankChange(Asked):
    """Changes to a bank; values that are not named stay."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"enabled": False}]})

    description: Description | None = None
    threshold: Threshold | None = None
    enabled: bool | None = None


class BankFacts(BaseModel):
    """A named set of references."""

    name: str
    description: str
    threshold: float
    enabled: bool
    references: int
    created: str


class BankPage(BaseModel):
    """Some of the banks, by name."""

    total: int
    offset: int
    banks: list[BankFacts]


class NewReference(Asked):
    """A video of the collection, as a bank knows it."""

    video: Annotated[str, Field(max_length=64)]
    external_id: ExternalId | None = None
    labels: Labels = Field(default_factory=list)
    enabled: bool = True


class NewReferences(Asked):
    """Videos to put into a bank; those that are in it are changed."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"references": [{"video": ID, "external_id": "case-17", "labels": ["trailer"]}]}]
        },
    )

    references: Annotated[list[NewReference], Field(min_length=1, max_length=1000)]


class ReferenceChange(Asked):
    """Changes to a reference; values that are not named stay."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"labels": ["trailer", "2026"]}]}
    )

    external_id: ExternalId | None = None
    labels: Labels | None = None
    enabled: bool | None = None


class ReferenceFacts(BaseModel):
    """A video in a bank; without a name where it has left the collection."""

    video: str
    name: str | None
    external_id: str | None
    labels: list[str]
    enabled: bool
    added: str


class ReferencePage(BaseModel):
    """Some of the references of a bank, the newest first."""

    total: int
    offset: int
    references: list[ReferenceFacts]


Name = Annotated[str, Path(max_length=64, examples=["takedowns"])]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=500)]


def no_bank(error: NoBank) -> Problem:
    """The answer where there is no such bank."""
    return Problem(404, f"There is no bank {str(error)[:64]!r} here.")


def routes(service: Service) -> APIRouter:
    """``/api/banks``."""
    router = APIRouter(prefix="/api/banks", responses=RESPONSES, tags=["banks"])
    banks = service.banks

    async def done(call: Any, *arguments: Any, **more: Any) -> Any:
        try:
            return await service.look_up(lambda: call(*arguments, **more))
        except NoBank as error:
            raise no_bank(error) from error

    def told(reference: Reference) -> dict[str, Any]:
        known = service.library.snapshot().by_id.get(reference.video)
        return {
            "video": reference.video,
            "name": None if known is None else known.name,
            "external_id": reference.external_id,
            "labels": list(reference.labels),
            "enabled": reference.enabled,
            "added": iso(reference.added),
        }

    @router.get("", response_model=BankPage, summary="A page of the banks")
    async def page(offset: Offset = 0, limit: Limit = 50) -> dict[str, Any]:
        total, found = await done(banks.page, offset, limit)
        return {"total": total, "offset": offset, "banks": [_facts(bank) for bank in found]}

    @router.post("", response_model=BankFacts, status_code=201, summary="Make a bank")
    async def create(body: NewBank) -> dict[str, Any]:
        if not await done(banks.create, Bank(**body.model_dump())):
            raise Problem(409, f"There is a bank {body.name!r} already.")
        return _facts(await done(banks.bank, body.name))

    @router.get("/{bank}", response_model=BankFacts, summary="One bank")
    async def one(bank: Name) -> dict[str, Any]:
        return _facts(await done(banks.bank, bank))

    @router.patch("/{bank}", response_model=BankFacts, summary="Change a bank, or turn it off")
    async def change(bank: Name, body: BankChange) -> dict[str, Any]:
        changes = {name: value for name, value in body.model_dump().items() if value is not None}
        return _facts(await done(banks.change, bank, changes))

    @router.delete("/{bank}", status_code=204, summary="Forget a bank; its videos stay in the collection")
    async def delete(bank: Name) -> None:
        await done(banks.delete, bank)

    @router.get("/{bank}/references", response_model=ReferencePage, summary="A page of a bank's references")
    async def references(
        bank: Name,
        offset: Offset = 0,
        limit: Limit = 50,
        label: Annotated[str, Query(max_length=64)] = "",
        external_id: Annotated[str, Query(max_length=256)] = "",
    ) -> dict[str, Any]:
        total, found = await done(banks.references, bank, offset, limit, label=label, external_id=external_id)
        return {"total": total, "offset": offset, "references": [told(reference) for reference in found]}

    @router.post(
        "/{bank}/references",
        response_model=BankFacts,
        summary="Put videos into a bank, or change them",
    )
    async def put(bank: Name, body: NewReferences) -> dict[str, Any]:
        known = service.library.snapshot().by_id
        if any(one.video not in known for one in body.references):
            raise Problem(404, NO_VIDEO)
        wanted = [
            Reference(one.video, one.external_id, tuple(one.labels), one.enabled) for one in body.references
        ]
        await done(banks.put, bank, wanted)
        return _facts(await done(banks.bank, bank))

    @router.patch(
        "/{bank}/references/{video}",
        response_model=ReferenceFacts,
        summary="Change a reference, or turn it off",
    )
    async def change_reference(bank: Name, video: str, body: ReferenceChange) -> dict[str, Any]:
        found = await done(banks.reference, bank, video)
        if found is None:
            raise Problem(404, "That video is not in this bank.")
        changes = {name: value for name, value in body.model_dump().items() if value is not None}
        if "labels" in changes:
            changes["labels"] = tuple(changes["labels"])
        changed = replace(found, **changes)
        await done(banks.put, bank, [changed])
        return told(changed)

    @router.delete("/{bank}/references/{video}", status_code=204, summary="Take a video out of a bank")
    async def take_out(bank: Name, video: str) -> None:
        if not await done(banks.take_out, bank, video):
            raise Problem(404, "That video is not in this bank.")

    return router


def _facts(bank: Bank) -> dict[str, Any]:
    return {
        "name": bank.name,
        "description": bank.description,
        "threshold": bank.threshold,
        "enabled": bank.enabled,
        "references": bank.references,
        "created": iso(bank.created),
    }
