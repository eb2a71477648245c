"""Re-evaluation without rows, texts or images that copy training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.data.data import Data, fold_count
from trainwright.contract.sections.metric import Metric, Slice
from trainwright.core.formatting import many
from trainwright.data.audit.image_overlap import ImageCopies, copies_of
from trainwright.data.audit.row_overlap import near_rows_of, near_texts_of, repeats_of, text_groups
from trainwright.data.audit.text_overlap import text_copies
from trainwright.data.base.inputs import Integers
from trainwright.data.quality.copies.near_duplicate_images import image_groups
from trainwright.data.split.random_split import random_keys
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.evaluate import MODEL, Scored, find_slices
from trainwright.evaluation.evaluation_result import ALL_ROWS
from trainwright.evaluation.experiments.experiment import Effect, Pair, effect_of
from trainwright.evaluation.experiments.judged_table import JudgedTable
from trainwright.evaluation.experiments.suspects import Suspect, accepted_reason
from trainwright.evaluation.experiments.transfer import judged_again
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import count_units

Mask = npt.NDArray[np.bool_]


class Rejudged(NamedTuple):
    """Effect of excluding rows on the contract's metric, and the clauses without them."""

    effect: Effect
    clauses: tuple[Clause, ...]


def excess(repeated: Mask, copied: float, seed: int) -> Mask:
    """A random subset of the repeated rows of the size of the estimated copies; the others repeat
    by chance, as new rows do."""
    rows = np.flatnonzero(repeated)
    count = min(len(rows), round(copied))
    order = np.argsort(random_keys(len(rows), seed, "experiment repeats"), kind="stable")
    found = np.zeros(len(repeated), dtype=np.bool_)
    found[rows[order[:count]]] = True
    return found


def judge_without(
    excluded: Mask,
    scored: Scored,
    clauses: Sequence[Clause],
    section: Metric,
    slices: Sequence[Slice],
    seed: int,
) -> Rejudged:
    """Re-evaluate the run's predictions without the excluded rows, on the same resamples."""
    kept = np.flatnonzero(~excluded)
    every = np.arange(len(excluded))
    lines = {
        "before": _line(scored, section.name, every),
        "after": _line(scored, section.name, kept),
    }
    for who in scored.baselines:
        lines[who] = _line(scored, section.name, kept, who)
    rows_of = {one.name: one.rows for one in find_slices(slices, scored.part.frame)}
    for at, clause in enumerate(clauses):
        if clause.slice != ALL_ROWS:
            rows = np.setdiff1d(rows_of[clause.slice], np.flatnonzero(excluded))
            lines[f"clause {at}"] = _line(scored, clause.metric, rows)
    draws = Resampling(scored.part.units, section.resamples, seed)
    found = dict(zip(lines, measure_lines(list(lines.values()), section, draws), strict=True))
    units = count_units(scored.part.units[kept])
    effect = effect_of(section.name, Pair([found["before"]], [found["after"]]), units)
    return Rejudged(
        effect,
        tuple(_again(at, clause, found, section) for at, clause in enumerate(clauses)),
    )


def _again(at: int, clause: Clause, found: dict[str, ResampledMetric], section: Metric) -> Clause:
    """Re-judge a met clause without the excluded rows; others are unchanged."""
    if clause.status != "met":
        return clause
    if clause.slice != ALL_ROWS:
        return judged_again(clause, found[f"clause {at}"].interval)
    if clause.against:
        baseline = found[clause.against]
        return judged_again(clause, gain_of(found["after"], baseline, section.confidence))
    return judged_again(clause, found["after"].interval)


def _line(scored: Scored, metric: str, rows: Integers, who: str = "") -> MeasuredMetric:
    return MeasuredMetric(metric, scored.answers(who or MODEL).take(rows), rows)


class ExclusionTrial(NamedTuple):
    """Result of a trial: `effects` is empty if it could not be run, with the reason in `method`.
    `clauses` are judged without the suspects. `excluded` is the excluded share of the evaluated
    rows."""

    conditions: tuple[str, str]
    method: str
    effects: tuple[Effect, ...] = ()
    clauses: tuple[Clause, ...] = ()
    excluded: float = 0.0


