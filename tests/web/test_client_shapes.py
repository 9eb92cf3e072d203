"""The client knows no pydantic, so its shapes are written out: they must be those that the server answers with."""

import pytest
from pydantic import BaseModel

from visil import client
from visil.web import shapes, shapes_search

ON_BOTH_SIDES = {"Video", "Videos", "Progress", "Job"}
IN_RESULTS = {"Segment", "Hit", "Found"}
"""Parts of a job's result, which may say more than the server describes."""
GIVEN_AS_PLAIN_DICTS = {
    *("Session", "IndexFacts", "LimitFacts", "Entry", "Folder", "Upload", "Duplicates"),
    *("Started", "Jobs", "Judgement", "JudgementOnRecord", "Judgements"),
    *("Audit", "AuditEntry", "Comparison"),
}


def test_every_shape_of_the_client_has_its_counterpart() -> None:
    typed = {name for name, shape in vars(client).items() if hasattr(shape, "__required_keys__")}
    assert typed == ON_BOTH_SIDES | IN_RESULTS


def test_every_answer_of_the_server_is_known_to_the_client_or_left_to_it_as_it_is() -> None:
    answers = {
        name
        for name, shape in vars(shapes).items()
        if isinstance(shape, type) and issubclass(shape, BaseModel) and not issubclass(shape, shapes.Asked)
    }
    assert answers - {"BaseModel"} == ON_BOTH_SIDES | GIVEN_AS_PLAIN_DICTS


@pytest.mark.parametrize("name", sorted(IN_RESULTS))
def test_whatever_is_described_of_a_result(name: str) -> None:
    assert set(getattr(client, name).__annotations__) >= set(getattr(shapes_search, name).model_fields)


@pytest.mark.parametrize("name", sorted(ON_BOTH_SIDES))
def test_the_same_fields(name: str) -> None:
    assert set(getattr(client, name).__annotations__) == set(getattr(shapes, name).model_fields)
