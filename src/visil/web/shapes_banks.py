"""The JSON of banks, in and out."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

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
    """What to change of a bank; what is not named stays."""

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
    """What to change of a reference; what is not named stays."""

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
