"""SHA-256 of files and of values, as lower-case hex."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from trainwright.core.files import Json


def hash_bytes(data: bytes | memoryview) -> str:
    """SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def is_unchanged(path: Path, size_bytes: int, sha256: str) -> bool:
    """Does a file have a recorded size and hash? A file of another size is not read: it may be far
    larger."""
    return path.stat().st_size == size_bytes and hash_file(path) == sha256


def hash_value(value: Json) -> str:
    """SHA-256 of a JSON value in canonical form: sorted keys, no spaces."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hash_bytes(text.encode())
