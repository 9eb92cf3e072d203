"""Whatever a public method of a collection gives has a public name."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields, is_dataclass

import visil
from visil.collection.intake import OnProgress


def classes_in(annotation: object) -> set[str]:
    """Names of classes that an annotation, as it is written, mentions."""
    return set(re.findall(r"\b[A-Z]\w+", str(annotation))) - {"None", "Iterator"}


def test_what_an_index_returns_is_public() -> None:
    methods = inspect.getmembers(visil.Index, inspect.isfunction)
    returned = {
        name
        for method, function in methods
        if not method.startswith("_")
        for name in classes_in(function.__annotations__.get("return"))
    }
    assert {"AddReport", "Hits", "Group", "Duplicates", "IndexInfo", "Problem", "Video"} <= returned
    assert returned <= set(visil.__all__)
    for name in returned:
        kind = getattr(visil, name)
        inside = (
            {one for field in fields(kind) for one in classes_in(field.type)} if is_dataclass(kind) else set()
        )
        public = {one for one in inside if one not in ("Literal", "Verdict", "Codes", "Tensor")}
        assert public <= set(visil.__all__), f"{name} holds {public - set(visil.__all__)}"
    assert classes_in(OnProgress) & set(visil.__all__) == {"AddProgress"}