class JudgedRows(Protocol):
    """An evaluated run of any modality."""

    @property
    def scored(self) -> Scored:
        """Evaluated rows with the scores of the model and the baselines."""
        ...

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Clauses of the contract on all rows."""
        ...

    @property
    def metric(self) -> Metric:
        """The contract's metric."""
        ...

    @property
    def slices(self) -> Sequence[Slice]:
        """The contract's slices."""
        ...

    @property
    def seed(self) -> int:
        """The contract's seed."""
        ...


def without_rows(excluded: Mask, judged: JudgedRows, noun: str) -> ExclusionTrial:
    """Re-evaluate the run's predictions without the `excluded` rows [N]; `noun` names a row in
    messages."""
    conditions = (f"on all test {noun}s", f"without those that repeat training {noun}s")
    count = int(excluded.sum())
    if not count:
        return ExclusionTrial(conditions, f"none of the test {noun}s is affected")
    method = f"the run's own predictions without {many(count, f'test {noun}')} of "
    effect, clauses = judge_without(
        excluded, judged.scored, judged.clauses, judged.metric, judged.slices, judged.seed
    )
    share = float(np.mean(excluded))
    return ExclusionTrial(conditions, f"{method}{len(excluded):,}", (effect,), clauses, share)


@final
@dataclass(frozen=True)
class JudgedCopies:
    """A run evaluated on images or text segments. `folds` is the fold of each evaluated row, all 0
    without folds."""

    prepared: Prepared
    section: Data
    scored: Scored
    clauses: tuple[Clause, ...]
    metric: Metric
    slices: Sequence[Slice]
    folds: Integers
    seed: int

    @cached_property
    def images(self) -> ImageCopies:
        """Evaluated images that duplicate a training image; under cross-validation the other folds
        are the training images."""
        judged = self.scored.part.inputs.pictures()
        train = self.prepared.train.inputs.pictures()
        if fold_count(self.section):
            return copies_of(image_groups([judged]), self.folds)
        sides = np.repeat([0, 1], [len(train), len(judged)])
        found = copies_of(image_groups([train, judged]), sides)
        return ImageCopies(found.exact[len(train) :], found.near[len(train) :])


def try_copies(suspicion: Suspect, judged: JudgedCopies) -> ExclusionTrial:
    """Trial of one finding. Excluding near copies also excludes exact ones, unless the contract
    accepts those."""
    match suspicion.trial:
        case "equal images":
            return without_rows(judged.images.exact, judged, "image")
        case "near images":
            exact, near = judged.images.exact, judged.images.near
            accepted = accepted_reason("exact_duplicates", (), judged.section.audit.accept)
            return without_rows(near if accepted else near | exact, judged, "image")
        case "copied text":
            copied = text_copies(judged.prepared, (judged.scored.part,)).copied
            return without_rows(copied, judged, "segment")
        case _:
            raise AssertionError(f"neither images nor a text have {suspicion.trial}")


def copied_rows(suspicion: Suspect, judged: JudgedTable) -> Mask:
    """Mask of evaluated rows that duplicate a training row."""
    found = np.zeros(len(judged.folds), dtype=np.bool_)
    if suspicion.trial == "near texts":
        return _near_texts(judged)
    columns, target = judged.columns, judged.prepared.target.column
    for train, held, places in judged.splits():
        if suspicion.trial == "near rows":
            found[places] = near_rows_of(train, held, columns, target)
        else:
            repeats = repeats_of(train, held, columns, target)
            found[places] = excess(repeats.equal, repeats.copied, judged.seed)
    return found


def _near_texts(judged: JudgedTable) -> Mask:
    """`copied_rows` for texts, compared once for all folds."""
    columns, target = judged.columns, judged.prepared.target.column
    every = judged.every.frame
    groups = text_groups(every, columns)
    if fold_count(judged.section):
        found = np.zeros(len(judged.folds), dtype=np.bool_)
        for fold in np.unique(judged.folds):
            held = judged.folds == fold
            order = np.concatenate([np.flatnonzero(~held), np.flatnonzero(held)])
            train = int((~held).sum())
            found[held] = near_texts_of(groups[order], every[order], train, columns, target)
        return found
    train, judged_rows = len(judged.prepared.train), len(judged.scored.part)
    order = np.r_[0:train, len(groups) - judged_rows : len(groups)]
    return near_texts_of(groups[order], every[order], train, columns, target)
