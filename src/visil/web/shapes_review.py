"""The JSON of a review of duplicates, in and out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from visil.web.shapes import ID, Asked

Name = Annotated[str, Field(max_length=64)]


class DecisionRequest(Asked):
    """What is to become of one file; null leaves it to the suggestion again."""

    file: Name
    action: Literal["keep", "drop"] | None


class DecisionsRequest(Asked):
    """Decisions about some files, as one step that can be undone."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"files": [{"file": ID[:16], "action": "keep"}]}]},
    )

    files: Annotated[list[DecisionRequest], Field(min_length=1, max_length=1000)]


class AcceptRequest(Asked):
    """Which suggestions to accept: those of some groups, or of all; exact copies alone, or everything."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"groups": [ID[:16]], "only": None}]},
    )

    groups: Annotated[list[Name], Field(min_length=1, max_length=1000)] | None = None
    only: Literal["exact"] | None = None


class ReviewProgress(BaseModel):
    """How far a review is; bytes are those of files that are dropped, suggested and decided."""

    groups: int
    reviewed: int
    files: int
    drop: int
    drop_bytes: int
    decided_drop: int
    decided_bytes: int
    exact: int


class Newer(BaseModel):
    """What has happened to the collection since its videos were compared."""

    added: int
    gone: int


class ReviewState(BaseModel):
    """When duplicates were looked for, and how far their review is."""

    made: str | None
    min_confidence: float
    newer: Newer
    progress: ReviewProgress
    undo: str | None


class ReviewChange(ReviewState):
    """The groups that have changed."""

    groups: list[dict[str, Any]]


class ReviewPage(ReviewChange):
    """Some of the groups, and pairs that make none."""

    total: int
    offset: int
    common: list[dict[str, Any]]
    different: list[dict[str, Any]]


class Accepted(ReviewChange):
    """How many files were decided about."""

    files: int


class Undone(ReviewChange):
    """What was undone."""

    title: str
