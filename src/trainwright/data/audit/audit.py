"""Every test of the audit, in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from trainwright.contract.data import TableData
from trainwright.data.audit.adversarial import different_rows
from trainwright.data.audit.audited import Audited, Sides
from trainwright.data.audit.columns import function_of_the_target, tells_the_target
from trainwright.data.audit.groups import same_groups
from trainwright.data.audit.rows import near_rows, same_rows
from trainwright.data.audit.times import future_rows, later_times
from trainwright.data.features import Features
from trainwright.data.prepared import Prepared

_TESTS: tuple[Callable[[Sides], list[Audited]], ...] = (
    same_rows,
    near_rows,
    same_groups,
    future_rows,
    tells_the_target,
    function_of_the_target,
    different_rows,
    later_times,
)


def audit(prepared: Prepared, section: TableData) -> tuple[Audited, ...]:
    """Every test of prepared rows, one result or more each. Data that is no table has none."""
    if not isinstance(prepared.features, Features):
        return ()
    sides = _sides(prepared, prepared.features, section)
    return tuple(result for test in _TESTS for result in test(sides))


def _sides(prepared: Prepared, features: Features, section: TableData) -> Sides:
    parts = (prepared.validation, prepared.test)
    names = [
        name
        for name in prepared.train.frame.columns
        if all(name in part.frame.columns for part in parts)
    ]
    return Sides(
        train=prepared.train.frame.select(names),
        held_out=pl.concat([part.frame.select(names) for part in parts]),
        train_places=prepared.train.rows,
        places=np.concatenate([part.rows for part in parts]),
        columns=features.columns,
        target=section.target,
        split=section.split,
        given=bool(section.val_path and section.test_path),
    )
