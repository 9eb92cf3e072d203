"""A form with a file in it (``curl -F file=@clip.mp4``), read as it comes: nothing but its small fields is kept."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from visil.web.problems import Problem

FIELD = "file"
"""Name of the field with the file."""
MOST_FIELDS = 32
MOST_TEXT = 65536
"""Bytes of all other fields together."""


class FormFile:
    """The file of a form: :meth:`opened` reads up to it, then it is an iterator of its bytes.

    ``fields`` are those that came before the file, and all once the file is read.
    """

    def __init__(self, content_type: str, body: AsyncIterator[bytes]) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise Problem(422, "That form is not understood: it has no boundary.")
        self.name: str | None = None
        self.fields: dict[str, str] = {}
        self._body = body
        self._chunks: deque[bytes] = deque()
        self._inside = self._ended = False
        self._text = bytearray()
        self._field = ""
        self._kept = 0
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._disposition = b""
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._begin,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._all,
            },
        )

    async def opened(self) -> FormFile:
        """Read as far as to where the file begins."""
        while self.name is None:
            if not await self._more():
                raise Problem(422, f"A form needs a field “{FIELD}” with a file in it.")
        return self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                yield self._chunks.popleft()
            if not await self._more():
                break
        if not self._ended:
            raise Problem(400, "The file did not arrive whole.")

    async def _more(self) -> bool:
        try:
            chunk = await anext(self._body)
            self._parser.write(chunk)
        except StopAsyncIteration:
            return False
        except FormParserError as error:
            raise Problem(422, "That form is not understood.") from error
        return True

    # ------------------------------------------------------------------ what the parser says

    def _header_end(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _begin(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._disposition = b""
        self._field = options.get(b"name", b"").decode("utf-8", "replace")
        self._inside = self._field == FIELD
        self._text.clear()
        if self._inside:
            if self.name is not None:
                raise Problem(422, "A form may hold one file; send several as a batch.")
            self.name = options.get(b"filename", b"").decode("utf-8", "replace") or "video"

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._inside:
            self._chunks.append(data[start:end])
            return
        self._kept += end - start
        if self._kept > MOST_TEXT:
            raise Problem(413, "That request is too long.")
        self._text.extend(data[start:end])

    def _end(self) -> None:
        if not self._inside:
            if len(self.fields) >= MOST_FIELDS:
                raise Problem(422, f"A form may hold {MOST_FIELDS} fields.")
            self.fields[self._field] = self._text.decode("utf-8", "replace")
        self._inside = False

    def _all(self) -> None:
        self._ended = True
