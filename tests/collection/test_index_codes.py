"""A collection whose features are kept in fewer bytes: files, answers, damage, and the choice that stays."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import visil
from visil.collection.catalogue import Catalogue
from visil.collection.feature_writer import HEADER_BYTES
from visil.collection.store import CHUNK, FeatureStore
from visil.compare.visil import ViSiL
from visil.errors import IndexFolderError, ModelError, UsageError
from visil.model.codes import KINDS, Codes, checked, decode, encode

from .conftest import Command
from .inside import part

CODED: tuple[Codes, ...] = ("int8", "binary")
VIDEO = "ab" * 16


@pytest.fixture(scope="module")
def kept(
    built: Path, videos: Path, model: ViSiL, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The same videos in a collection of each kind; no test changes it."""
    folders = {"fp16": Path(shutil.copytree(built, tmp_path_factory.mktemp("fp16") / "i"))}
    for kind in CODED:
        folders[kind] = tmp_path_factory.mktemp(kind) / "i"
        with visil.Index(folders[kind], model=model, codes=kind) as index:
            assert index.add([videos / "copies", videos / "alone" / "retina.mp4"], workers=1).added == 4
    return folders


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Codes:
    return checked(request.param)


@pytest.fixture
def copy(kept: dict[str, Path], kind: Codes, tmp_path: Path) -> Path:
    """A collection of a kind to do things to."""
    return Path(shutil.copytree(kept[kind], tmp_path / "i"))


def written(folder: Path, kind: Codes, shape: tuple[int, int, int]) -> tuple[FeatureStore, torch.Tensor]:
    """A file written in parts of three frames; and what went in."""
    store = FeatureStore(folder, kind)
    vectors = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0]))
    times, blank = np.arange(shape[0], dtype=np.float64) + 0.5, torch.arange(shape[0]) % 3 == 1
    writer = store.writer(VIDEO)
    for start in range(0, shape[0], 3):
        part = slice(start, start + 3)
        writer.append(vectors[part], times[part], blank[part])
    assert writer.finish(shape[0] + 0.25) == shape[0]
    return store, vectors


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("frames", range(1, 9))  # every padding of the time stamps
def test_any_safetensors_reader_can_read_codes(tmp_path: Path, kind: Codes, frames: int) -> None:
    store, vectors = written(tmp_path, kind, (frames, 3, 5))
    tensors = load_file(store.path(VIDEO))
    tensors.pop("gap", None)
    expected = encode(vectors, kind)
    if expected.scales is None:
        assert tensors.keys() == {"vectors", "timestamps", "blank"}
    else:
        assert tensors.keys() == {"codes", "scales", "timestamps", "blank"}
        assert torch.equal(tensors["codes"], expected.values)
        assert torch.equal(tensors["scales"], expected.scales)
    assert tensors["timestamps"].tolist() == [n + 0.5 for n in range(frames)]
    assert tensors["blank"].tolist() == [n % 3 == 1 for n in range(frames)]
    read = store.read(VIDEO)
    assert torch.equal(read.vectors, decode(expected))
    assert (read.duration, len(read)) == (frames + 0.25, frames)
    assert store.sound(VIDEO) is None
    assert torch.equal(FeatureStore(tmp_path).read(VIDEO).vectors, read.vectors), "a file says what it is"


def test_the_bytes_of_an_fp16_file(tmp_path: Path) -> None:
    """Laid out by hand, as it is in every collection; older files do not name their video."""
    store, vectors = written(tmp_path, "fp16", (2, 1, 3))
    body = vectors.numpy().astype("<f2").tobytes()
    times, blank = np.array([0.5, 1.5], "<f8").tobytes(), b"\x00\x01"
    checksum = zlib.crc32(body + times + blank)
    header = (
        '{"__metadata__": {"format": "pt", "duration": "2.25", "video": "' + VIDEO + '", '
        '"checksum": "' + str(checksum) + '"}, '
        '"vectors": {"dtype": "F16", "shape": [2, 1, 3], "data_offsets": [0, 12]}, '
        '"gap": {"dtype": "U8", "shape": [4], "data_offsets": [12, 16]}, '
        '"timestamps": {"dtype": "F64", "shape": [2], "data_offsets": [16, 32]}, '
        '"blank": {"dtype": "BOOL", "shape": [2], "data_offsets": [32, 34]}}'
    )
    expected = (1024).to_bytes(8, "little") + header.encode().ljust(1024) + body + bytes(4) + times + blank
    assert store.path(VIDEO).read_bytes() == expected


