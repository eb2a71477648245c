"""Record of an applied quality action."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import final

from trainwright.contract.sections.data.quality import Action, FindingKind
from trainwright.core.files import Json

MOST_LISTED = 100_000
"""Limit of the rows listed; `count` still counts all."""


@final
@dataclass(frozen=True, slots=True)
class AppliedAction:
    """Changes of one action: `rows` are 0-based positions in the training file of the first
    `MOST_LISTED` changed rows."""

    kind: FindingKind
    action: Action
    message: str
    count: int
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The fields by name."""
        return {**asdict(self), "rows": list(self.rows), "columns": list(self.columns)}
