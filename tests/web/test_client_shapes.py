"""The client knows no pydantic, so its shapes are written out: they must be those that the server answers with."""

import pytest

from visil import client
from visil.web import shapes

BOTH = sorted(
    name
    for name, shape in vars(client).items()
    if isinstance(shape, type) and hasattr(shape, "__required_keys__") and hasattr(shapes, name)
)


def test_there_are_shapes_to_compare() -> None:
    assert {"Video", "Videos"} <= set(BOTH)


@pytest.mark.parametrize("name", BOTH)
def test_the_same_fields(name: str) -> None:
    assert set(getattr(client, name).__annotations__) == set(getattr(shapes, name).model_fields)
