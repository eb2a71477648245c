"""A library's fit: its inputs and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.training.objective import Teacher
from trainwright.core.errors import Interrupted, NonFinite
from trainwright.core.progress import StopFlag
from trainwright.core.threads import choose_threads, idle_cores, thread_limit, usable_cores
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.types import Prepared
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.model.library_family import (
    NO_RANKING,
    LibraryJob,
    QueryRows,
    RankingJob,
    numeric_width,
    rows_by_query,
)
from trainwright.predictor.predictor import Predictor

_LEAST_WEIGHT = 1e-6
"""Classes that are less likely than this cost a row and teach nothing."""


def job_of(contract: Contract, prepared: Prepared) -> LibraryJob:
    """Training and validation rows with what a library must know of them."""
    train = _taught(prepared.train.learned(), prepared, contract.training.teacher)
    cardinalities = prepared.features.cardinalities
    cells = len(train) * (numeric_width(train.inputs) + len(cardinalities))
    return LibraryJob(
        train=train,
        validation=prepared.validation.learned(),
        outputs=prepared.target.outputs,
        cardinalities=cardinalities,
        seed=contract.seed,
        metric=contract.metric.name,
        quantile=contract.metric.quantile,
        is_count=prepared.target.is_count,
        quantiles=prepared.target.quantiles,
        monotone=_monotone(contract, prepared),
        ranking=_ranking(contract.metric, prepared),
        threads=thread_limit() or choose_threads(cells, usable_cores(), idle_cores()),
    )


def _taught(part: Part, prepared: Prepared, teacher: Literal["none"] | Teacher) -> Part:
    """Training rows for a library that learns from a teacher too: of numbers the mixture of target
    and teacher, whose squared error has the same minimum as that of the mixed squared errors; of
    classes each row once for every class, weighted by the mixture of its probabilities. The loss is
    then the cross-entropy to that mixture."""
    if not isinstance(teacher, Teacher):
        return part
    share, scores = teacher.weight, part.soft_targets
    if not prepared.target.classes:
        return replace(part, target=(1 - share) * part.target + share * scores[:, 0])
    mixed = share * scores
    mixed[np.arange(len(part)), part.target] += 1 - share
    rows, classes = np.nonzero(mixed >= _LEAST_WEIGHT)
    own = part.weights[rows] if len(part.weights) else 1.0
    return Part(
        part.name,
        frame=part.frame[rows],
        inputs=part.inputs.take(rows),
        target=classes,
        rows=part.rows[rows],
        units=part.units[rows],
        weights=mixed[rows, classes] * own,
    )


def _ranking(metric: Metric, prepared: Prepared) -> RankingJob:
    """Queries of training and validation rows, judged by the contract's metric."""
    if prepared.target.task != "ranking":
        return NO_RANKING
    from trainwright.evaluation.metrics.query_metrics import gains_of

    return RankingJob(
        train=_query_rows(metric, prepared, prepared.train),
        validation=_query_rows(metric, prepared, prepared.validation),
        metric=metric.name,
        gain=lambda relevance: gains_of(relevance, metric.gain),
        k=metric.k,
    )


def _query_rows(metric: Metric, prepared: Prepared, part: Part) -> QueryRows:
    queries = prepared.target.queries(part.frame)
    assert queries is not None, "a ranking has queries"

    def value(scores: Floats, rows: Integers) -> float:
        ordered = answers_of(part.target[rows], scores[:, None], queries=queries[rows])
        return measure(metric.name, ordered, metric)

    return rows_by_query(queries, value)


def _monotone(contract: Contract, prepared: Prepared) -> Mapping[int, int]:
    """Signs of the constraints by the place of their column; turned round where the positive class
    is the first."""
    names, target = prepared.features.numeric_names, prepared.target
    turn = -1 if target.classes and target.positive_code == 0 else 1
    return {
        names.index(name): turn if way == "increasing" else -turn
        for name, way in contract.model.monotone_columns.items()
    }


@final
@dataclass(frozen=True, slots=True)
class Fitted:
    """A predictor and how its training ended. `kind` is as in the loop's `StopReason`; a predictor
    from an `interrupted` or `halted` training is not judged. `kept_step` is the step of its weights
    if it is not the last one, else 0; `length` the rounds or updates that the model took, 0 for one
    fitted in one go, `rounds` the trees of each of several targets. `history` are the validations:
    the step (of boosting the trees) and the values by name."""

    predictor: Predictor
    kind: Literal["finished", "early", "budget", "interrupted", "halted"]
    reason: str
    warnings: tuple[str, ...] = ()
    kept_step: int = 0
    history: Sequence[Mapping[str, float]] = ()
    length: int = 0
    rounds: tuple[int, ...] = ()


def check_ending(fitted: Fitted, flag: StopFlag) -> None:
    """Raise for a training that did not finish."""
    if fitted.kind == "interrupted" or flag.is_up:
        raise Interrupted(f"stopped by {flag.why or fitted.reason}")
    if fitted.kind == "halted":
        raise NonFinite(f"the training was halted: {fitted.reason}")
