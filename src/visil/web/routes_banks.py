"""Calls about banks: sets of the collection's videos that searches look among."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from visil.web import shapes_banks as shapes
from visil.web.banks import Bank, NoBank, Reference
from visil.web.library import NO_VIDEO, iso
from visil.web.problems import RESPONSES, Problem
from visil.web.service import Service

Name = Annotated[str, Path(max_length=64, examples=["takedowns"])]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=500)]


def no_bank(error: NoBank) -> Problem:
    """What is answered where there is no such bank."""
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

    @router.get("", response_model=shapes.BankPage, summary="A page of the banks")
    async def page(offset: Offset = 0, limit: Limit = 50) -> dict[str, Any]:
        total, found = await done(banks.page, offset, limit)
        return {"total": total, "offset": offset, "banks": [_facts(bank) for bank in found]}

    @router.post("", response_model=shapes.BankFacts, status_code=201, summary="Make a bank")
    async def create(body: shapes.NewBank) -> dict[str, Any]:
        if not await done(banks.create, Bank(**body.model_dump())):
            raise Problem(409, f"There is a bank {body.name!r} already.")
        return _facts(await done(banks.bank, body.name))

    @router.get("/{bank}", response_model=shapes.BankFacts, summary="One bank")
    async def one(bank: Name) -> dict[str, Any]:
        return _facts(await done(banks.bank, bank))

    @router.patch("/{bank}", response_model=shapes.BankFacts, summary="Change a bank, or turn it off")
    async def change(bank: Name, body: shapes.BankChange) -> dict[str, Any]:
        changes = {name: value for name, value in body.model_dump().items() if value is not None}
        return _facts(await done(banks.change, bank, changes))

    @router.delete("/{bank}", status_code=204, summary="Forget a bank; its videos stay in the collection")
    async def delete(bank: Name) -> None:
        await done(banks.delete, bank)

    @router.get(
        "/{bank}/references", response_model=shapes.ReferencePage, summary="A page of a bank's references"
    )
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
        response_model=shapes.BankFacts,
        summary="Put videos into a bank, or change them",
    )
    async def put(bank: Name, body: shapes.NewReferences) -> dict[str, Any]:
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
        response_model=shapes.ReferenceFacts,
        summary="Change a reference, or turn it off",
    )
    async def change_reference(bank: Name, video: str, body: shapes.ReferenceChange) -> dict[str, Any]:
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
