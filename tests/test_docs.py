"""The documentation says what there is: pages, links, files, commands, variables, exit statuses."""

from __future__ import annotations

import ast
import importlib.util
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest
import yaml

import visil

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = Path(visil.__file__).parent
MADE = {"api.md", "commands.md"}
"""Pages that docs/reference.py makes from the code."""

PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *ROOT.glob("benchmarks/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(r"(?<![\w/.-])((?:src/visil|tests|benchmarks|examples)/[\w./-]*\w)")
"""A file of the repository as prose and commands name it."""
MODULE_FILE = re.compile(r"`([a-z_]+/(?:[a-z_]+/)*[a-z0-9_]+\.py)`")
"""A module's file, from its room on."""
DOTTED = re.compile(r"`(visil(?:\.[A-Za-z_0-9]+)+)")
"""A name in Python."""
NAMES_OF_FILES = {"visil.toml", "visil.pth", "visil.json", "visil.log"}

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="no docs here")


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", DOCS / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries(nav: object) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav if isinstance(nav, list) else nav.values() if isinstance(nav, dict) else ():
        yield from entries(part)


def left_out(path: Path) -> bool:
    """Whether a file lies in a folder that this distribution does not have."""
    return not (ROOT / "benchmarks").is_dir() and path.is_relative_to(ROOT / "benchmarks")


def test_every_page_is_in_the_navigation_once() -> None:
    nav = list(entries(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    assert sorted(nav) == sorted({path.name for path in DOCS.glob("*.md")} | MADE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_files_named_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    links = {link.split("#")[0] for link in LINK.findall(text) if not re.match(r"\w+:", link)} - {""}
    targets = {(page.parent / link).resolve() for link in links}
    targets |= {(ROOT / name).resolve() for name in FILE.findall(text)}
    made = {DOCS / name for name in MADE}
    gone = [path for path in targets if not path.exists() and path not in made and not left_out(path)]
    assert sorted(str(path.relative_to(ROOT)) for path in gone) == []


def test_every_command_and_option_is_in_the_reference(reference: ModuleType) -> None:
    from typer.main import get_command

    from visil.cli.app import app

    page = reference.commands_page()
    found = list(reference.commands(get_command(app)))
    assert {("compare",), ("models", "pull"), ("shards", "create")} <= {names for names, _ in found}
    for names, command in found:
        section = page.split(f"\n## visil {' '.join(names)}\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert all(f"`{option}`" in section for option in parameter.opts), (names, parameter.opts)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_modules_and_names_of_the_package_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    missing = {
        file
        for file in MODULE_FILE.findall(text)
        if not (PACKAGE / file).is_file() and not (ROOT / file).is_file()
    }
    for name in set(DOTTED.findall(text)) - NAMES_OF_FILES:
        try:
            resolve_name(name)
        except (ImportError, AttributeError):
            missing.add(name)
    assert {file for file in missing if not file.startswith("benchmarks/")} == set()


def test_every_public_name_is_in_the_reference(reference: ModuleType) -> None:
    listed = re.findall(r"^::: (?:\w+\.)+(\w+)$", reference.api_page(), re.MULTILINE)
    assert sorted(listed) == sorted(visil.__all__)


def first_cells(heading: str) -> set[str]:
    """The first column of the table below a heading of environment.md."""
    section = (DOCS / "environment.md").read_text("utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {cell.strip("` ") for cell in re.findall(r"^\| ([^|]+) \|", section, re.MULTILINE)[1:]} - {"---"}


def nodes(folder: Path) -> Iterator[ast.AST]:
    for path in sorted(folder.rglob("*.py")):
        yield from ast.walk(ast.parse(path.read_text("utf-8")))


def test_every_variable_is_listed_and_read() -> None:
    read = {
        node.value
        for node in nodes(PACKAGE)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"VISIL_[A-Z_]+", node.value)
    }
    assert first_cells("Variables") == read


def test_every_exit_status_is_listed() -> None:
    from visil.cli.compare import EXIT
    from visil.cli.output import SOME_FAILED

    ended = {0, 2, *EXIT.values()}  # done; Typer's, for wrong usage; verdicts
    for node in nodes(PACKAGE / "cli"):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"typer.Exit", "sys.exit"} and node.args:
            written = ast.unparse(node.args[0])
            if written == "128 + signal.SIGINT":
                ended.add(128 + signal.SIGINT)
            else:
                numbers = re.findall(r"\b\d+\b", written.replace("SOME_FAILED", str(SOME_FAILED)))
                ended |= {int(number) for number in numbers}
    assert first_cells("Exit statuses") == {str(status) for status in ended}
