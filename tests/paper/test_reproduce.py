"""docs/reproduce.md, command by command, on a tiny data set in the real file formats: rows, columns and recipes.

Each command is run as it stands there; paths are put in for its variables, and options behind it make it small.
"""

from __future__ import annotations

import json
import pickle
import re
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from synthetic import moving_scene, write_video
from toy_bench import small_model
from visil.cli.app import app
from visil.model import backbones
from visil.model.backbones import Backbone, backbone_spec
from visil.model.backbones.i3d import I3D
from visil.model.config import PRESETS
from visil.paper import numbers, output
from visil.paper.ablation import CURVES
from visil.paper.baselines.lamv import LamvTraining
from visil.paper.baselines.registry import QUICK
from visil.video import Sampling

PAGE = Path(__file__).parents[2] / "docs" / "reproduce.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="no docs here")

SIDE, SECONDS, ACTED = 32, 7, 2
"""Pixels; seconds of a video; and of one that I3D looks at, 25 frames a second."""

SMALL = Sampling(resize=SIDE, crop=SIDE)
LITE = "efficientnet-lite0"


def commands() -> list[str]:
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    return [
        line for block in blocks for line in block.splitlines() if line.startswith("visil ") and "$" in line
    ]


TABLES = {
    line.split()[2]: line for line in commands() if line.startswith("visil tables ") and "CLIPS" not in line
}
OTHERS = {line.split()[1]: line for line in commands() if not line.startswith("visil tables ")}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every data set in its layout, of a dozen scenes of 32 pixels."""
    root = tmp_path_factory.mktemp("data")
    for seed in range(12):
        frames = list(moving_scene(seed, SECONDS, fps=2, size=(SIDE, SIDE), shot=4))
        write_video(root / f"{seed}.mp4", frames, fps=2)
        write_video(root / f"{seed}-again.mp4", frames, fps=2, options={"crf": "32"})
        if seed < 6:
            write_video(root / f"{seed}-acted.mp4", frames[: 2 * ACTED], fps=2)
            write_video(root / f"{seed}-acted-again.mp4", frames[: 2 * ACTED], fps=2, options={"crf": "32"})

    def put(number: object, place: Path, again: bool = False) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / f"{number}{'-again' if again else ''}.mp4", place)

    vcdb, fivr, cc_web = root / "VCDB", root / "FIVR", root / "CC"
    evve, anet = root / "EVVE", root / "ANET"
    (vcdb / "annotation").mkdir(parents=True)
    for number, topic in enumerate(("obama", "zidane", "beatles", "titanic")):
        put(number, vcdb / "core_dataset" / topic / f"{topic}_a.mp4")
        put(number, vcdb / "core_dataset" / topic / f"{topic}_b.mp4", again=True)
        pair = f"{topic}_a.flv,{topic}_b.flv,00:00:00,00:00:06,00:00:00,00:00:06\n"
        (vcdb / "annotation" / f"{topic}.txt").write_text(pair)
    for number in range(4, 8):
        put(number, vcdb / "background_dataset" / str(number % 2) / f"{number}xyz.mp4")

    for name, number, again in (
        *(("q1", 8, False), ("nd1", 8, True), ("q2", 9, False), ("ds2", 9, True)),
        *(("cs1", 10, False), ("is1", 11, False)),
    ):
        put(number, fivr / "videos" / f"{name}.mp4", again)
    labels = {"q1": {"ND": ["nd1"], "CS": ["cs1"], "IS": ["is1"]}, "q2": {"DS": ["ds2"]}}
    part = {"queries": ["q1", "q2"], "database": {"q1", "nd1", "ds2", "cs1", "is1", "gone"}}
    _pickle(fivr / "fivr.pickle", {"annotation": labels, "5k": part, "200k": part})

    ids = ["1/1_1_Y", "1/1_2_Y", "1/1_3_Y", "2/2_1_Y", "2/2_2_Y"]
    for name, (number, how) in zip(
        ids, ((8, ""), (8, "again"), (10, ""), (9, ""), (9, "again")), strict=True
    ):
        put(number, cc_web / "Videos" / f"{name}.mp4", again=bool(how))
    truth = [{0: "E", 1: "S", 2: "X"}, {3: "E", 4: "V"}]
    index = {name: number for number, name in enumerate(ids)}
    content = {"index": index, "queries": [ids[0], ids[3]], "ground_truth": truth, "excluded": [{2}, set()]}
    _pickle(cc_web / "cc_web_video.pickle", content)

    events: dict[str, tuple[set[str], set[str], set[str]]] = {}
    for place, (event, number) in enumerate((("riots", 8), ("geyser", 9))):
        put(number, evve / "videos" / event / f"e{place}.mp4")
        put(number, evve / "videos" / event / f"p{place}.mp4", again=True)
        put(10 + place, evve / "videos" / event / f"n{place}.mp4")
        events[event] = ({f"e{place}"}, {f"p{place}"}, set())
    base = ["p0", "p1", "n0", "n1"]
    _pickle(evve / "evve.pickle", {"annotation": events, "queries": ["e0", "e1"], "database": base})

    stretches: dict[str, Any] = {}
    for number in range(6):
        put(f"{number // 2}-acted", anet / "training" / f"v_t{number}.mp4", again=bool(number % 2))
        action = {"segment": [0.0, float(ACTED)], "label": f"action {number // 2}"}
        stretches[f"t{number}"] = {"subset": "training", "annotations": [action]}
    for name, (number, how) in {"a": (4, ""), "b": (4, "again"), "c": (5, ""), "d": (5, "again")}.items():
        put(f"{number}-acted", anet / "test" / f"v_{name}.mp4", again=bool(how))
    _pickle(anet / "activity_net.pickle", {"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}})
    (anet / "activity_net.json").write_text(json.dumps({"database": stretches}))

    torch.manual_seed(0)
    torch.save(I3D().state_dict(), root / "i3d.pt")
    small_model(SMALL).save_pretrained(root / "small")
    found = {"VCDB": vcdb, "FIVR": fivr, "CCWEB": cc_web, "EVVE": evve, "ANET": anet, "I3D": root / "i3d.pt"}
    found |= {"OUT": root / "out", "SMALL": root / "small"}
    return {name: str(path) for name, path in found.items()} | {
        "RESNET": str(backbone_spec(LITE).weights.locate())
    }


def _pickle(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(content, 3))


def arguments(line: str, places: dict[str, str], *more: str) -> list[str]:
    """A command of the page with its paths put in: RESNET is the file of the small backbone, whose weights are here."""
    for name, path in places.items():
        line = line.replace(f"${name}", path)
    assert "$" not in line
    return [*shlex.split(line)[1:], *more, "--device", "cpu"]


def run(given: list[str]) -> tuple[str, str]:
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.stdout, done.stderr


@pytest.fixture(autouse=True)
def shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learned baselines take a few steps, curves have a few points, pictures are small."""
    monkeypatch.setattr(output, "DPI", 60)
    few: dict[str, dict[str, Any]] = {
        "DML": {"triplets": 4, "epochs": 1, "batch": 2},
        "VReL": {"steps": 2, "batch": 2},
        "LAMV": {"training": LamvTraining(steps=2)},
    }
    for name in QUICK:
        monkeypatch.setitem(QUICK, name, few[name])
    for name, values in {"gamma": (0.5, 1.0), "r": (0.1,), "w": (32, 64)}.items():
        monkeypatch.setitem(CURVES, name, replace(CURVES[name], values=values))


