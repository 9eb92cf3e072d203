"""docs/design.md says what the import contract says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"
PAGE = ROOT / "docs" / "design.md"
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \| \S", re.MULTILINE)


def rooms_of_the_contract() -> list[tuple[int, set[str]]]:
    """Layers from the highest, each with its rooms."""
    contracts = tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    return [(len(layers) - i, set(re.split(r" [|:] ", layer))) for i, layer in enumerate(layers)]


def rooms_of_the_page() -> list[tuple[int, set[str]]]:
    """The same from the table, in its order."""
    found: dict[int, set[str]] = {}
    rows = [(int(layer), room) for layer, room in ROW.findall(PAGE.read_text("utf-8"))]
    for layer, room in rows:
        assert room not in found.get(layer, set()), f"{room} stands twice in the table"
        found.setdefault(layer, set()).add(room)
    assert rows == sorted(rows, key=lambda row: -row[0]), "the table is not in the order of layers"
    return list(found.items())


@pytest.mark.skipif(not PROJECT.is_file() or not PAGE.is_file(), reason="neither project file nor docs here")
def test_the_table_of_rooms_is_the_contract() -> None:
    assert rooms_of_the_page() == rooms_of_the_contract()


@pytest.mark.skipif(not PROJECT.is_file(), reason="no project file here")
def test_every_room_is_in_the_contract() -> None:
    package = ROOT / "src" / "visil"
    there = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }
    assert there - {"__init__"} == set().union(*(rooms for _, rooms in rooms_of_the_contract()))
