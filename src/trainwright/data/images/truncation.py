"""Truncation check of image files without decoding."""

from __future__ import annotations

from trainwright.data.images.png import damage_of

_TAIL_BYTES = 64
"""Some writers pad a file: so far from its end its last marker may stand."""


def ends_whole(kind: str, data: bytes) -> bool:
    """Whether a file of a format, as Pillow calls it, ends as a whole one does: by its last marker
    (JPEG, T.81, section B.2.1; GIF 89a, section 27), by its chunks and their checksums (PNG), or by
    the size that it says of itself (WebP, BMP). The end of other formats shows nothing: no."""
    match kind:
        case "JPEG" | "MPO":
            return b"\xff\xd9" in data[-_TAIL_BYTES:]
        case "GIF":
            return data.rstrip(b"\0").endswith(b";")
        case "PNG":
            return not damage_of(data)
        case "WEBP":
            return int.from_bytes(data[4:8], "little") + 8 <= len(data)
        case "BMP":
            return 0 < int.from_bytes(data[2:6], "little") <= len(data)
        case _:
            return False