MAPS: dict[tuple[torch.Size, bytes], list[torch.Tensor]] = {}


@pytest.fixture(autouse=True)
def mapped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows have the weights of one file, and most the same frames: of those, maps are made once."""

    def stage_maps(backbone: Backbone, frames: torch.Tensor) -> list[torch.Tensor]:
        key = (frames.shape, frames.numpy().tobytes())
        if key not in MAPS:
            MAPS[key] = backbones.stage_maps(backbone, frames)
        return [stage.clone() for stage in MAPS[key]]

    for room in ("model.network", "paper.feature_kinds", "compare.visil"):
        monkeypatch.setattr(f"visil.{room}.stage_maps", stage_maps)


def small(places: dict[str, str]) -> list[str]:
    """Words that make a table quick."""
    settings = ("--epochs", "1", "--triplets", "1", "--lr", "0.002")
    return ["--quick", *settings, "--json", "--model", places["SMALL"]]


def table(name: str, places: dict[str, str]) -> list[dict[str, Any]]:
    out, told = run(arguments(TABLES[name], places, *small(places)))
    assert told.splitlines()[0] == "recipe paper, quick: a toy, on efficientnet-lite0"
    found: list[dict[str, Any]] = json.loads(out)["tables"]
    assert all(one["quick"] for one in found)
    assert all(Path(file).stat().st_size > 0 for one in found for file in one["files"])
    return found


DIMS = dict.fromkeys(("MAC", "SPoC", "R-MAC", "GeM"), "1280") | {"iMAC": "472", "L2-iMAC": "4×472"}
DIMS |= {"L2-iMAC reduced": "4×472", "L3-iMAC": "9×472", "L3-iMAC reduced": "9×256"}
"""Of EfficientNet-Lite0, in place of the paper's 2048, 3840, 4×3840, 4×512, 9×3840 and 9×256."""

