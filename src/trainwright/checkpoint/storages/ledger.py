"""`ledger.jsonl`: log of committed, abandoned, removed and rejected checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, Self, final, get_args

from trainwright.checkpoint.files.file_entry import is_checkpoint
from trainwright.checkpoint.keeping.retention import NotScored, score_from_json, score_to_json
from trainwright.checkpoint.strict_json import Damaged, read_strict
from trainwright.core.files import FILE_MODE, Json, hash_value, sync_folder, write_atomic

Kind = Literal["committed", "abandoned", "removed", "quarantined"]
"""Event of a checkpoint. `abandoned`: the run went back to an earlier step after it."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """Ledger line. `sequence` is that of the checkpoint it is about."""

    kind: Kind
    lineage: str
    sequence: int
    name: str
    manifest_sha256: str
    score: float | NotScored

    @property
    def is_kept(self) -> bool:
        """Should the checkpoint be on the disk?"""
        return self.kind in ("committed", "abandoned")

    def now(self, kind: Kind) -> Self:
        """New line about the same checkpoint."""
        return replace(self, kind=kind)

    def to_bytes(self) -> bytes:
        """The line with its hash and a newline."""
        content = self._content()
        return _spell({**content, "check": hash_value(content)}) + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read a line without its newline.

        Raises:
            Damaged: any bit of it has changed.
        """
        value = read_strict(data)
        try:
            line = cls(
                kind=_kind(value["kind"]),
                lineage=str(value["lineage"]),
                sequence=int(value["sequence"]),
                name=_name(value["name"]),
                manifest_sha256=str(value["manifest_sha256"]),
                score=score_from_json(value["score"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Damaged(f"not a line of the ledger: {error}") from None
        if line.to_bytes() != data + b"\n":
            raise Damaged("not spelt as it was written")
        return line

    def _content(self) -> Json:
        return {**asdict(self), "score": score_to_json(self.score)}


@dataclass(frozen=True, slots=True)
class LedgerContent:
    """Valid lines of a ledger, and its corrupt ones."""

    lines: tuple[LedgerLine, ...]
    damaged: tuple[str, ...]
    torn: bool
    """Was the last line being written when the process died?"""


@final
class Ledger:
    """The ledger file. Every append is durable before it returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> LedgerContent:
        """All lines; empty if there is no file.

        Raises:
            OSError: not readable.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return LedgerContent((), (), torn=False)
        *whole, rest = data.split(b"\n")
        lines: list[LedgerLine] = []
        damaged: list[str] = []
        for number, text in enumerate(whole, start=1):
            try:
                lines.append(LedgerLine.from_bytes(text))
            except Damaged as error:
                damaged.append(f"{self.path.name}:{number}: {error}")
        with contextlib.suppress(Damaged):
            # A complete line plus one byte was not truncated: its newline has changed.
            lines.append(LedgerLine.from_bytes(rest[:-1]))
            damaged.append(f"{self.path.name}:{len(whole) + 1}: its newline is another byte")
        return LedgerContent(tuple(lines), tuple(damaged), torn=bool(rest))

    def append(self, lines: Sequence[LedgerLine]) -> None:
        """Append lines.

        Raises:
            OSError: the file is unchanged.
        """
        descriptor = os.open(self.path, _FLAGS, FILE_MODE)
        try:
            before = os.fstat(descriptor).st_size
            try:
                rest = memoryview(b"".join(line.to_bytes() for line in lines))
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, before)
                raise
        finally:
            os.close(descriptor)
        if before == 0:
            sync_folder(self.path.parent)

    def rewrite(self, lines: Sequence[LedgerLine]) -> None:
        """Replace the whole file atomically.

        Raises:
            StorageFailed: the file is unchanged.
        """
        write_atomic(self.path, b"".join(line.to_bytes() for line in lines))


def _name(value: Json) -> str:
    if not isinstance(value, str) or not is_checkpoint(value):
        raise ValueError(f"{value!r:.60} is no name of a checkpoint")
    return value


def _kind(value: Json) -> Kind:
    if value not in get_args(Kind):
        raise ValueError(f"{value!r} is no kind of line")
    kind: Kind = value
    return kind


def _spell(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
