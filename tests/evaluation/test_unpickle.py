"""Pickles of the layouts that annotations have, and pickles that are programs."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from visil.errors import FileError
from visil.evaluation.unpickle import read_pickle

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner) | st.sets(st.text())
    ),
    max_leaves=20,
)


@given(PLAIN, st.integers(0, pickle.HIGHEST_PROTOCOL))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_plain_data_comes_back(tmp_path: Path, content: object, protocol: int) -> None:
    file = tmp_path / "plain.pickle"
    file.write_bytes(pickle.dumps(content, protocol))
    assert read_pickle(file) == content


@pytest.mark.parametrize(
    "number", [np.float64(0.25), np.float32(0.5), np.int64(-7), np.uint8(9), np.bool_(True)]
)
def test_numpy_numbers_become_python_numbers(tmp_path: Path, number: Any) -> None:
    file = tmp_path / "numbers.pickle"
    for protocol in (3, 4):
        file.write_bytes(pickle.dumps([number], protocol))
        read = read_pickle(file)
        assert read == [number.item()]
        assert isinstance(read, list)
        assert type(read[0]) is type(number.item())
    # As numpy before 2 called the same function.
    file.write_bytes(pickle.dumps([number], 3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert read_pickle(file) == [number.item()]


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.function, self.arguments


def adversarial(witness: Path) -> dict[str, bytes]:
    touch = f"touch {witness}"
    return {
        "os.system": pickle.dumps(Call(os.system, touch)),
        "eval": pickle.dumps(Call(eval, f"open({str(witness)!r}, 'w')")),
        "old eval": b"c__builtin__\neval\n(S\"open('" + os.fsencode(witness) + b"','w')\"\ntR.",
        "inside a list": pickle.dumps({"annotation": [1, Call(os.system, touch)]}),
        "numpy.load": pickle.dumps(Call(np.load, str(witness))),
        "an object array": pickle.dumps(np.array([Call(os.system, touch)], object)),
        "getattr": pickle.dumps(Call(getattr, {}, "items")),
        "a class": pickle.dumps(Path(witness)),
        "an object outside": b"Pthing\n.",
        "instance": b"(S'" + os.fsencode(touch) + b"'\nios\nsystem\n.",
        "changed reader": b"cnumpy\ndtype\n}X\x04\x00\x00\x00codeK\x01sb.",
        "odd dtype": b"cnumpy\ndtype\n(X\x01\x00\x00\x00OtR.",
        "extension": b"\x82\x01.",
    }


@pytest.mark.parametrize("name", adversarial(Path("x")))
def test_programs_are_not_run(tmp_path: Path, name: str) -> None:
    witness = tmp_path / "witness"
    file = tmp_path / "bad.pickle"
    file.write_bytes(adversarial(witness)[name])
    with pytest.raises(FileError) as said:
        read_pickle(file)
    assert str(said.value).startswith(f"{file}: ")
    assert "\n" not in str(said.value)
    assert not witness.exists()


def test_the_refused_thing_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bad.pickle"
    file.write_bytes(pickle.dumps(Call(os.system, "true")))
    with pytest.raises(FileError, match=r"asks for posix\.system"):
        read_pickle(file)


def test_damaged_and_missing(tmp_path: Path) -> None:
    whole = pickle.dumps({"index": list(range(300)), "queries": ["a"] * 5})
    file = tmp_path / "cut.pickle"
    for size in (0, 1, 2, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(FileError, match="damaged"):
            read_pickle(file)
    for content in (
        b"not a pickle",
        b'{"a": 1}',
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\xff" * 50,
    ):
        file.write_bytes(content)
        with pytest.raises(FileError):
            read_pickle(file)
    with pytest.raises(FileError, match="no such file"):
        read_pickle(tmp_path / "none.pickle")
    with pytest.raises(FileError, match="directory"):
        read_pickle(tmp_path)