OURS = {
    "ViSiL_f": "paper-f",
    "ViSiL_f+W": "paper-f+w",
    "ViSiL_f+W+A": "paper-f+w+a",
    "ViSiL_sym": "paper-sym",
}
OURS |= {
    "ViSiL_v": "paper",
    "without L_reg": "paper-without-reg",
    "with L_reg": "paper",
    "MP-AP/MP-AP": "paper",
}
OURS |= {pools: f"paper, {pools}" for pools in ("AP-AP/MP-AP", "MP-AP/AP-AP", "AP-AP/AP-AP")}


@pytest.mark.parametrize("name", [f"table-{number}" for number in range(2, 11)])
def test_a_table_has_the_papers_rows_columns_and_recipes(name: str, places: dict[str, str]) -> None:
    (made,) = table(name, places)
    paper = numbers.TABLES[name]
    assert [row["label"] for row in made["rows"]] == list(paper.rows)
    if name != "table-10":
        assert "Not as the recipes have it: epochs 1, lr 0.002, triplets 1." in made["note"]
    for row in made["rows"]:
        ours, label = row["ours"], row["label"]
        assert "note" not in row, row
        if name == "table-7":
            assert list(ours) == ["mAP", "geyser", "riots"]
        else:
            assert set(paper.columns) <= set(ours)
        shares = [column for column in paper.columns if column in ours and column[-2:] not in (" s", "ms")]
        assert all(0 <= ours[column] <= 1 for column in shares if column != "dims")
        if name == "table-2":
            assert ours["dims"] == DIMS[label]
        recipe = f"{OURS[label]}, quick, changed" if label in OURS else None
        assert row.get("recipe") == recipe
        assert row["paper"] == paper.row(label)


@pytest.mark.parametrize("name", ["figure-1", "figure-4", "figure-5", "figure-6", "figure-7"])
def test_a_figure_is_drawn(name: str, places: dict[str, str]) -> None:
    made, *others = table(name, places)
    if name == "figure-5":
        recipes = [[row["recipe"] for row in one["rows"]] for one in (made, *others)]
        plain = "paper, quick, changed"
        assert recipes == [
            [plain, "paper, margin=1, quick, changed"],
            [plain],
            ["paper, window=32, quick, changed", plain],
        ]
        return
    assert not others
    picture = next(file for file in made["files"] if file.endswith(".png"))
    with Image.open(picture) as image:
        shown = np.asarray(image.convert("RGB")).reshape(-1, 3)
    assert len(np.unique(shown, axis=0)) > 1000, "frames of the videos are in it"
    if name == "figure-4":
        labels = [row["label"] for row in made["rows"]]
        assert "q1, ds2" in labels, "all others have a label of q1's"
        assert "q2, ds2" not in labels
    kinds = [row["label"].split(":")[0] for row in made["rows"]]
    if name == "figure-1":
        assert kinds == ["duplicate scene", "unrelated"]
    if name == "figure-7":
        assert kinds == ["duplicate scene", "complementary scene", "same incident", "unrelated"]


