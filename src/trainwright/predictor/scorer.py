"""The seam between what fits a model and what uses one."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainwright.data.base.table import Floats, Inputs


class Scorer(Protocol):
    """A fitted model without its features.

    Implementations give finite scores for any inputs of the shape they were fitted on, for 0 rows
    as well, and the same scores for the same rows whatever stands beside them and how often they
    are asked. `testing/scorer_conformance.py` checks it.
    """

    @property
    def kind(self) -> str:
        """`lightgbm`, `linear`, `network`, `constant` or `frequencies`: how its files are read."""
        ...

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C] (C = 2 for two classes), values [N, 1] in the target's own
        unit, or of a text the summed surprise of each stretch, -log p in nats [N, 1]."""
        ...

    def write(self, folder: Path) -> None:
        """Write its own files into an existing folder; nothing in them is a pickle."""
        ...
