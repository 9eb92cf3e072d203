"""The front door: quick to import, everything listed is there."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest

import visil
from public_face import Reader, member, public_callables, returned, visil_types

SRC = Path(visil.__file__).parents[1]
ROOT = Path(__file__).parents[1]
HEAVY = ("torch", "av", "matplotlib", "numpy", "PIL", "safetensors", "huggingface_hub", "typer", "rich")


def python(*arguments: str) -> str:
    """A fresh interpreter that sees this package."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def imported_by(statement: str) -> set[str]:
    loaded = json.loads(python("-c", f"import sys, json; {statement}; print(json.dumps(list(sys.modules)))"))
    return {name.split(".")[0] for name in loaded} & set(HEAVY)


def test_importing_visil_imports_nothing_heavy() -> None:
    assert imported_by("import visil") == set()


def test_errors_can_be_caught_without_the_networks() -> None:
    assert "torch" not in imported_by("from visil import VideoError, ModelError, UsageError")


def test_the_heavy_part_comes_on_first_use() -> None:
    loaded = imported_by("import visil; visil.ViSiL")
    assert "torch" in loaded
    assert not loaded & {"av", "matplotlib", "huggingface_hub"}


def test_servers_and_decoders_of_a_cluster_leave_the_networks_to_others() -> None:
    pytest.importorskip("fastapi", reason="needs the extra visil[serve]")
    assert "torch" not in imported_by("import visil.web.server, visil.cluster.ray_work")


def test_import_is_silent_under_strict_warnings() -> None:
    assert python("-W", "error", "-c", "import visil") == ""


def test_everything_listed_is_there() -> None:
    for name in visil.__all__:
        assert getattr(visil, name).__name__ == name
    assert visil.__all__ == sorted(visil.__all__, key=str)
    assert set(visil.__all__) <= set(dir(visil))


PROMISED = """
import visil

model = visil.load()
model = visil.load("visil-v", backbone="resnet50", backbone_weights="resnet50-0676ba61.pth")
model = visil.ViSiL.from_official("visil.pth", "pca_resnet50_vcdb_1M.pth", backbone_weights="resnet50-0676ba61.pth",
                                  symmetric=False)
a = model.embed("a.mp4")
a.vectors
a.timestamps
a = model.embed_frames(frames)
match = model.compare(a, "b.mp4")
scores = model.scores(a, [b, c, d])
match.score
match.confidence
match.verdict
for segment in match.segments:
    segment.query
    segment.target
    segment.score
match.frame_matrix
match.output_matrix
match.plot("match.png")

index = visil.Index("videos.visil")
report = index.add(["folder", "b.mkv"])
report.added
report.unchanged
failed = report.failed
for hit in index.search("query.mp4", k=10):
    hit.id
    hit.path
    hit.score
    hit.confidence
    hit.verdict
    hit.segments
groups = index.duplicates(min_confidence=0.5)
"""
"""What scripts of others rely on: it may grow, and nothing of it may go."""


def test_what_is_promised_of_the_public_objects_is_there() -> None:
    reader = Reader()
    reader.read(PROMISED)
    assert {"Match.output_matrix", "Segment.target", "Hit.segments", "Index.duplicates"} <= reader.used
    assert reader.names["match"] is visil.Match
    assert reader.names["hit"] is visil.Hit
    assert reader.names["a"] is visil.VideoFeatures
    assert typing.get_args(reader.names["failed"]) == (tuple[str, str],), "path and reason of each"


@pytest.mark.parametrize(
    ("code", "missing"),
    [
        ("visil.nothing", "nothing"),
        ("visil.load().compare('a', 'b').certainty", "certainty"),
        ("visil.load().compare('a', 'b', 'c')", "too many positional arguments"),
        ("visil.Index('x').search('a', limit=3)", "unexpected keyword argument 'limit'"),
    ],
)
def test_the_check_of_promises_can_fail(code: str, missing: str) -> None:
    with pytest.raises((AttributeError, TypeError), match=missing):
        Reader(visil=visil).read(code)


@pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="no README here")
def test_python_in_the_readme_uses_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        Reader(visil=visil).read(block)


@pytest.mark.skipif(not (ROOT / "CHANGELOG.md").is_file(), reason="no project files here")
def test_the_version_is_the_changelogs_and_stands_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/visil/__init__.py"
    changes = re.findall(r"^## \[?(\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert changes[0] == visil.__version__
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {visil.__version__}\n" in citation


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        visil.nothing  # noqa: B018


def test_one_base_for_every_error() -> None:
    for error in (visil.VideoError, visil.ModelError, visil.UsageError):
        assert issubclass(error, visil.VisilError)
    assert issubclass(visil.UsageError, ValueError)
    assert str(visil.VideoError("a\nb.mp4", "no video stream")) == r"a\nb.mp4: no video stream"


INNER = {"Index.catalogue", "Index.store"}
"""The parts that a collection is composed of: for this package's own rooms, which look into them."""


def test_what_public_methods_return_is_public() -> None:
    public = {getattr(visil, name) for name in visil.__all__}
    hidden = set()
    for value in public:
        methods = public_callables(value) if isinstance(value, type) else {value.__name__: value}
        for name, method in methods.items():
            if f"{value.__name__}.{name}" in INNER:
                continue
            hidden |= {
                f"{value.__name__}.{name} -> {kind.__name__}"
                for kind in visil_types(returned(method)) - public
            }
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            fields = {field.name: member(value, field.name) for field in dataclasses.fields(value)}
            hidden |= {
                f"{value.__name__}.{name}: {kind.__name__}"
                for name, hint in fields.items()
                for kind in visil_types(hint) - public
            }
    assert hidden == set()
