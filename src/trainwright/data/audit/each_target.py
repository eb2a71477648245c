"""The leakage audit of each of several targets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.split_sides import Sides
from trainwright.data.columns.target_kind import Target
from trainwright.data.types import Prepared


def sides_of_targets(sides: Sides, prepared: Prepared) -> Mapping[str, Sides]:
    """Both sides of a split for each target, by its name: a column of numbers, or of labels with
    the classes 0 and 1."""
    target = prepared.target
    held_out = np.concatenate([prepared.validation.target, prepared.test.target])
    found = {}
    for at, name in enumerate(target.target_names):
        column = f"{target.column} = {name}" if target.target_columns == (target.column,) else name
        found[name] = replace(
            sides,
            train=_with_target(sides.train, target, column, prepared.train.target[:, at]),
            held_out=_with_target(sides.held_out, target, column, held_out[:, at]),
            target=column,
        )
    return found


def _with_target(
    frame: pl.DataFrame, target: Target, name: str, values: npt.NDArray[np.float64 | np.int64]
) -> pl.DataFrame:
    series = pl.Series(name, values)
    return frame.with_columns(series.cast(pl.String) if target.task == "multilabel" else series)


def audit_each(
    test: Callable[[Sides], list[AuditResult]], each: Mapping[str, Sides]
) -> list[AuditResult]:
    """What a test finds for each target, with its name; of a test that finds nothing, the target
    that came nearest to a finding."""
    found = [
        replace(result, message=f"target {name!r}: {result.message}")
        for name, sides in each.items()
        for result in test(sides)
    ]
    bad = [one for one in found if one.verdict != "clean"]
    return bad or [max(found, key=lambda one: one.number)]