@pytest.mark.parametrize("kind", CODED)
def test_a_long_file_is_decoded_in_parts(tmp_path: Path, kind: Codes) -> None:
    store, vectors = written(tmp_path, kind, (CHUNK + 7, 2, 9))
    assert torch.equal(store.read(VIDEO).vectors, decode(encode(vectors, kind)))
    assert store.sound(VIDEO) is None


def test_every_flipped_byte_is_found(tmp_path: Path, kind: Codes) -> None:
    store, _ = written(tmp_path, kind, (2, 2, 11))
    file = store.path(VIDEO)
    data = file.read_bytes()
    header = json.loads(data[8 : 8 + HEADER_BYTES])
    gap = range(*header["gap"]["data_offsets"]) if "gap" in header else ()
    for place in range(8 + HEADER_BYTES, len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 0x01
        file.write_bytes(flipped)
        if place - 8 - HEADER_BYTES not in gap:
            assert "damaged" in (store.sound(VIDEO) or "sound"), place
    file.write_bytes(data)
    assert store.sound(VIDEO) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"codes": "binary"', b'"codes": "int8"  '),
        (b'"codes": "binary"', b'"codes": "bimary"'),
        (b'"channels": "11"', b'"channels": "13"'),
        (b'"channels": "11"', b'"channels": "1x"'),
        (b'"channels"', b'"channelz"'),
        (b'"scales"', b'"scalez"'),
    ],
)
def test_a_header_that_says_something_else(tmp_path: Path, before: bytes, after: bytes) -> None:
    store, _ = written(tmp_path, "binary", (2, 2, 11))
    file = store.path(VIDEO)
    data = file.read_bytes()
    assert data.count(before) == 1
    file.write_bytes(data.replace(before, after))
    assert "damaged" in (store.sound(VIDEO) or "sound")
    if after != b'"channels": "13"':  # fits into as many bytes: only the checksum tells
        with pytest.raises(IndexFolderError, match="is damaged"):
            store.read(VIDEO)


def test_features_that_are_not_finite_are_refused(tmp_path: Path, kind: Codes) -> None:
    writer = FeatureStore(tmp_path, kind).writer(VIDEO)
    with pytest.raises(UsageError, match="cannot be stored"):
        writer.append(torch.full((1, 2, 3), torch.nan), np.zeros(1), torch.zeros(1, dtype=torch.bool))
    writer.discard()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# ---------------------------------------------------------------------- answers


def test_copies_are_found(kept: dict[str, Path], kind: Codes, videos: Path, run: Command) -> None:
    copies = {str(path) for path in (videos / "copies").iterdir()}
    for how in ([], ["--exhaustive"]):
        hits = run("search", kept[kind], videos / "copies" / "cut.mp4", "--json", *how).json["hits"]
        assert {hit["path"] for hit in hits[:3]} == copies
        assert {hit["verdict"] for hit in hits[:3]} <= {"copy", "related"}
        assert hits[3]["verdict"] == "unrelated"
        whole = next(hit for hit in hits if hit["path"].endswith("cat.mp4"))
        (start, end) = whole["segments"][0]["target"]
        assert (start, end) == pytest.approx((1, 6), abs=1)
    groups = run("duplicates", kept[kind], "--min-confidence", "0.2", "--json").json["groups"]
    grouped = [{video["path"] for video in group["videos"]} for group in groups]
    # Signs tell less than the reader was taught on: the three are linked, or two of them.
    assert copies in grouped or (kind == "binary" and any(len(copies & group) > 1 for group in grouped))


def test_a_query_that_is_not_in_the_collection(
    kept: dict[str, Path], kind: Codes, videos: Path, tmp_path: Path, run: Command
) -> None:
    """The query is as the model gives it, the collection as it was kept."""
    query = shutil.copy(videos / "copies" / "cut.mp4", tmp_path / "other.mp4")
    hits = run("search", kept[kind], query, "--json").json["hits"]
    assert {hit["path"] for hit in hits[:3]} == {str(path) for path in (videos / "copies").iterdir()}


def test_verify_finds_a_flipped_byte(
    copy: Path, kind: Codes, videos: Path, model: ViSiL, run: Command
) -> None:
    assert run("verify", copy).out == "sound\n"
    victim = videos / "alone" / "retina.mp4"
    with visil.Index(copy, model=model) as index:
        file = index.store.path(index.video(str(victim)).id)
    data = bytearray(file.read_bytes())
    data[8 + HEADER_BYTES + 99] ^= 0x04
    file.write_bytes(data)
    (problem,) = run("verify", copy, "--json").json["problems"]
    assert problem["what"] == str(victim)
    assert "checksum" in problem["reason"]
    assert run("verify", copy, "--repair").status == 0
    assert run("add", copy, victim, "--json").json["added"] == 1
    assert run("verify", copy).out == "sound\n"
    assert ("codes" in load_file(file)) == (kind in CODED), "what is made anew is of the same kind"


