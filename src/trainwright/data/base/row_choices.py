"""What `auto` means by the rows, for the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from trainwright.core.files import Json

Choices = Mapping[str, tuple[Json, str]]
"""Values by their path, with the reason."""


@final
@dataclass(frozen=True, slots=True)
class KnownChoices:
    """Those for models of trees and for others, as they were found before."""

    of_trees: Choices = field(default_factory=dict)
    of_others: Choices = field(default_factory=dict)

    def __call__(self, of_trees: bool) -> Choices:
        """Those of one of both."""
        return self.of_trees if of_trees else self.of_others
