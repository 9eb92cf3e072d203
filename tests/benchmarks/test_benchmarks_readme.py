"""benchmarks/README.md: every script and every result, and the pages that quote them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(
    not BENCHMARKS.is_dir(), reason="benchmarks are not part of this distribution"
)


def test_every_script_and_result_has_its_row() -> None:
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+\.py)` \| .+ \| `\1.*` \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(path.name for path in BENCHMARKS.glob("*.py"))
    results = {path.name for path in (BENCHMARKS / "results").iterdir()}
    assert results == {name for name in results if f"`{name}`" in text}


def test_the_pages_named_quote_the_script_or_its_result() -> None:
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    for row in re.findall(r"^\| `\w+\.\w+` \| .+$", text, re.MULTILINE):
        names = re.findall(r"[\w]+\.(?:json|jsonl|csv|py)\b", row)
        for page in re.findall(r"\]\((\.\./(?:docs/)?[\w-]+\.md)\)", row.rsplit(" | ", 1)[-1]):
            quoting = (BENCHMARKS / page).read_text("utf-8")
            assert any(name in quoting for name in names), (row.split("|")[1], page)


def test_results_are_tables_and_no_dumps() -> None:
    long = {
        path.name: len(path.read_text("utf-8").splitlines()) for path in (BENCHMARKS / "results").iterdir()
    }
    assert max(long.values()) <= 400, long


def test_a_row_of_a_table_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    from shared.results import as_text

    rows = [{"name": f"row {i}", "mAP": 1 / 3, "by half": {"easy": 1.0, "hard": i / 7}} for i in range(4)]
    text = as_text({"machine": {"cores": 2}, "rows": rows})
    assert text.splitlines()[1] == ' "machine": {"cores": 2},'
    assert (
        text.splitlines()[3] == '  {"name": "row 0", "mAP": 0.333333, "by half": {"easy": 1.0, "hard": 0.0}},'
    )
    assert len(text.splitlines()) == 9
