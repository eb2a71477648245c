"""State of a plateau schedule."""

from __future__ import annotations

from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.optim.plateau import Plateau


@final
class PlateauState:
    """Best loss, validations since, and number of reductions."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def snapshot(self) -> Snapshot:
        """State of the plateau."""
        return Snapshot(values=self._plateau.values)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        self._plateau.values = snapshot.values
