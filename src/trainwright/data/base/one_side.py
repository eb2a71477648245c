"""Images or texts alone, as one side of a retrieval."""

from __future__ import annotations

from typing import Literal, NamedTuple, final

import polars as pl

from trainwright.data.base.table import Inputs

Side = Literal["images", "texts"]
WantedSide = Literal[Side, "given"]
"""A side, or the one that a file has."""


@final
class OneSide(NamedTuple):
    """N images or texts: which they are, their inputs, what each is called [N], and the columns
    beside them, none where they stand in no table."""

    side: Side
    inputs: Inputs
    names: pl.Series
    frame: pl.DataFrame
