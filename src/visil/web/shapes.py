"""The JSON of the API, in and out."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from visil.web.settings import Role

Kind = Literal["search", "batch", "compare", "duplicates", "add"]
JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
Said = Literal["same", "different"]
Sort = Literal["name", "added", "duration", "size", "-name", "-added", "-duration", "-size"]


def _written_out(moment: Any) -> Any:
    """Numbers would be taken for seconds since 1970."""
    if isinstance(moment, str) and re.match(r"\d{4}-\d\d-\d\d", moment):
        return moment
    raise ValueError("must be a moment such as 2026-01-31T12:00:00Z")


Moment = Annotated[
    datetime, Field(strict=False, examples=["2026-01-31T12:00:00Z"]), BeforeValidator(_written_out)
]

ID = "5f1e0c8a9b7d4e3f8a6b5c4d3e2f1a0b"


class Asked(BaseModel):
    """A body that may hold described values alone."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Ref(Asked):
    """One video: of the collection, uploaded, or a file inside a folder that the server may read."""

    upload: Annotated[str, Field(max_length=64)] | None = None
    video: Annotated[str, Field(max_length=64)] | None = None
    path: Annotated[str, Field(max_length=4096)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Ref:
        if sum(one is not None for one in (self.upload, self.video, self.path)) != 1:
            raise ValueError("name one of upload, video and path")
        return self


class CompareRequest(Asked):
    """Two videos, the query first."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"query": {"video": ID}, "target": {"path": "/videos/b.mp4"}}]},
    )

    query: Ref
    target: Ref
    refine: Annotated[
        bool,
        Field(
            description="Look at both four times a second around the ends of each stretch, where the files are there."
        ),
    ] = True


class DuplicatesRequest(Asked):
    """How sure a pair must be to count."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"min_confidence": 0.5}]})

    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.5


class AddRequest(Asked):
    """A file or folder to add."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"path": "/videos/holidays"}]}
    )

    path: Annotated[str, Field(min_length=1, max_length=4096)]


class JudgementRequest(Asked):
    """A person's verdict on two videos; null takes it back."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"a": ID, "b": ID[::-1], "verdict": "different"}]},
    )

    a: Annotated[str, Field(max_length=64)]
    b: Annotated[str, Field(max_length=64)]
    verdict: Said | None


class LoginRequest(Asked):
    """A token that the server was started with."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"token": "what visil serve printed"}]}
    )

    token: Annotated[str, Field(max_length=512)]


class IndexFacts(BaseModel):
    """The collection that is served."""

    name: str
    videos: int
    model: str
    writable: bool


class LimitFacts(BaseModel):
    """The limits of uploads."""

    upload_bytes: int
    upload_seconds: int


class Session(BaseModel):
    """Whether this caller may ask, and about what."""

    authenticated: bool
    token_needed: bool
    name: str | None = Field(None, description="Of the token that this caller has.")
    role: Role | None = Field(None, description="What this caller may do.")
    version: str
    index: IndexFacts
    limits: LimitFacts
    roots: list[str]


class Video(BaseModel):
    """A video of the collection, or a file that is being added or could not be."""

    id: str | None
    name: str
    file: str
    path: str
    state: Literal["ready", "working", "failed"]
    reason: str | None
    duration: float | None
    width: int | None
    height: int | None
    bytes: int | None
    frames: int | None
    added: str | None
    copies: list[str]
    playable: bool


class Videos(BaseModel):
    """One page of a list."""

    total: int
    failed: Annotated[int, Field(description="How many of them are files that could not be added.")]
    offset: int
    videos: list[Video]


class Entry(BaseModel):
    """A folder or file on the server."""

    name: str
    path: str


class Folder(BaseModel):
    """The content of a folder that the server may read; without a path, the folders there are."""

    path: str | None
    above: str | None
    folders: list[Entry]
    videos: list[Entry]
    more: bool


class Upload(BaseModel):
    """A file that was sent."""

    upload: str
    name: str
    bytes: int
    expires: float


class Progress(BaseModel):
    """How far a job is."""

    done: int
    total: int | None
    unit: Literal["files", "videos", "pairs", "frames"]
    rate: float | None
    left: float | None


class Job(BaseModel):
    """Long work."""

    id: str
    kind: Kind
    state: JobState
    title: str
    progress: Progress
    created: str
    finished: str | None
    error: str | None
    caller: str = Field(description="The name of the token that it was started with.")


class Started(BaseModel):
    """A job that was taken on."""

    job: Job


class Jobs(BaseModel):
    """A page of the jobs, newest first."""

    total: int
    offset: int
    jobs: list[Job]


class Judgement(BaseModel):
    """The verdict on record for two videos, and the one before."""

    a: str
    b: str
    verdict: Said | None
    previous: Said | None


class JudgementOnRecord(BaseModel):
    """A person's verdict on two videos."""

    a: str
    b: str
    verdict: Said


class Judgements(BaseModel):
    """A page of people's verdicts."""

    total: int
    offset: int
    judgements: list[JudgementOnRecord]


class AuditEntry(BaseModel):
    """A call that was to change something."""

    at: str
    who: str = Field(description="The name of the token; empty where it was none of them.")
    role: str
    address: str
    action: str = Field(examples=["PUT /api/judgements"])
    said: Any = Field(description="The JSON that was sent.")
    status: int = Field(description="What was answered; 200 to 299 where it was done.")


class Audit(BaseModel):
    """A page of changes, newest first."""

    total: int
    offset: int
    entries: list[AuditEntry]


class Comparison(BaseModel):
    """The result of a comparison, as its job gave it, and where both videos are shown from."""

    comparison: str
    result: dict[str, Any]


class Duplicates(BaseModel):
    """Groups of videos that share footage; each with a suggestion which to keep."""

    made: str
    groups: list[dict[str, Any]]
    common: list[dict[str, Any]]
    different: list[dict[str, Any]]
