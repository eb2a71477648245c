"""What was done about a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from trainwright.contract.quality import Action, FindingKind
from trainwright.core.files import Json

MOST_LISTED = 100_000
"""More rows than this are not listed; `count` still counts them all."""


@final
@dataclass(frozen=True, slots=True)
class AppliedAction:
    """What one action changed: `rows` are 0-based positions in the training file, of the first
    `MOST_LISTED` that it changed."""

    kind: FindingKind
    action: Action
    message: str
    count: int
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "action": self.action,
            "message": self.message,
            "count": self.count,
            "rows": list(self.rows),
            "columns": list(self.columns),
        }
