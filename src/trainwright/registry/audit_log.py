"""The log of a registry: lines that are only ever added, each with the hash of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, final

from trainwright.core.files import Json, hash_value

Event = Literal["added", "promoted", "refused", "undecided", "rolled_back"]
FIRST_HASH = "0" * 64
"""What the first line has in place of a hash."""


@final
@dataclass(frozen=True, slots=True)
class LogLine:
    """What happened to a version of a model, when (UTC), by whom and why; `version_before` was in
    use, 0 if none. `gate` are the clauses of a promotion."""

    number: int
    time: str
    user: str
    event: Event
    model: str
    version: int
    version_before: int
    reason: str
    gate: Json
    previous: str
    hash: str = ""

    def compute_hash(self) -> str:
        """SHA-256 of the line with the hash of the one before."""
        line = asdict(self)
        del line["hash"]
        return hash_value(line)


def find_broken_links(log: Sequence[LogLine]) -> list[str]:
    """What shows that lines were changed, removed or put in, from the first on."""
    problems = []
    previous = FIRST_HASH
    for number, line in enumerate(log, 1):
        if line.number != number:
            problems.append(f"line {number} is missing: {line.number} follows")
            break
        if line.previous != previous:
            problems.append(f"line {number} does not follow the line before it")
        if line.hash != line.compute_hash():
            problems.append(f"line {number} was changed")
        previous = line.hash
    return problems
