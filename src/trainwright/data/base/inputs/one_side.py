"""Images or texts alone, as one side of a retrieval."""

from __future__ import annotations

from typing import Literal, NamedTuple, final

import polars as pl

from trainwright.data.base.table import Inputs

Side = Literal["images", "texts", "queries", "passages"]
WantedSide = Literal[Side, "given", "found"]
"""A side; or the one that a file has, and where it has both, what is asked (`given`) or what is
found (`found`)."""


@final
class OneSide(NamedTuple):
    """N images or texts: which they are and what they are compared with, their inputs, what each is
    called [N], and the columns beside them, none where they stand in no table."""

    side: Side
    other: Side
    inputs: Inputs
    names: pl.Series
    frame: pl.DataFrame
