"""The authors' pickles, read as data: a pickle is a program, and here it may build plain containers only."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

from visil.errors import FileError, os_reason

SCALARS = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
"""Kinds of numpy numbers that are read."""


def read_pickle(path: str | os.PathLike[str]) -> object:
    """The content of a pickle: containers, strings, numbers. Anything else it asks for is refused, never called."""
    try:
        with open(path, "rb") as file:
            return _Plain(file).load()
    except OSError as error:
        raise FileError(path, f"cannot be read: {os_reason(error)}") from error
    except _Refused as error:
        raise FileError(path, f"asks for {error}, which no annotation needs: not read") from error
    except Exception as error:  # damaged ones fail in any way
        raise FileError(path, "is no pickle, or a damaged one: fetch it again") from error


class _Refused(pickle.UnpicklingError):
    """A pickle wants something that is not plain data."""


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case ("builtins" | "__builtin__", "set"):
                return set
            case ("builtins" | "__builtin__", "frozenset"):
                return frozenset
            case ("numpy", "dtype"):
                return _NumberKind()
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar"):
                return _Number()
        raise _Refused(f"{module}.{name}"[:100])

    def persistent_load(self, _: Any) -> Any:
        raise _Refused("an object outside the file")


class _Sealed:
    """Something to call that a pickle cannot change."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise _Refused("a change of what reads it")


class _NumberKind(_Sealed):
    """Stands in for ``numpy.dtype``."""

    __slots__ = ()

    def __call__(self, code: object, *_: object) -> _Kind:
        if code not in SCALARS:
            raise _Refused(f"numpy numbers of kind {str(code)[:20]!r}")
        return _Kind(str(code))


class _Kind:
    """A kind of number; numpy pickles its byte order as state."""

    __slots__ = ("code", "order")

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "<"

    def __setstate__(self, state: object) -> None:
        if not (isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|", "=")):
            raise _Refused("a numpy number of unknown byte order")
        self.order = str(state[1])


class _Number(_Sealed):
    """Stands in for what makes numpy's scalars; gives Python's own numbers."""

    __slots__ = ()

    def __call__(self, kind: object, raw: object) -> float | int | bool:
        if not isinstance(kind, _Kind) or not isinstance(raw, bytes):
            raise _Refused("a numpy number that is none")
        (value,) = np.frombuffer(raw, np.dtype(kind.order + kind.code)).tolist()
        return value
