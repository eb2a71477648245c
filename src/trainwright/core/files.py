"""Atomic file writes, and disk errors under one name."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.core.errors import DamagedFile, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.limits import MOST_JSON_BYTES
from trainwright.core.regular_files import read_regular

Json = Any
"""Types that `json` reads: None, bool, int, float, str, and lists and string-keyed dicts of
them."""

FILE_MODE, FOLDER_MODE = 0o666, 0o777
"""Mode of the files of a run: the umask decides who else may read them, as teams share run
folders."""


@contextlib.contextmanager
def storage_errors(doing: str) -> Iterator[None]:
    """Convert an operating-system error inside the block to `StorageFailed`."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(f"{doing}: {error.strerror or error}") from error


def read_umask() -> int:
    """The process's umask, which can otherwise only be read by changing it."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("Umask:"):
                return int(line.partition(":")[2], 8)
    return 0o077


@contextlib.contextmanager
def damage_in(path: Path) -> Iterator[None]:
    """Convert what the content of a file of a run raises inside the block to `DamagedFile`."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        said = (str(error).splitlines() or [""])[0]
        raise DamagedFile(
            f"{path} is damaged ({type(error).__name__}: {said:.200}): put back the run's own"
        ) from error


def sync_folder(folder: Path) -> None:
    """Make renames and new names inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes) -> None:
    """Write `data` to a new or truncated `path` and wait until it is durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def write_atomic(path: Path, data: bytes, *, by_clock: bool = False) -> None:
    """Replace `path` by `data` atomically: a reader or a crash sees the old bytes or the new.

    A write `by_clock` is not one of the fault points, which are counted.

    Raises:
        StorageFailed: `path` is unchanged and no partial file is left.
    """
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    with storage_errors(f"writing {path}"):
        try:
            write_synced(temporary, data)
            if not by_clock:
                reached("file.replace")
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """`write_atomic` for text, in UTF-8."""
    write_atomic(path, text.encode())


def to_json(value: Json) -> str:
    """Strict JSON with sorted keys; a non-finite number is a programming error here."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Json) -> None:
    """`write_atomic` for strict JSON with sorted keys."""
    write_text(path, to_json(value))


def read_json(path: Path) -> Json:
    """Read strict JSON: `NaN`, `Infinity`, a number beyond 64-bit floats and a key that stands
    twice are refused.

    Raises:
        ValueError: not JSON. OSError: not readable.
    """
    return parse_json(read_regular(path, MOST_JSON_BYTES))


def parse_json(data: bytes | str) -> Json:
    """`read_json` for text in memory.

    Raises:
        ValueError: not JSON.
    """
    try:
        return json.loads(
            data, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_each_once
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.40} is not finite")
    return value


def _each_once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return found
