"""Builds the validation of a network. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.columns.target import Target
from trainwright.data.loading.batch import as_batch
from trainwright.data.loading.dataset import RowDataset
from trainwright.data.loading.query_dataset import QueryBatches, QueryDataset
from trainwright.data.subsample import sampled_judged
from trainwright.data.types import Prepared
from trainwright.engine.execution.adaptive_eval_batch import AdaptiveEvalBatch
from trainwright.engine.job import NoValidation, Validate
from trainwright.evaluation.evaluate import SliceRows, find_slices
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.retrieval import answers_of_retrieval, mean_loss
from trainwright.objective.losses import LossSum, Objective, Supervised, TargetLoss
from trainwright.objective.output_link import OutputLink
from trainwright.objective.ranking_losses import ByQuery
from trainwright.planner.plan import Plan
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import restored_scores
from trainwright.run.compose.training_rows import part_store, query_store

_VALIDATION_VALUES = 2**20
_VALIDATION_ROWS = 8192

ValidationLoss = Callable[[Answers], float]
"""Validation loss from predictions that have been made already."""


@final
class Validation:
    """Validation loss and metrics of a network."""

    def __init__(
        self, prepared: Prepared, scorer: NetworkScorer, plan: Plan, loss: ValidationLoss
    ) -> None:
        self._part = prepared.validation
        self._target = prepared.target
        self._queries = prepared.target.queries(self._part.frame)
        self._scorer = scorer
        self._loss = loss
        self._section = plan.contract.metric
        self._slices = _slices(plan.contract, self._part)
        self._sources = self._part.inputs.rows_of_sources()
        training = plan.contract.training
        watched = (_watched(training), training.checkpointing.rank_by)
        names = (*(name.removeprefix("val_") for name in watched), self._section.name)
        self._names = dict.fromkeys(name for name in names if name in METRICS)

    def __call__(self) -> Mapping[str, float]:
        """`val_loss`, that of each source of a mixed text as `val_loss/<source>`, slices as
        `val_<metric>/<slice>` if requested, the watched metric and the contract's, on all
        validation rows."""
        inputs = self._part.inputs
        scores = restored_scores(self._scorer.score(inputs), self._target, inputs.levels)
        answers = self._answers(scores)
        values = {f"val_{name}": measure(name, answers, self._section) for name in self._names}
        of_slices = {
            f"val_{metric}/{one.name}": measure(metric, answers.take(one.rows), self._section)
            for one, metric in self._slices
        }
        of_sources = {
            f"val_loss/{name}": self._loss(answers.take(rows))
            for name, rows in self._sources.items()
            if len(rows)
        }
        return {"val_loss": self._loss(answers), **of_sources, **of_slices, **values}

    def _answers(self, scores: Floats) -> Answers:
        if self._target.task == "retrieval":
            return answers_of_retrieval(self._target, self._part.target, scores)
        return answers_of(
            self._part.target,
            scores,
            self._target.positive_code,
            queries=self._queries,
            quantiles=self._target.quantiles,
            levels=self._part.inputs.levels,
            costs=self._target.costs,
        )


def _slices(contract: Contract, part: Part) -> Sequence[tuple[SliceRows, str]]:
    """Slices measured at each validation, each with its metric."""
    if not contract.training.validation.slices:
        return ()
    found = find_slices(contract.slices, part.frame)
    return [(one, settled(contract.slices[one.number].metric)) for one in found]


def validation_loss(
    loss: TargetLoss, model: nn.Module, prepared: Prepared, portions: AdaptiveEvalBatch
) -> ValidationLoss:
    """Mean training loss over the validation rows, batched by `portions`; for a text, nats per
    token, and of pairs the loss among all of them."""
    device = next(model.parameters()).device
    if prepared.target.is_paired:
        return lambda answers: _mean_of_margins(loss, answers)
    if prepared.target.task == "generation":
        return lambda answers: measure("nats_per_token", answers, Metric())
    if prepared.target.task == "retrieval":
        return mean_loss
    if not prepared.validation.inputs.second_pass:
        of_answers = _LossOfAnswers(loss, prepared.target, device, portions)
        return lambda answers: portions.complete(partial(of_answers, answers))
    if prepared.target.task == "ranking":
        queries = query_store(prepared.validation, prepared, device)
        over_queries = _LossOverQueries(ByQuery(loss), model, queries, portions)
        return lambda _: portions.complete(over_queries)
    store = part_store(prepared.validation, prepared, device)
    over_rows = _LossOverRows(Supervised(loss), model, store, portions)
    return lambda _: portions.complete(over_rows)


def _mean_of_margins(loss: TargetLoss, answers: Answers) -> float:
    margins = torch.from_numpy(answers.values())
    return float(loss.rows(margins, margins).mean())


@final
class _LossOfAnswers:
    """Mean loss of existing scores: a second pass over images or texts would cost more than it is
    worth. log p are logits of p; their z-loss is 0. Numbers are standardised as in training."""

    def __init__(
        self, loss: TargetLoss, target: Target, device: torch.device, portions: AdaptiveEvalBatch
    ) -> None:
        self._loss = loss
        self._link = OutputLink(target)
        self._device = device
        self._portions = portions

    def __call__(self, answers: Answers) -> float:
        def loss_of(rows: slice) -> LossSum:
            scores = torch.tensor(answers.scores[rows], dtype=torch.float32, device=self._device)
            truth = torch.tensor(answers.truth[rows], device=self._device)
            return self._loss.total(self._link.outputs(scores), self._link.learned(truth))

        return _mean_loss(self._portions, len(answers), len(answers), loss_of)


@final
class _LossOverRows:
    def __init__(
        self, objective: Objective, model: nn.Module, store: RowDataset, portions: AdaptiveEvalBatch
    ) -> None:
        self._objective = objective
        self._model = model
        self._store = store
        self._portions = portions

    def __call__(self) -> float:
        first = self._store.take(0, np.zeros(1, dtype=np.int64))
        rows = _VALIDATION_VALUES // max(1, sum(one.numel() for one in first))
        most = min(_VALIDATION_ROWS, max(64, rows), self._store.rows)
        return _mean_loss(self._portions, self._store.rows, most, self._loss_of)

    def _loss_of(self, rows: slice) -> LossSum:
        batch = as_batch(self._store.take(0, np.arange(rows.start, rows.stop)))
        return self._objective(self._model, batch)


@final
class _LossOverQueries:
    """Mean loss over queries, in batches of about as many rows as `_LossOverRows` takes."""

    def __init__(
        self,
        objective: Objective,
        model: nn.Module,
        store: QueryDataset,
        portions: AdaptiveEvalBatch,
    ) -> None:
        self._objective = objective
        self._model = model
        self._store = store
        self._forming = QueryBatches(store)
        self._portions = portions

    def __call__(self) -> float:
        lengths = self._store.lengths
        most = max(1, _VALIDATION_ROWS // int(lengths.max()))
        return _mean_loss(self._portions, len(lengths), most, self._loss_of)

    def _loss_of(self, queries: slice) -> LossSum:
        numbers = np.arange(queries.start, queries.stop)
        batch = self._forming.form(self._store.take(0, numbers), numbers)
        return self._objective(self._model, batch)


def _mean_loss(
    portions: AdaptiveEvalBatch, count: int, most: int, loss_of: Callable[[slice], LossSum]
) -> float:
    """Loss a target of `count` rows, of which `loss_of` gets at most `most` at once."""
    rows = portions.rows(most)
    parts = [slice(start, min(start + rows, count)) for start in range(0, count, rows)]

    def loss_and_targets(part: slice) -> Tensor:
        loss_sum, targets = loss_of(part)
        return torch.tensor([[float(loss_sum), targets]], dtype=torch.float64)

    total = targets = 0.0
    for loss_sum, counted in portions.score_each(parts, loss_and_targets).tolist():
        total += loss_sum
        targets += counted
    return total / targets


def _watched(training: Training) -> str:
    return "val_loss" if training.early_stopping == "off" else training.early_stopping.metric


def build_validation(
    scorer: NetworkScorer,
    loss: TargetLoss,
    portions: AdaptiveEvalBatch,
    plan: Plan,
    prepared: Prepared,
) -> Validate:
    """Validation of the scorer's network during training; none without rows."""
    rows = plan.contract.training.validation.rows
    some = sampled_judged(prepared.validation, prepared.target, rows, plan.contract.seed)
    prepared = replace(prepared, validation=some)
    if not len(prepared.validation):
        return NoValidation()
    of_rows = validation_loss(loss, scorer.network, prepared, portions)
    return Validation(prepared, scorer, plan, of_rows)
