"""Tables of several targets: each metric of each of them, beside the baselines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.evaluation_result import Evaluation, TargetScore
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.report.figures.bars import Bar, Scale, draw_bar, scale_of
from trainwright.report.format import show_change, show_range, show_value


@final
@dataclass(frozen=True, slots=True)
class TargetRow:
    """A target: the model's value with its interval, the dummy's, and the paired gain over it."""

    name: str
    value: str
    range: str
    bar: Bar
    dummy: str
    gain: str


@final
@dataclass(frozen=True, slots=True)
class TargetTable:
    """Every target by one metric."""

    metric: str
    rows: tuple[TargetRow, ...]


def view_targets(evaluation: Evaluation, judged: str) -> tuple[TargetTable, ...]:
    """A table for each metric of single targets, the judged one first; none of one target."""
    if not evaluation.targets:
        return ()
    names = sorted(evaluation.targets[0].metrics, key=lambda name: name != judged)
    return tuple(_table(name, evaluation) for name in names)


def _table(metric: str, evaluation: Evaluation) -> TargetTable:
    # Targets in different units share no scale.
    shared = scale_of([one.metrics[metric] for one in evaluation.targets])
    is_share = all(0 <= one.metrics[metric].value <= 1 for one in evaluation.targets)
    rows = tuple(
        _row(one, metric, shared if is_share else scale_of([one.metrics[metric]]))
        for one in evaluation.targets
    )
    return TargetTable(metric, rows)


def _row(one: TargetScore, metric: str, scale: Scale) -> TargetRow:
    own, none = one.metrics[metric], Interval(math.nan, -math.inf, math.inf)
    gain = one.gains.get(DUMMY, {}).get(metric, none)
    dummy = one.baselines.get(DUMMY, {}).get(metric, none)
    return TargetRow(
        name=one.name,
        value=show_value(own.value),
        range=show_range(own),
        bar=draw_bar(own, math.nan, scale),
        dummy=show_value(dummy.value),
        gain=f"{show_change(gain.value)} ({show_range(gain)})",
    )
