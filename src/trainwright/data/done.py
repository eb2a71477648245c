"""What was done about a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from trainwright.contract.quality import Action, FindingKind
from trainwright.core.files import Json

_MOST_ROWS = 100_000


@final
@dataclass(frozen=True, slots=True)
class Done:
    """What one action changed: `rows` are 0-based positions in the training file."""

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
            "rows": list(self.rows[:_MOST_ROWS]),
            "columns": list(self.columns),
        }
