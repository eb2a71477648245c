"""How far a run is: the one value that knobs and stop rules are functions of."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """How far a run is, counted in whole optimizer steps and samples.

    `step` counts applied optimizer steps, `attempted` also those that the guard dropped. `samples`
    is the cursor of the feed: training rows consumed since the start, over all epochs and ranks.
    """

    step: int = 0
    attempted: int = 0
    samples: int = 0
    epoch: int = 0
