"""Leakage in series: columns that tell a forecast what its origin does not know yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from trainwright.contract.sections.data.split import RandomSplit
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides
from trainwright.data.audit.feature_leaks import FIX, function_of_the_target, tells_the_target
from trainwright.data.base.inputs import Floats
from trainwright.data.series.panel import NO_ROW
from trainwright.data.series.read_series import RawSeries
from trainwright.data.statistics.dependence import LEAK
from trainwright.data.statistics.leak_tests import FIRM_LEAK
from trainwright.data.statistics.row_structure import RowStructure

_MOST_CELLS, _FEWEST_CHANGES = 100_000, 50
_FIX_KNOWN = "remove the column from data.known if it is not known before its time"


def audit_series(raw: RawSeries, known: Sequence[str]) -> tuple[AuditResult, ...]:
    """Tests on the rows of the training part: columns that are `known` at the forecast time as
    features of a table, and every numeric column for values of the target from after the origin."""
    training = raw.panel.rows[:, : raw.split.trained + 1]
    rows = np.sort(training[training != NO_ROW])
    others = np.setdiff1d(np.arange(raw.panel.frame.height), rows)
    columns, series = raw.columns, raw.columns.series
    structure = RowStructure(
        "panel" if series else "series", series, (columns.time.name,), True, "data of series"
    )
    sides = Sides(
        train=raw.panel.frame[rows],
        held_out=raw.panel.frame[others],
        places=others,
        columns=tuple(one for one in columns.features if one.name in known),
        target=columns.target.name,
        split=RandomSplit(kind="random"),
        given=False,
        structures=(structure,),
    )
    found = [*tells_the_target(sides), *function_of_the_target(sides)] if sides.columns else []
    told = {name for one in found if one.verdict == "leak" for name in one.columns}
    found = [replace(one, fix=_FIX_KNOWN) for one in found if one.verdict != "clean"] or found
    return (*found, *_other_times(raw, known, told))


def _other_times(raw: RawSeries, known: Sequence[str], told: set[str]) -> Iterator[AuditResult]:
    """Columns that are the target of another time than their own, also with noise: one of a later
    time than the origin. A linear fit must explain the values and their changes, and the past of
    the target must not do so as well, as it does where each season is the same."""
    panel, horizon = raw.panel, raw.split.horizon
    steps = raw.split.trained + 1
    series = np.arange(max(1, min(len(panel.names), _MOST_CELLS // steps)))
    target = panel.values[series, :steps]
    every = np.repeat(series, steps), np.tile(np.arange(steps), len(series))
    for column in raw.columns.features:
        if column.kind != "numeric" or column.name in told:
            continue
        cells = panel.cells(column.name, *every).cast(float).fill_null(np.nan).to_numpy()
        values = cells.reshape(target.shape)
        # A known column enters at the forecast time, up to a horizon after the origin.
        least = 1 - horizon if column.name in known else 1
        for ahead in (*range(1, horizon + 1), *range(-1, least - 1, -1)):
            pair = _shift(values, target, ahead)
            own = _shift(target, target, abs(ahead))
            if not _is_told(*pair) or _is_told(*own):
                continue
            when = "later" if ahead > 0 else "earlier, which is after the origin of most forecasts"
            message = f"{column.name!r} is the target of {many(abs(ahead), 'step')} {when}"
            fix = _FIX_KNOWN if column.name in known else FIX
            names = (column.name,)
            yield AuditResult(
                "tells the target", "leak", 1.0, message, count=1, columns=names, fix=fix
            )
            break


def _shift(values: Floats, target: Floats, ahead: int) -> tuple[Floats, Floats]:
    """Values [S, T'] and the target so many steps later, or earlier where negative."""
    steps = values.shape[1]
    return (
        values[:, max(0, -ahead) : steps - max(0, ahead)],
        target[:, max(0, ahead) : steps - max(0, -ahead)],
    )


def _is_told(values: Floats, target: Floats) -> bool:
    """Does a linear fit of the target [S, T] by values explain it, and its changes?"""
    pairs = ((values, target, LEAK), (np.diff(values), np.diff(target), FIRM_LEAK))
    return all(_explained_share(*pair) > least for *pair, least in pairs)


def _explained_share(values: Floats, target: Floats) -> float:
    present = np.isfinite(values) & np.isfinite(target)
    one, other = values[present], target[present]
    if len(one) < _FEWEST_CHANGES or not np.ptp(one) or not np.ptp(other):
        return 0.0
    return float(np.corrcoef(one, other)[0, 1] ** 2)
