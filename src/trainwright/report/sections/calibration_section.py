"""Calibration section: probabilities before and after, on the judged rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.evaluation.calibration_effect import Change
from trainwright.predictor.calibration import USUAL_THRESHOLD
from trainwright.report.figures.bars import Bar, draw_bar, scale_of
from trainwright.report.format import show_change, show_range, show_value

_OF_PROBABILITIES = "Of calibration_error, log_loss and brier less is better"
_OF_LABELS = "Of hamming_loss less is better"
_MOST_LABELS = 8
_OF_COSTS = "Of calibration_error, log_loss, brier and cost less is better"
_BY_COSTS = (
    " A row is given the class of least expected cost; before metric.costs the likeliest counts."
)
_TO_COSTS = (
    " It costs the validation rows less than that of least expected cost; before metric.costs the "
    "likeliest class counts."
)
_OF_QUANTILES = (
    "Coverage is best at what the quantiles say; of interval_width and interval_score less is "
    "better"
)


@final
@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One metric before and after."""

    metric: str
    before: str
    after: str
    difference: str
    range: str
    bar: Bar


@final
@dataclass(frozen=True, slots=True)
class CalibrationView:
    """View of `calibration` in `evaluation.json`; `tried` are the methods with their
    cross-validated log loss."""

    sentence: str
    better: str
    rows: tuple[ChangeRow, ...]
    tried: tuple[tuple[str, str], ...]


def view_calibration(value: Mapping[str, Json], *, in_folds: bool) -> list[CalibrationView]:
    """The table; empty for a model that was not to be calibrated. `in_folds`: models of folds
    scored the rows."""
    if not value:
        return []
    changes = {str(name): Change.from_json(one) for name, one in value["changes"].items()}
    scale = scale_of([one.difference for one in changes.values()], [0.0])
    method, rows = str(value["method"]), int(value["rows"])
    how = (
        f"by {method}" if method != "temperature" else f"by temperature {value['temperature']:.3g}"
    )
    done = f"Calibrated {how} on {rows:,} validation rows."
    threshold = float(value["threshold"])
    usual = threshold == USUAL_THRESHOLD
    decides = "" if usual else f" A row is positive from a probability of {threshold:.3g} on."
    if value.get("costs"):
        decides += _BY_COSTS if usual else _TO_COSTS
    if thresholds := value.get("thresholds"):
        decides = _of_each_label(thresholds)
    each = " Each fold by its own map and threshold; these are those of the run's model."
    return [
        CalibrationView(
            sentence=(done if method != "none" else "Not calibrated.")
            + decides
            + (each if in_folds else ""),
            better=_better(changes),
            rows=tuple(
                ChangeRow(
                    metric=name,
                    before=show_value(one.before.value),
                    after=show_value(one.after.value),
                    difference=show_change(one.difference.value),
                    range=show_range(one.difference),
                    bar=draw_bar(one.difference, 0.0, scale),
                )
                for name, one in changes.items()
            ),
            tried=tuple((str(k), show_value(float(v))) for k, v in value["tried"].items()),
        )
    ]


def _of_each_label(thresholds: Mapping[str, Json]) -> str:
    pairs = ((str(name), float(one)) for name, one in thresholds.items())
    shown = [f"{name} from {one:.3g}" for name, one in pairs]
    more = len(shown) - _MOST_LABELS
    rest = f" and {more} more" if more > 0 else ""
    return f" A row is given {', '.join(shown[:_MOST_LABELS])}{rest} on."


def _better(changes: Mapping[str, Change]) -> str:
    if "coverage" in changes:
        return _OF_QUANTILES
    if "hamming_loss" in changes:
        return _OF_LABELS
    return _OF_COSTS if "cost" in changes else _OF_PROBABILITIES
