"""A feature file of which only some bytes are read: its header first, then the rows that are wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from visil.collection.feature_writer import HEADER_BYTES
from visil.model.codes import Coded, checked, decode
from visil.model.features import VideoFeatures

DTYPES = {
    "F16": torch.float16,
    "F64": torch.float64,
    "BOOL": torch.bool,
    "I8": torch.int8,
    "U8": torch.uint8,
}

LONGEST_HEADER = 1 << 20
"""Bytes; more than that is no header of ours."""


class RangedFeatures:
    """``read(start, stop)`` gives bytes of a safetensors file as :mod:`visil.collection.store` writes them.

    What is no such file raises ValueError, KeyError or TypeError.
    """

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        self._read = read
        head = read(0, 8 + HEADER_BYTES)
        length = int.from_bytes(head[:8], "little")
        if length > LONGEST_HEADER:
            raise ValueError("no header")
        if 8 + length > len(head):
            head += read(len(head), 8 + length)
        self._header: dict[str, Any] = json.loads(head[8 : 8 + length])
        self._data = 8 + length
        self.metadata: dict[str, str] = self._header["__metadata__"]

    def rows(self, name: str, start: int = 0, stop: int | None = None) -> Tensor:
        """Rows ``start`` to ``stop`` of a tensor; all of it by default."""
        entry = self._header[name]
        dtype = DTYPES[entry["dtype"]]
        count, *shape = entry["shape"]
        low, high = entry["data_offsets"]
        stop = count if stop is None else stop
        if not 0 <= start < stop <= count or (high - low) % count:
            raise ValueError("no such rows")
        row = (high - low) // count
        first = self._data + low
        data = self._read(first + start * row, first + stop * row)
        if len(data) != (stop - start) * row:
            raise ValueError("shorter than it says")
        return torch.frombuffer(bytearray(data), dtype=dtype).view(stop - start, *shape)

    def middle(self) -> VideoFeatures | None:
        """The middle one of the frames that are not blank, as a video of one frame; None where all are."""
        shown = (~self.rows("blank")).nonzero()[:, 0]
        if not len(shown):
            return None
        place = int(shown[len(shown) // 2])
        vectors = self._vectors(place)
        return VideoFeatures(
            vectors, torch.zeros(1, dtype=torch.float64), blank=torch.zeros(1, dtype=torch.bool)
        )

    def _vectors(self, place: int) -> Tensor:
        if "codes" not in self.metadata:
            return self.rows("vectors", place, place + 1)
        kind, channels = checked(self.metadata["codes"]), int(self.metadata["channels"])
        codes, scales = self.rows("codes", place, place + 1), self.rows("scales", place, place + 1)
        return decode(Coded(kind, codes, scales, channels)).half()
