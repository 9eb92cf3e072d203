"""The JSON of searches, one or many, in and out."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from visil.web.shapes import ID, Asked, Job, Moment, Ref, Video

Verdict = Literal["copy", "related", "unrelated", "unclear"]
BANK_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


def _bank_name(name: str) -> str:
    if re.fullmatch(BANK_NAME, name) is None:
        raise ValueError(
            "must be 1 to 64 letters, digits, dots, dashes or underscores, a letter or digit first"
        )
    return name


BankName = Annotated[
    str,
    AfterValidator(_bank_name),
    Field(json_schema_extra={"pattern": BANK_NAME}, examples=["takedowns"]),
]

EXAMPLE_SEGMENT: dict[str, Any] = {
    "query": [0.0, 12.0],
    "target": [33.0, 45.0],
    "score": 0.94,
    "confidence": 0.99,
    "reversed": False,
}
EXAMPLE_VIDEO: dict[str, Any] = {
    "id": ID,
    "file": "0123456789abcdef",
    "name": "b.mp4",
    "path": "/videos/b.mp4",
    "state": "ready",
    "reason": None,
    "duration": 60.0,
    "width": 1280,
    "height": 720,
    "bytes": 8_000_000,
    "frames": 60,
    "added": "2026-01-31T12:00:00Z",
    "copies": [],
    "playable": True,
}
EXAMPLE_HIT: dict[str, Any] = {
    "video": EXAMPLE_VIDEO,
    "score": 0.91,
    "confidence": 0.99,
    "verdict": "copy",
    "segments": [EXAMPLE_SEGMENT],
    "missing": False,
    "in_words": "shares 12 s, from 0:33",
    "moment": [6.0, 39.0],
    "references": [{"bank": "takedowns", "external_id": "case-17", "labels": ["trailer"]}],
}
EXAMPLE_QUERY: dict[str, Any] = {"kind": "upload", "id": ID, "name": "clip.mp4", "duration": 12.0}


class SearchOptions(Asked):
    """How many hits, and which."""

    k: Annotated[int, Field(ge=1, le=1000, description="How many hits at most.")] = 20
    verdict: Annotated[
        list[Verdict] | None, Field(max_length=4, description="Only hits with one of these verdicts.")
    ] = None
    min_confidence: Annotated[
        float, Field(ge=0, le=1, description="Only hits at least this likely to share footage.")
    ] = 0.0
    reference: Annotated[bool, Field(description="Only videos that were added as references.")] = False
    added_since: Annotated[Moment | None, Field(description="Only videos added since then.")] = None
    bank: Annotated[
        list[BankName] | None, Field(max_length=20, description="Only references of these banks.")
    ] = None
    refine: Annotated[
        bool,
        Field(
            description="Look at likely hits four times a second, and judge and rank them by that: surer, and slower."
        ),
    ] = False

    def asked(self) -> dict[str, Any]:
        """The values for an engine."""
        filters = {
            "verdict": self.verdict or [],
            "min_confidence": self.min_confidence,
            "reference": self.reference,
            "added_since": None if self.added_since is None else self.added_since.timestamp(),
            "bank": self.bank or [],
            "refine": self.refine,
        }
        return {"k": self.k, "filters": filters}


class SearchQuery(SearchOptions):
    """The values in the address of a search."""

    model_config = ConfigDict(extra="forbid", strict=False)

    wait: Annotated[
        float,
        Field(
            ge=0, le=300, allow_inf_nan=False, description="Seconds to wait for the answer.", examples=[30]
        ),
    ] = 0.0
    name: Annotated[
        str, Field(max_length=1000, description="The name of a file that is sent as raw bytes.")
    ] = "video"
    webhook: Annotated[
        str | None, Field(max_length=2000, description="Where to send word when the job is over.")
    ] = None


class SearchRequest(Ref, SearchOptions):
    """The video to search for."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"video": ID, "k": 20}, {"path": "/videos/a.mp4", "bank": ["takedowns"]}]
        },
    )


class BatchRequest(SearchOptions):
    """Several videos to search for, with the same options."""

    model_config = ConfigDict(
        extra="forbid",
        strict=False,  # or a moment could not be given as text
        json_schema_extra={"examples": [{"queries": [{"video": ID}, {"path": "/videos/a.mp4"}], "k": 5}]},
    )

    queries: Annotated[list[Ref], Field(min_length=1, max_length=1000)]


class Result(BaseModel):
    """A part of a result; more may be said than is described here."""

    model_config = ConfigDict(extra="allow")


class Segment(Result):
    """A stretch that two videos share, in seconds."""

    query: Annotated[list[float], Field(min_length=2, max_length=2)]
    target: Annotated[list[float], Field(min_length=2, max_length=2)]
    score: float
    confidence: float
    reversed: bool


class KnownAs(BaseModel):
    """A hit's names in a bank."""

    bank: str
    external_id: str | None
    labels: list[str]


class Hit(Result):
    """A video that shares footage with a query."""

    video: Video
    score: float
    confidence: float
    verdict: Verdict
    segments: list[Segment]
    missing: bool
    in_words: str
    moment: Annotated[
        list[float] | None,
        Field(
            min_length=2,
            max_length=2,
            description="A time of the query and one of the hit that show the same.",
        ),
    ] = None
    references: list[KnownAs] = []


class QueryFacts(Result):
    """The video that was searched for."""

    kind: Literal["video", "upload", "path"]
    id: str
    name: str
    duration: float


class Found(Result):
    """The hits of a search, the best first."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"query": EXAMPLE_QUERY, "hits": [EXAMPLE_HIT]}]}
    )

    query: QueryFacts
    hits: list[Hit]
    refined: bool = Field(False, description="Whether likely hits were looked at closely (`refine`).")
    job: str | None = Field(None, description="The job that found it, which can be asked again.")


class NotFound(Result):
    """A query of a batch that could not be searched for."""

    query: dict[str, Any]
    error: str


class BatchFound(Result):
    """The results for each query, in their order."""

    results: list[Found | NotFound]


class Matrix(Result):
    """A matrix of a comparison, and where it is."""

    rows: int
    columns: int
    url_png: str
    url_bin: str


class Compared(Result):
    """How two videos relate."""

    comparison: str
    query: QueryFacts
    target: QueryFacts
    score: float
    confidence: float
    verdict: Verdict
    in_words: str
    refined: bool = Field(
        False,
        description="Whether stretches were looked at four times a second around their ends, in both files.",
    )
    frame_matrix: Matrix
    output_matrix: Matrix


class FailedFile(BaseModel):
    """A file that could not be added."""

    path: str
    reason: str


class Added(Result):
    """The outcome of an addition."""

    added: int
    unchanged: int
    failed: list[FailedFile]
    outside: int


class GroupsFound(Result):
    """Groups of videos that share footage."""

    groups: list[dict[str, Any]]
    common: list[dict[str, Any]]
    different: list[dict[str, Any]]


class ResultPage(BaseModel):
    """A part of a long result: hits of a search, results of a batch, groups of duplicates, files that failed."""

    total: int
    offset: int
    items: list[dict[str, Any]]


class JobWithResult(Job):
    """A job, and what came of it once it is done."""

    result: Found | BatchFound | Compared | GroupsFound | Added | None = None
