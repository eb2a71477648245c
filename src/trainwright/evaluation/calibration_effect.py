"""What calibration changes on the judged rows, before and after, paired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import answers_of

MEASURED = ("calibration_error", "log_loss", "brier")
OF_LABELS = ("f1_macro", "f1_micro", "hamming_loss")
OF_QUANTILES = ("coverage", "interval_width", "interval_score")


@final
@dataclass(frozen=True, slots=True)
class Change:
    """A metric before and after, and the difference (after minus before), paired."""

    before: Interval
    after: Interval
    difference: Interval

    def to_json(self) -> Json:
        """The three intervals."""
        return {
            "before": self.before.to_json(),
            "after": self.after.to_json(),
            "difference": self.difference.to_json(),
        }

    @classmethod
    def from_json(cls, json: Json) -> Change:
        """Inverse of `to_json`."""
        each = (Interval.from_json(json[name]) for name in ("before", "after", "difference"))
        return cls(*each)


def measure_calibration(
    scored: Scored, before: Floats, metric: Metric, seed: int
) -> Mapping[str, Change]:
    """Expected calibration error, log loss and Brier score on the judged rows, or of quantiles the
    coverage, width and score of their interval, whose scores were `before` the calibration, of
    labels the metrics of their decisions, and the contract's metric; before a threshold the
    likeliest class counts."""
    positive, rows = scored.target.positive_code, np.arange(len(scored.part))
    quantiles = scored.target.quantiles
    truth, costs = scored.part.target, scored.target.costs
    likeliest = np.argmax(before, axis=1) if costs else None
    of_before = answers_of(
        truth,
        before,
        positive,
        scored.folds,
        likeliest,
        quantiles=quantiles,
        levels=scored.part.inputs.levels,
        costs=costs,
    )
    pair = (of_before, scored.answers())
    measured = OF_LABELS if scored.target.target_names else MEASURED
    names = tuple(dict.fromkeys((*(OF_QUANTILES if quantiles else measured), metric.name)))
    lines = [MeasuredMetric(name, answers, rows) for name in names for answers in pair]
    draws = Resampling(scored.part.units, metric.resamples, seed)
    found = measure_lines(lines, metric, draws)
    return {
        name: Change(old.interval, new.interval, gain_of(new, old, metric.confidence))
        for name, old, new in zip(names, found[::2], found[1::2], strict=True)
    }


def describe_changes(changes: Mapping[str, Change]) -> str:
    """`log_loss 0.41 -> 0.39 · brier ...`, for the screen."""
    return " · ".join(
        f"{name} {show_number(one.before.value)} -> {show_number(one.after.value)}"
        for name, one in changes.items()
    )
