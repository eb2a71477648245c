"""Result of the quality actions of a contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import polars as pl

from trainwright.data.base.applied_actions import AppliedAction
from trainwright.data.base.table import Integers
from trainwright.data.columns.winsorize import Limit


@final
@dataclass(frozen=True, slots=True)
class Acted:
    """Result of the quality actions: the training rows and their `places` (positions in their
    file), the `columns` that are no longer features, and the `limits` of the features."""

    train: pl.DataFrame
    places: Integers
    columns: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    done: tuple[AppliedAction, ...] = ()
