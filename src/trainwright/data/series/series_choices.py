"""What `auto` means for series: season, lags, and what values are measured against."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import Final

import numpy as np

from trainwright.contract.sections.data.series import Relation, RelativeTo, SeriesData
from trainwright.contract.sections.section import settled
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, PartName
from trainwright.data.encoders.scaling import far_center
from trainwright.data.series.lookback import Lookback, calendar_of
from trainwright.data.series.origins import OriginSplit
from trainwright.data.series.panel import SeriesPanel, TimeSpacing
from trainwright.data.series.series_columns import SeriesColumns

SeriesChoices = dict[str, tuple[Json, str]]

_MOST_LAGS, _LAGS_WITHOUT_SEASON = 24, 10
_SURE = 1.645
"""Normal quantile of the seasonality test: 90%, as in M4."""
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_STEPS = (7, 12, 24, 52)
_MOST_SERIES, _MOST_STEPS = 50, 5000
_WEEK, _MOST_WINDOW = 7, 400
_WINDOWS = 3
_PENALTY, _MOST_ROWS, _MOST_ONE_HOT = 1.0, 4000, 48
_TREES = 50
_OPTIONS: Final = MappingProxyType(
    {
        "objective": "regression",
        "learning_rate": 0.1,
        "num_leaves": 15,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        "seed": 0,
    }
)

Learner = Callable[[Floats, Floats, Floats], Floats]
"""Fit and predict: from features [N, F] and values [N], and features [M, F] of what follows, to the
predictions [M] there."""


def season_candidates(spacing: TimeSpacing) -> tuple[int, ...]:
    """Seasons of the calendar in steps: a day, a week, a year; of numbers, common lengths."""
    if spacing.unit == "numbers":
        return _STEPS
    if spacing.unit == "business_days":
        return (5,)
    if spacing.unit == "months":
        return tuple(12 // int(spacing.size) for _ in (1,) if 12 % spacing.size == 0)
    if spacing.size == 7 * _DAY:
        return (52,)
    each = (length / spacing.size for length in (_DAY, 7 * _DAY))
    return tuple(int(steps) for steps in each if steps == int(steps) and steps > 1)


def choose_season(values: Floats, spacing: TimeSpacing) -> tuple[int, str]:
    """The season of the training part [S, T]: of the candidates that most series show the one with
    the largest autocorrelation of the changes from step to step, else 1.

    The test is that of the M4 competition (Makridakis et al. 2020, supplement): |r_m| >
    1.645 sqrt((1 + 2 (r_1^2 + ... + r_{m-1}^2)) / n).
    """
    candidates = [m for m in season_candidates(spacing) if m > 1]
    some = np.linspace(0, len(values) - 1, min(len(values), _MOST_SERIES)).astype(np.int64)
    changes = np.diff(values[some, -_MOST_STEPS:], axis=1)
    found: dict[int, float] = {}
    for season in candidates:
        shown = [r for r in (_seasonality(one, season) for one in changes) if not math.isnan(r)]
        if shown and np.mean([r > 0 for r in shown]) > 0.5:
            found[season] = float(np.mean([r for r in shown if r > 0]))
    if not found:
        named = f" of {', '.join(map(str, candidates))}" if candidates else ""
        return 1, f"the training part shows no season{named}"
    best = max(found, key=lambda season: found[season])
    return best, f"changes repeat after {best} steps (autocorrelation {found[best]:.2f})"


def _seasonality(changes: Floats, season: int) -> float:
    """Autocorrelation of the changes [T] at the season, 0 where it is not significant; nan where
    the series has fewer than two seasons."""
    known = np.isfinite(changes)
    count = int(known.sum())
    if count < 2 * season:
        return math.nan
    centred = np.where(known, changes - changes[known].mean(), 0.0)
    power = float(centred @ centred)
    if power == 0:
        return math.nan
    lags = np.array([centred[lag:] @ centred[:-lag] / power for lag in range(1, season + 1)])
    limit = _SURE * math.sqrt((1 + 2 * float(lags[:-1] @ lags[:-1])) / count)
    return float(lags[-1]) if lags[-1] > limit else 0.0


def choose_lags(season: int, steps: int) -> tuple[tuple[int, ...], str]:
    """Every lag of a season, at most 24, and at most a quarter of the training steps."""
    most = min(_MOST_LAGS, season if season > 1 else _LAGS_WITHOUT_SEASON, max(1, steps // 4))
    lags = tuple(range(1, most + 1))
    return lags, f"a season of {season}" if season > 1 else "the last values"


def choose_relation(
    panel: SeriesPanel, lookback: Lookback, split: OriginSplit, asked: SeriesData, learner: Learner
) -> SeriesChoices:
    """The level and the relation with the least scaled error of a small learner, of what the
    contract leaves open: on the validation part and on up to two parts of its length before it,
    each forecast by what precedes it. One part alone may be an unusual time."""
    if asked.relative_to == "nothing":
        return {"relation": ("difference", "nothing is measured against a level")}
    levels, relations = _open_choices(panel, lookback, asked)
    if len(levels) * len(relations) == 1:
        why = "some values are not positive"
        return {"relative_to": (levels[0], "there is no season"), "relation": (relations[0], why)}
    errors: dict[tuple[RelativeTo, Relation], float] = {}
    windows = _windows(split, lookback.season)
    for level, relation in product(levels, relations):
        tried = replace(lookback, relative_to=level, relation=relation)
        each = [_validation_error(panel, tried, one, learner) for one in windows]
        known = [error for error in each if not math.isnan(error)]
        errors[level, relation] = sum(known) / len(known) if known else math.nan
    best = min(errors, key=lambda pair: (math.isnan(errors[pair]), errors[pair]))
    listed = (f"{level} {relation} {error:.3g}" for (level, relation), error in errors.items())
    who = "small trees" if learner is fit_small_trees else "a ridge regression"
    where = f"{many(len(windows), 'window')} up to the end of the validation part"
    reason = f"scaled error of {who} on {where}: {', '.join(listed)}"
    return {"relative_to": (best[0], reason), "relation": (best[1], reason)}


def _windows(split: OriginSplit, season: int) -> list[OriginSplit]:
    """The split, and those of the two windows before its validation part that leave at least half
    of the training part."""
    length = split.validated - split.trained
    ends = (split.validated - back * length for back in range(_WINDOWS))
    least = max(season + split.horizon, split.trained // 2)
    found = [replace(split, trained=end - length, validated=end) for end in ends]
    return [one for at, one in enumerate(found) if not at or one.trained >= least]


def _open_choices(
    panel: SeriesPanel, lookback: Lookback, asked: SeriesData
) -> tuple[list[RelativeTo], list[Relation]]:
    levels: list[RelativeTo] = ["last_value"]
    if lookback.season > 1:
        levels += ["season_mean", "season_value"]
    relations: list[Relation] = ["difference"]
    if bool((panel.values[np.isfinite(panel.values)] > 0).all()):
        relations.append("ratio")
    if asked.relative_to != "auto":
        levels = [asked.relative_to]
    return levels, relations if asked.relation == "auto" else [asked.relation]


def fit_ridge(x: Floats, y: Floats, held_out: Floats) -> Floats:
    """A ridge regression of standardised features; what is missing counts as the mean."""
    known = np.isfinite(x)
    counts = np.maximum(1, known.sum(axis=0))
    mean = np.where(known, x, 0.0).sum(axis=0) / counts
    deviation = np.sqrt(np.where(known, (x - mean) ** 2, 0.0).sum(axis=0) / counts)
    deviation = np.where(deviation > 0, deviation, 1.0)
    centre, scaled = float(y.mean()), np.nan_to_num((x - mean) / deviation)
    gram = scaled.T @ scaled + _PENALTY * np.eye(scaled.shape[1])
    weights = np.linalg.solve(gram, scaled.T @ (y - centre))
    return np.asarray(np.nan_to_num((held_out - mean) / deviation) @ weights + centre)


def fit_small_trees(x: Floats, y: Floats, held_out: Floats) -> Floats:
    """A fixed number of boosted trees: one that is best on the held-out rows would favour what
    overfits."""
    import lightgbm

    center = far_center(y)
    rows = lightgbm.Dataset(x, y - center, params=dict(_OPTIONS))
    model = lightgbm.train(dict(_OPTIONS), rows, _TREES)
    return center + np.asarray(model.predict(held_out), np.float64)


def _validation_error(
    panel: SeriesPanel, lookback: Lookback, split: OriginSplit, learner: Learner
) -> float:
    x, y, _ = _design(panel, lookback, split, "train")
    held_out, truth, units = _design(panel, lookback, split, "validation")
    if len(y) < 2 or len(truth) < 2:
        return math.nan
    return float((np.abs(learner(x, y, held_out) - truth) * units).mean())


def _design(
    panel: SeriesPanel, lookback: Lookback, split: OriginSplit, part: PartName
) -> tuple[Floats, Floats, Floats]:
    """Numeric features [N, F] with the step in one-hot columns, learned targets [N], and the scaled
    error of an error of 1 [N]."""
    rows = split.rows(part, panel.values, lookback.fewest, _MOST_ROWS)
    levels = lookback.levels(panel, rows)
    usable = np.isfinite(levels.offset) & np.isfinite(levels.scale) & (levels.error_scale > 0)
    rows, levels = rows.take(usable), levels.take(np.flatnonzero(usable))
    own = replace(lookback, known=(), others=())
    columns = [one.fill_null(math.nan).to_numpy() for one in own.features(panel, rows)]
    steps = rows.steps[:, None] == np.arange(1, min(_MOST_ONE_HOT, split.horizon) + 1)
    features = np.concatenate([np.stack(columns, axis=1), steps], axis=1)
    target = levels.learned(panel.values[rows.series, rows.at])
    return features, target, np.abs(levels.scale) / levels.error_scale


def lookback_of(section: SeriesData, spacing: TimeSpacing, columns: SeriesColumns) -> Lookback:
    """The features that a section asks for, of which nothing is `auto` but the level."""
    season, lags = settled(section.season), settled(section.lags)
    windows = [window for window in (season, _WEEK * season) if 1 < window <= _MOST_WINDOW]
    return Lookback(
        target=section.target,
        season=season,
        lags=lags,
        windows=tuple(windows[: 2 if spacing.unit == "microseconds" else 1]) or (max(lags),),
        relative_to="last_value" if section.relative_to == "auto" else section.relative_to,
        relation="difference" if section.relation == "auto" else section.relation,
        calendar=calendar_of(spacing),
        known=tuple(one.name for one in columns.features if one.name in section.known),
        others=tuple(one.name for one in columns.features if one.name not in section.known),
    )


def steps_chosen(split: OriginSplit) -> Mapping[str, tuple[Json, str]]:
    """The sizes of the parts."""
    test = split.steps - 1 - split.validated
    validation = split.validated - split.trained
    return {
        "test_steps": (test, f"of {split.steps:,} time steps"),
        "validation_steps": (validation, "as many as the test part"),
    }
