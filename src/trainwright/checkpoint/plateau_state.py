"""The state of a schedule that depends on the validation losses."""

from __future__ import annotations

from typing import final

from trainwright.checkpoint.state import Snapshot
from trainwright.optim.plateau import Plateau


@final
class PlateauState:
    """Best loss, validations since, and falls of a plateau."""

    def __init__(self, plateau: Plateau) -> None:
        self._plateau = plateau

    def snapshot(self) -> Snapshot:
        """What the plateau was told so far."""
        return Snapshot(values=self._plateau.values)

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from it."""
        self._plateau.values = snapshot.values
