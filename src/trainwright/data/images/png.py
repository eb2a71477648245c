"""Truncation and checksum check of PNG files."""

from __future__ import annotations

import struct
import zlib

_SIGNATURE_BYTES = 8
_HEAD, _SUM = struct.Struct(">I4s"), struct.Struct(">I")
_LAST = b"IEND"


def damage_of(data: bytes) -> str:
    """What is wrong with the chunks of a PNG file (PNG 1.2, section 3.2): one that ends early, has
    another checksum than it says, or no last one; empty if nothing is."""
    at = _SIGNATURE_BYTES
    view = memoryview(data)
    while at + _HEAD.size <= len(data):
        length, kind = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + length
        name = kind.decode("latin-1")
        if end + _SUM.size > len(data):
            return f"a chunk {name!r} of {length:,} bytes ends early"
        # Chunks that a reader may pass over begin with a small letter.
        critical = name[:1].isupper()
        if critical and zlib.crc32(view[at + 4 : end]) != _SUM.unpack_from(data, end)[0]:
            return f"a chunk {name!r} does not have the checksum that it says"
        if kind == _LAST:
            return ""
        at = end + _SUM.size
    return "the last chunk is missing"
