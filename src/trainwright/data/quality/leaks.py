"""Columns that give the target away, as findings."""

from __future__ import annotations

import polars as pl

from trainwright.data.columns import ColumnType
from trainwright.data.leakage import find_leaks, find_suspicions
from trainwright.data.quality.examined import Examined
from trainwright.data.quality.finding import Finding

_FIX = "list the column in data.exclude if it is not known when a prediction is made"


def leaks(data: Examined) -> list[Finding]:
    """Columns that determine the target, and columns that follow it suspiciously closely."""
    if data.task == "none":
        return []
    looks = [look for look in data.telling if look.kind in ("numeric", "categorical")]
    target = data.labels if data.task == "classes" else data.of_name(data.target).values
    present = target.is_not_null()
    frame = pl.DataFrame([look.values.filter(present) for look in looks])
    columns = [
        ColumnType(look.name, "numeric" if look.kind == "numeric" else "categorical", "", 0, 0, "")
        for look in looks
    ]
    target = target.filter(present)
    found = [
        Finding("leak", "error", leak.message, len(leak.columns), columns=leak.columns, fix=_FIX)
        for leak in find_leaks(frame, columns, target)
    ]
    found += [
        Finding("suspicious_feature", "warning", each.message, 1, columns=(each.column,), fix=_FIX)
        for each in find_suspicions(frame, columns, target)
    ]
    return found