# ---------------------------------------------------------------------- the choice


def test_info_says_it_and_the_files_are_as_small(
    kept: dict[str, Path], kind: Codes, videos: Path, model: ViSiL, run: Command
) -> None:
    assert run("info", kept[kind], "--json").json["codes"] == kind
    assert f"features as {kind}\n" in run("info", kept[kind]).out
    with visil.Index(kept[kind], model=model) as index:
        video = index.video(str(videos / "copies" / "cat.mp4"))
        size = index.store.path(video.id).stat().st_size
        regions = index.features(video.path).vectors.shape[1]
    a_vector = {"fp16": 2 * model.dim, "int8": model.dim + 2, "binary": -(-model.dim // 8) + 2}[kind]
    expected = 8 + HEADER_BYTES + video.frames * (regions * a_vector + 8 + 1)
    assert expected <= size < expected + 8


def test_another_kind_is_refused(kept: dict[str, Path], kind: Codes, videos: Path, run: Command) -> None:
    folder = kept[kind]
    for other in KINDS:
        done = run("add", folder, videos / "copies", "--codes", other)
        if other == kind:
            assert done.status == 0
        else:
            assert done.line.startswith(f"visil: {folder}: keeps its features as {kind}, not {other}; ")
    assert run("add", folder, videos / "copies", "--json").json["unchanged"] == 3, "not asked: as it is"
    assert run("info", folder, "--json").json["codes"] == kind


def test_the_choice_is_kept_from_the_beginning(
    tmp_path: Path, model: ViSiL, videos: Path, run: Command
) -> None:
    visil.Index(tmp_path / "i", codes="binary").close()
    with pytest.raises(IndexFolderError, match="keeps its features as binary, not int8"):
        visil.Index(tmp_path / "i", codes="int8")
    assert run("add", tmp_path / "i", videos / "alone" / "retina.mp4").status == 0
    assert run("info", tmp_path / "i", "--json").json["codes"] == "binary"


def test_a_collection_from_before_there_was_a_choice_is_fp16(
    folder: Path, model: ViSiL, videos: Path
) -> None:
    with visil.Index(folder, model=model) as index, part(index).catalogue.database.writing() as db:
        db.execute("DELETE FROM meta WHERE key = 'codes'")
    with pytest.raises(IndexFolderError, match="keeps its features as fp16, not int8"):
        visil.Index(folder, model=model, codes="int8")
    with visil.Index(folder, model=model, codes="fp16") as index:
        assert index.info().codes == "fp16"
        assert index.search(videos / "copies" / "cut.mp4", k=1)


def test_who_opened_it_before_the_choice_adds_what_was_chosen(
    tmp_path: Path, model: ViSiL, videos: Path
) -> None:
    with visil.Index(tmp_path / "i", model=model) as early:
        visil.Index(tmp_path / "i", codes="int8").close()
        early.add(videos / "alone" / "retina.mp4", workers=1)
        (file,) = early.store.ids()
        assert "codes" in load_file(early.store.path(file))


def test_of_two_who_choose_at_once_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visil.Index(tmp_path / "i", codes="int8").close()
    real, looks = Catalogue.fact, iter([None])  # the second looked before the first had chosen

    def fact(self: Catalogue, key: str) -> str | None:
        return next(looks, real(self, key))

    monkeypatch.setattr(Catalogue, "fact", fact)
    with pytest.raises(IndexFolderError, match="keeps its features as int8, not binary"):
        visil.Index(tmp_path / "i", codes="binary")


def test_unknown_kinds(tmp_path: Path, run: Command, folder: Path, model: ViSiL) -> None:
    with pytest.raises(UsageError, match="must be one of fp16, int8, binary"):
        visil.Index(tmp_path / "i", codes="int4")  # type: ignore[arg-type]
    done = run("add", tmp_path / "i", "x.mp4", "--codes", "int4")
    assert (done.status, done.out) == (2, "")
    assert not (tmp_path / "i").exists()
    with visil.Index(folder, model=model) as index:
        index.catalogue.set_fact("codes", "int4")
    assert "keeps its features as int4: of a newer visil" in run("info", folder).line


def test_binary_needs_a_model_that_whitens(tmp_path: Path, videos: Path) -> None:
    plain = ViSiL(visil.ViSiLConfig(name="plain", backbone="efficientnet-lite0", stages=(3,)))
    with (
        visil.Index(tmp_path / "i", model=plain, codes="binary") as index,
        pytest.raises(ModelError, match="binary codes need a model that whitens, and plain does not"),
    ):
        index.add(videos / "alone" / "retina.mp4")