def test_streamed_scores_are_those_of_stored_features(places: dict[str, str], tmp_path: Path) -> None:
    """Table 6 in one pass, LBoW's bags among it, against the same rows from features that were stored."""
    (streamed,) = table("table-6", places)
    line = TABLES["table-6"].replace(" --stream", "").replace("--out $OUT", f"--out {tmp_path}")
    shutil.copytree(Path(places["OUT"]) / "models", tmp_path / "models")
    (stored,) = json.loads(run(arguments(line, places, *small(places)))[0])["tables"]
    assert [row["ours"] for row in streamed["rows"]] == [row["ours"] for row in stored["rows"]]


def test_what_is_streamed_stores_no_features(places: dict[str, str], tmp_path: Path) -> None:
    """Also where a table asks for one row after the other, as Table 10 and the curves do."""
    models = Path(places["OUT"]) / "models"
    if models.exists():  # of tables that were made before: nothing has to be trained
        shutil.copytree(models, tmp_path / "models")
    line = TABLES["table-10"].replace("table-10", "table-10 gamma --values 0.5")
    line = line.replace("--out $OUT", f"--out {tmp_path} --stream")
    streamed, curve = json.loads(run(arguments(line, places, *small(places)))[0])["tables"]
    figures = {task: streamed["rows"][-1]["ours"][task] for task in numbers.FIVR}
    assert [row["ours"] for row in curve["rows"]] == [figures], "one model, by either way"
    assert not list((tmp_path / "cache" / "features").rglob("*.safetensors"))


def test_commands_on_fivr_200k_store_no_features() -> None:
    lines = [line for line in TABLES.values() if "--dataset fivr-200k" in line]
    assert len(lines) == 3
    assert all(line.endswith(" --stream") for line in lines)


def test_a_list_of_fivr_5k_is_made_and_read(places: dict[str, str]) -> None:
    (made,) = table("fivr-5k", places)
    assert [row["label"] for row in made["rows"]] == ["made here", "the published list"]
    ids = next(file for file in made["files"] if file.endswith("fivr-5k.json"))
    assert json.loads(Path(ids).read_text())["query"] == ["q1", "q2"]
    annotations = f"{places['FIVR']}/fivr.pickle"
    scores = Path(ids).with_name("scores.json")
    scores.write_text(json.dumps({"q1": {"nd1": 1.0}, "q2": {"ds2": 1.0}}))
    run(
        ["evaluate", "fivr-5k", "--annotations", annotations, "--ids", ids, "--scores", str(scores), "--json"]
    )


def test_training_whitening_and_one_evaluation(
    places: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("visil-v", "visil-f+w"):
        monkeypatch.setitem(PRESETS, name, PRESETS[name].replaced(sampling=SMALL))
    lite = ("--backbone", LITE)
    _, told = run(arguments(OTHERS["fit-whitening"], places, *lite))
    assert told.splitlines()[0] == "recipe paper: efficientnet-lite0, whitened to 496 dimensions"
    out, told = run(arguments(OTHERS["train"], places, *lite, "--epochs", "1", "--triplets", "2"))
    assert told.splitlines()[0].startswith(
        "recipe paper: efficientnet-lite0, L3-iMAC, whitened to 496 dimensions,"
    )
    assert "annotated but not there" not in told, "names in the annotation have another suffix than the files"
    assert f"{places['OUT']}/paper: epoch 1 was best" in out
    out, told = run(arguments(OTHERS["evaluate"], places, *lite, "--json"))
    answer = json.loads(out)
    assert (answer["model"], answer["queries"], answer["missing_videos"]) == ("paper", 2, 1)
    assert list(answer)[:4] == ["dataset", "DSVR", "CSVR", "ISVR"]
