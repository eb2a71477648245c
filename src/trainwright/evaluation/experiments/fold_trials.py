"""Trials on tables: grouped or time-ordered folds, or exclusion of the suspects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import TimeSplit
from trainwright.contract.sections.metric import METRICS_OF_QUANTILES
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.encoders.encoding import FrameEncoding
from trainwright.data.split.hidden_columns import with_moments
from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.evaluate import MODEL
from trainwright.evaluation.experiments.copy_trials import ExclusionTrial, copied_rows, without_rows
from trainwright.evaluation.experiments.experiment import Scores, compare
from trainwright.evaluation.experiments.judged_table import JudgedTable
from trainwright.evaluation.experiments.probe import (
    FIRST_FORETOLD,
    FOLDS,
    MOST_ROWS,
    TIME_BLOCKS,
    ProbeKind,
    ProbeRows,
    Sample,
    constant_scores,
    encode,
    folds_in_order,
    folds_of_units,
    foretold,
    interpolated,
    out_of_fold,
    sample_evenly,
    sample_groups,
    sample_time_blocks,
    shuffled,
)
from trainwright.evaluation.experiments.suspects import Suspect
from trainwright.evaluation.experiments.transfer import corrected, skill_ratio
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers

_FEWEST_ROUNDS, _MOST_ROUNDS = 2, 5
_FEWEST_ROWS = 100
_FEWEST_GROUPS = 10
_WHOLE = "not tried: other folds would tear the queries of a ranking apart"


def try_suspicion(
    suspicion: Suspect, judged: JudgedTable, leaking: frozenset[str], confidence: float
) -> ExclusionTrial:
    """Trial of one finding. The probe excludes columns that are `leaking` and not accepted: they
    would mask every other finding."""
    by_probe = suspicion.trial in ("groups", "time", "features")
    if by_probe and judged.metric.name in (*METRICS_OF_QUANTILES, "mase"):
        if suspicion.trial == "features":
            # A leak counts whatever the metric is; the probe predicts one number, without a scale.
            judged = replace(judged, metric=judged.metric.model_copy(update={"name": "mae"}))
            return _without_features(suspicion.columns, judged, leaking, confidence)
        return ExclusionTrial(("", ""), f"not tried: the probe has no {judged.metric.name}")
    match suspicion.trial:
        case "equal rows" | "near rows" | "near texts":
            excluded = copied_rows(suspicion, judged)
            return without_rows(excluded, judged, "row")
        case "groups":
            return _in_groups(suspicion.columns[0], judged, leaking, confidence)
        case "time":
            return _in_time(suspicion.columns, judged, leaking, confidence)
        case "features":
            return _without_features(suspicion.columns, judged, leaking, confidence)
        case "equal images" | "near images" | "copied text":
            raise AssertionError("a table has neither images nor segments of text")
        case _:
            assert_never(suspicion.trial)


def _in_groups(
    name: str, judged: JudgedTable, leaking: frozenset[str], confidence: float
) -> ExclusionTrial:
    conditions = ("in random folds", f"in folds by {name!r}")
    if judged.is_ranking:
        return ExclusionTrial(conditions, _WHOLE)
    column = judged.every.frame[name]
    sample = sample_groups(column, judged.seed)
    if len(sample.rows) < _FEWEST_ROWS or sample.units.max(initial=0) < _FEWEST_GROUPS - 1:
        return ExclusionTrial(conditions, "not tried: too few rows or groups")
    seeds = [judged.seed + number for number in range(_rounds(sample))]
    together = [folds_of_units(sample.units, seed) for seed in seeds]
    folds = [(shuffled(one, seed), one) for one, seed in zip(together, seeds, strict=True)]
    hidden = leaking | _same_as(judged.every.frame[sample.rows], name, judged.columns)
    groups = many(int(sample.units.max()) + 1, "group")
    method = f"{_folds(len(folds))}, {many(len(sample.rows), 'row')} of {groups}"
    scores: dict[str, Scores] = {
        kind: _beside(sample, folds, judged, hidden, kind) for kind in judged.probes
    }
    return _carried(scores, judged, sample, confidence, method)._replace(conditions=conditions)


def _in_time(
    clock: tuple[str, ...], judged: JudgedTable, leaking: frozenset[str], confidence: float
) -> ExclusionTrial:
    names = ", ".join(map(repr, clock))
    conditions = (f"with rows of any {names}", f"predicted from earlier {names}")
    if judged.is_ranking:
        return ExclusionTrial(conditions, _WHOLE)
    times = judged.every.frame[clock[0]]
    if len(clock) > 1:
        split = TimeSplit(kind="time", parts=clock)
        times = with_moments({"train": judged.every.frame}, split, IN_MEMORY)["train"][split.moment]
    sample = sample_time_blocks(times)
    if len(sample.rows) < _FEWEST_ROWS or len(np.unique(sample.units)) < TIME_BLOCKS:
        return ExclusionTrial(conditions, "not tried: too few rows or times")
    blocks = folds_in_order(sample.units)
    tested = np.flatnonzero(blocks >= FIRST_FORETOLD)
    rows, rounds = _rows(sample, judged), _rounds(sample)
    # The date stays a feature, as under a time split; trees extrapolate it as a constant.
    inputs = encode(rows, _shown(judged, leaking))

    def answers(scores: Floats) -> Answers:
        return judged.answers(rows.target[tested], scores[tested])

    scores: dict[str, Scores] = {}
    for kind in judged.probes:
        seeds = range(judged.seed, judged.seed + rounds)
        before = [answers(interpolated(rows, inputs, blocks, kind, seed)) for seed in seeds]
        after = answers(foretold(rows, inputs, blocks, kind))
        scores[kind] = Scores(before, [after] * rounds)
    later = Sample(sample.rows[tested], sample.units[tested])
    blocks_of = f"the later {FOLDS - FIRST_FORETOLD} of {FOLDS} blocks of time"
    method = f"{blocks_of}, {many(len(tested), 'row')}, by models of as many rows"
    return _carried(scores, judged, later, confidence, method)._replace(conditions=conditions)


def _without_features(
    columns: Sequence[str], judged: JudgedTable, leaking: frozenset[str], confidence: float
) -> ExclusionTrial:
    names = ", ".join(map(repr, columns))
    conditions = (f"with {names}", f"without {names}")
    sample = sample_evenly(judged.every.units)
    if len(sample.rows) < _FEWEST_ROWS:
        return ExclusionTrial(conditions, "not tried: too few rows")
    folds = folds_of_units(sample.units, judged.seed)
    known = leaking - set(columns)
    scores: dict[str, Scores] = {
        kind: Scores(
            [_scored(sample, judged, known, folds, kind)],
            [_scored(sample, judged, known | set(columns), folds, kind)],
        )
        for kind in judged.probes
    }
    method = f"{FOLDS} folds of {many(len(sample.rows), 'row')}"
    return _carried(scores, judged, sample, confidence, method)._replace(conditions=conditions)


def _beside(
    sample: Sample,
    folds: Sequence[tuple[Integers, Integers]],
    judged: JudgedTable,
    hidden: frozenset[str],
    kind: ProbeKind,
) -> Scores:
    """Random folds against grouped folds."""
    return Scores(
        [_scored(sample, judged, hidden, one, kind, level=True) for one, _ in folds],
        [_scored(sample, judged, hidden, one, kind, level=True) for _, one in folds],
    )


def _scored(
    sample: Sample,
    judged: JudgedTable,
    hidden: frozenset[str],
    folds: Integers,
    kind: ProbeKind,
    *,
    level: bool = False,
) -> Answers:
    rows = _rows(sample, judged)
    inputs = encode(rows, _shown(judged, hidden))
    scores = out_of_fold(rows, inputs, folds, kind, level=level)
    return judged.answers(rows.target, scores, judged.queries(rows.frame))


def _shown(judged: JudgedTable, hidden: frozenset[str]) -> list[ColumnType]:
    """Feature columns of the probe."""
    sources = FrameEncoding.of_kind(judged.prepared.features).sources
    return [one for one in judged.columns if sources.get(one.name, one.name) not in hidden]


def _rows(sample: Sample, judged: JudgedTable) -> ProbeRows:
    every = judged.every
    outputs = judged.prepared.target.outputs
    return ProbeRows(every.frame[sample.rows], every.target[sample.rows], outputs)


def _carried(
    scores: Mapping[str, Scores],
    judged: JudgedTable,
    sample: Sample,
    confidence: float,
    method: str,
) -> ExclusionTrial:
    """Transfer the probe's loss to the clauses, in proportion to the run's skill."""
    effects = compare(scores, sample.units, judged.metric, judged.seed)
    own = effects[judged.probe]
    rows = _rows(sample, judged)
    queries = judged.queries(rows.frame)
    constant = judged.answers(rows.target, constant_scores(rows), queries)
    of_run, of_dummy = (
        measure(own.metric, judged.scored.answers(who), judged.metric) for who in (MODEL, DUMMY)
    )
    of_constant = measure(own.metric, constant, judged.metric)
    ratio = skill_ratio(of_run, of_dummy, own.before, of_constant)
    clauses = corrected(judged.clauses, own, effects, ratio, confidence)
    return ExclusionTrial(("", ""), method, (own,), clauses)


def _rounds(sample: Sample) -> int:
    """Number of repetitions, more for few rows, to average out the fold assignment."""
    return max(_FEWEST_ROUNDS, min(_MOST_ROUNDS, MOST_ROWS // len(sample.rows)))


def _folds(rounds: int) -> str:
    return f"{rounds} times {FOLDS} folds of whole groups beside random folds"


def _same_as(frame: pl.DataFrame, name: str, columns: Sequence[ColumnType]) -> frozenset[str]:
    """The column and its one-to-one equivalents."""
    different = frame[name].n_unique()
    found = {name}
    for column in columns:
        if column.name == name or frame[column.name].n_unique() != different:
            continue
        if frame.select(pl.struct(name, column.name).n_unique()).item() == different:
            found.add(column.name)
    return frozenset(found)
