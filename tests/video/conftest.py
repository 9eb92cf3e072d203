"""What several tests of video share."""

from __future__ import annotations

import pytest

from visil.video import decoding as decoding_module


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one for every frame decoded."""
    count: list[int] = []
    decode_on = decoding_module.Decoder.decode_on

    def counting(self: decoding_module.Decoder):  # type: ignore[no-untyped-def]
        for frame in decode_on(self):
            count.append(1)
            yield frame

    monkeypatch.setattr(decoding_module.Decoder, "decode_on", counting)
    return count
