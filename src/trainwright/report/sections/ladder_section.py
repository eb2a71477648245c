"""Candidates section: the ladder of a selection, and why one was kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.core.formatting import show_seconds
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.report.figures.bars import Bar, draw_bar, scale_of
from trainwright.report.format import show_change, show_range, show_value

_NO_INTERVAL = Interval(math.nan, -math.inf, math.inf)


@final
@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate, or the ensemble; `left_out` says why one is not trained or cannot be kept."""

    name: str
    is_kept: bool
    score: str
    range: str
    gain: str
    gain_range: str
    bar: Bar
    seconds: str
    latency: str
    batch: str
    megabytes: str
    left_out: str


@final
@dataclass(frozen=True, slots=True)
class LadderView:
    """View of `ladder.json`."""

    sentence: str
    metric: str
    percentile: str
    confidence: str
    rows: tuple[CandidateRow, ...]
    ensemble: str


def view_ladder(ladder: Mapping[str, Json]) -> list[LadderView]:
    """The table, from the simplest candidate on."""
    metric, chosen = str(ladder["metric"]), str(ladder["chosen"])
    rungs = ladder["rungs"]
    gains = [Interval.from_json(one["gain"]) for one in rungs if "gain" in one]
    scale = scale_of(gains, [0.0])
    on = f"{int(ladder['rows']):,} validation rows"
    if folds := int(ladder["folds"]):
        on = f"{int(ladder['rows']):,} rows, each held out by one of {folds} folds"
    rows = []
    for one in rungs:
        gain = Interval.from_json(one["gain"]) if "gain" in one else _NO_INTERVAL
        score = Interval.from_json(one["score"]) if "score" in one else _NO_INTERVAL
        rows.append(_row(one, score, gain, draw_bar(gain, 0.0, scale), chosen))
    return [
        LadderView(
            sentence=f"Kept: {chosen}, {ladder['reason']}. Compared on {on}; the best of several "
            "scores is too good, so the verdict rests on the test rows alone.",
            metric=metric,
            percentile=f"{float(ladder['percentile']):g}",
            confidence=f"{float(ladder['confidence']) * 100:g}%",
            rows=tuple(rows),
            ensemble=_ensemble(ladder),
        )
    ]


def _row(
    one: Mapping[str, Json], score: Interval, gain: Interval, bar: Bar, chosen: str
) -> CandidateRow:
    is_trained = not one["skipped"]
    return CandidateRow(
        name=str(one["name"]),
        is_kept=one["name"] == chosen,
        score=show_value(score.value),
        range=show_range(score),
        gain=show_change(gain.value),
        gain_range=show_range(gain),
        bar=bar,
        seconds=show_seconds(float(one["seconds"])) if is_trained else "",
        latency=f"{float(one['latency_ms']):.3g}" if is_trained else "",
        batch=f"{float(one['batch_ms']):.3g} for {int(one['batch_rows']):,}" if is_trained else "",
        megabytes=f"{float(one['megabytes']):.3g}" if is_trained else "",
        left_out=str(one["skipped"] or one["over_limit"] or _cut(one)),
    )


def _cut(one: Mapping[str, Json]) -> str:
    return f"cut by the time: {one['cut']}" if one.get("cut") else ""


def _ensemble(ladder: Mapping[str, Json]) -> str:
    """Weights, and the two scores of each ensemble."""
    said = []
    for one in ladder["ensemble"]:
        shares = ", ".join(f"{name} {float(share):.0%}" for name, share in one["weights"].items())
        score = Interval.from_json(one["score"])
        name = str(one.get("name", "ensemble")).capitalize()
        said.append(
            f"{name}: {shares}. On the rows that its weights were fitted to it scores "
            f"{show_value(float(one['value_on_selected']))}, which is too good; the table shows "
            f"{show_value(score.value)}, for which the weights of a row were fitted to others."
        )
    return " ".join(said)
