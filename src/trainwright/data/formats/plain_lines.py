"""Detection of delimited text with one record per line, without parsing fields."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_BLOCK_BYTES = 8 * 2**20
_LINE_FEED = 10
_SPECIAL = (b'"', b"\r", b"\0")


def count_plain_lines(file: Path, separator: str, width: int) -> int:
    """How many lines a text has, each of `width` fields; 0 where a reader of records may see it in
    another way: it has quotes, other line ends, letters beyond ASCII, a line of other width or of
    more than 8 MiB, or one field a line, where a blank one is hard to tell."""
    if width < 2 or not separator.isascii():
        return 0
    lines, rest = 0, b""
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            text = rest + block
            end = text.rfind(b"\n") + 1
            found = _lines_of(text[:end], separator, width) if end else 0
            lines, rest = lines + found, text[end:]
            if (end and not found) or len(rest) > _BLOCK_BYTES:
                return 0
    if not rest:
        return lines
    last = _lines_of(rest + b"\n", separator, width)
    return lines + last if last else 0


def _lines_of(text: bytes, separator: str, width: int) -> int:
    """The lines of a text that ends with one, or 0 where one is not plain."""
    if not text.isascii() or any(mark in text for mark in _SPECIAL):
        return 0
    letters = np.frombuffer(text, dtype=np.uint8)
    marks = letters[(letters == _LINE_FEED) | (letters == ord(separator))] == _LINE_FEED
    # Every `width`-th mark ends a line, and no other one does.
    lines = len(marks) // width
    plain = len(marks) == lines * width and marks.reshape(lines, width)[:, -1].all()
    return lines if plain and int(marks.sum()) == lines else 0
