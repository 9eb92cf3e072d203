"""``visil bench``: what it prints and keeps, and what it says where it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from visil.bench.results import measured, read, sections, write
from visil.cli.app import app
from visil.errors import FileError, UsageError


def bench(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["bench", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_a_section_is_measured_kept_and_shown_again(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    found = json.loads(bench("products", "--device", "cpu", "--json", "--out", str(file)))
    assert found == read(file)
    assert list(found) == ["machine", "cpu"]
    rows = {row["name"]: row for row in found["cpu"]["products"]}
    single = rows["fp32 matrix product"]
    assert single["value"] == single["plain"] > 0
    assert rows["bf16 matrix product"]["ratio"] == pytest.approx(
        rows["bf16 matrix product"]["value"] / single["value"]
    )
    shown = bench("--show", str(file), "--plot", str(tmp_path / "bench.png"))
    assert "CPU: products" in shown
    assert shown.count("GFLOP/s") == sum(row["unit"] == "GFLOP/s" for row in rows.values())
    assert (tmp_path / "bench.png").stat().st_size > 1000


RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


@pytest.mark.skipif(not RESULTS.is_dir(), reason="benchmarks are not part of this distribution")
def test_every_row_of_the_kept_results_is_drawn_and_printed(tmp_path: Path) -> None:
    for name in ("bench_cpu", "bench_h200"):
        file = RESULTS / f"{name}.json"
        shown = bench("--show", str(file), "--plot", str(tmp_path / "bench.png"))
        kept = read(file)
        assert all(section in shown for part in ("cpu", "gpu") for section in kept.get(part, {}))


def test_what_cannot_be_done(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--device must be cpu or gpu, not 'tpu'"):
        sections("tpu")
    with pytest.raises(UsageError, match="no section is called so: there are products, similarity"):
        measured(sections("cpu"), lambda *_: None, ["nothing"])
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="torch sees no GPU here"):
            sections("gpu")
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    for file in (wrong, tmp_path / "none.json"):
        with pytest.raises(FileError, match="is not a result of visil bench"):
            read(file)
    with pytest.raises(UsageError, match="cannot be written: its folder does not exist"):
        write({"machine": {}}, tmp_path / "none" / "bench.json")
