"""Files: atomic writes, reads of regular files only, safe names and paths, hashes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from trainwright.core.errors import DamagedFile, Mistake, Problem, StorageFailed
from trainwright.core.faultpoints import reached
from trainwright.core.limits import MOST_JSON_BYTES

Json = Any
"""Types that `json` reads: None, bool, int, float, str, and lists and string-keyed dicts of
them."""

FILE_MODE, FOLDER_MODE = 0o666, 0o777
"""Mode of the files of a run: the umask decides who else may read them, as teams share run
folders."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@contextmanager
def opened_regular(path: Path, *, follow: bool = True) -> Iterator[BinaryIO]:
    """`path` opened for reading, without blocking.

    Raises:
        OSError: it cannot be opened, or is no regular file; a link is none unless `follow`.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        yield stream


def read_regular(path: Path, most_bytes: int, *, follow: bool = True) -> bytes:
    """Bytes of a regular file.

    Raises:
        OSError: as `opened_regular`. ValueError: it has more than `most_bytes`.
    """
    with opened_regular(path, follow=follow) as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"{path.name} holds more than {most_bytes} bytes")
    return data


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


def check_name(name: str, what: str) -> str:
    """Return `name` unchanged if it is safe as one path component, else raise `Mistake`.

    Allowed are 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit: no separators, no
    hidden or temporary names, no control characters, nothing that file systems normalise
    differently.
    """
    if _NAME.fullmatch(name):
        return name
    raise Mistake(
        Problem(
            f"{what} is not a safe name",
            found=repr(name[:80]),
            expected="1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit",
            fix="choose a name such as 'income-1'",
        )
    )


def child_of(root: Path, name: str, what: str) -> Path:
    """The path of `name` directly inside `root`; a link that leads outside `root` is refused."""
    path = root / check_name(name, what)
    if path.resolve().parent != root.resolve():
        raise Mistake(
            Problem(
                f"{what} leads outside its folder",
                found=f"{path} -> {path.resolve()}",
                expected=f"a folder inside {root}",
                fix="remove the link or choose another name",
            )
        )
    return path
