"""docs/design.md says what the import contract says, and rooms share nothing but public names."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = ROOT / "pyproject.toml"
PAGE = ROOT / "docs" / "design.md"
PACKAGE = ROOT / "src" / "visil"
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
    there = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert there - {"__init__"} == set().union(*(rooms for _, rooms in rooms_of_the_contract()))


def taken_from_other_rooms(tree: ast.Module, room: str) -> Iterator[tuple[str, str]]:
    """Each name that a module imports from another room of the package, and what it is called here."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "visil":
            other = (node.module or "").split(".")[1:2]
            for alias in node.names:
                if (other or [alias.name]) != [room]:
                    yield alias.name, alias.asname or alias.name


def test_no_room_inherits_from_another_or_takes_its_private_names() -> None:
    heirs, private = set(), set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        taken = list(taken_from_other_rooms(tree, path.relative_to(PACKAGE).parts[0].removesuffix(".py")))
        private |= {
            f"{path.name}: {name}" for name, _ in taken if name.startswith("_") and name != "__version__"
        }
        names = {own for _, own in taken if not own.endswith("Error")}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).split("[")[0] for base in node.bases}
                heirs |= {(node.name, base) for base in bases & names}
    assert private == set()
    assert heirs == {("ViSiL", "Network")}, "a model is a torch module, whose names are those of its files"
