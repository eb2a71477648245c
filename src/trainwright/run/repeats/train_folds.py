"""Cross-validation: trainings of single folds.

A fold's training is in `folds/<number>` of the run's folder and has checkpoints, signals and a
bundle of its own: an interrupted run resumes in the fold in which it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from trainwright.contract.sections.budget import Budget
from trainwright.contract.sections.data.data import Data, fold_count
from trainwright.data.dispatch import prepare_one_fold
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import Baselines
from trainwright.planner.estimate import count_trainings
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.baseline_bundles import fit_beside
from trainwright.run.learners.learner import Learner, build_learner
from trainwright.run.prepare.contract_target import with_contract_target
from trainwright.run.prepare.prepare_run import decided_task, text_reading
from trainwright.run.prepare.ready_run import Ready
from trainwright.run.run_context import RunContext
from trainwright.run.summary import labelled
from trainwright.tracking.observers import Observer
from trainwright.tracking.unfinished import remove_unfinished_of_run


class TrainedFold(NamedTuple):
    """Model of one fold and the baselines fitted on its training rows. `prepared` holds the fold's
    test part, which `judge` opens, and of a time split also the rows before it: naive forecasts
    need them."""

    predictor: Predictor
    baselines: Baselines
    prepared: Prepared
    train_rows: int
    notes: tuple[str, ...]


def share_of_budget(plan: Plan) -> Plan:
    """Plan of one training: the budget is divided evenly between the folds, seeds or refit and the
    run's own model. Without them the plan is unchanged."""
    trainings = count_trainings(plan.contract)
    if trainings == 1:
        return plan
    budget = plan.contract.budget
    shared = Budget(
        hours=_share(budget.hours, trainings),
        cost=_share(budget.cost, trainings),
        price_per_hour=budget.price_per_hour,
    )
    return replace(plan, contract=plan.contract.model_copy(update={"budget": shared}))


def learner_of(plan: Plan) -> Learner:
    """Learner of one training of any plan, a selection included, with its share of the budget."""
    shared = share_of_budget(plan)
    if not shared.contract.model.is_selection:
        return build_learner(shared)
    # Imported here: few runs select a model.
    from trainwright.run.selection.selection_learner import SelectionLearner

    return SelectionLearner(shared)


def train_folds(
    ready: Ready, run: RunContext, watchers: Sequence[Observer]
) -> tuple[TrainedFold, ...]:
    """Train the model of every fold, if any; those trained by an earlier process are read. No test
    row is opened. `watchers` observe all trainings.

    Raises:
        Interrupted: the run can be resumed. NonFinite: a training was halted.
    """
    count = fold_count(ready.plan.contract.data)
    of_fold = replace(run, observers=tuple(watchers))
    return tuple(_train_fold(ready, of_fold, number, count) for number in range(count))


def _train_fold(ready: Ready, run: RunContext, number: int, count: int) -> TrainedFold:
    contract, data = ready.plan.contract, ready.plan.contract.data
    texts = text_reading(contract, ready.document.source.folder)
    prepared = prepare_one_fold(
        ready.raw, data, decided_task(contract), contract.split_seed, number, texts
    )
    prepared = with_contract_target(prepared, contract)
    folder = run.folder.fold(number + 1, prepared.version)
    remove_unfinished_of_run(folder)
    sizes = f"{len(prepared.train):,} / {len(prepared.validation):,} / {len(prepared.test):,}"
    run.screen.say(labelled("fold", f"{number + 1} of {count} · {sizes} rows"))
    # Imported here: few runs have folds.
    from trainwright.run.learners.inner_training import inner_predictor

    predictor, notes = inner_predictor(learner_of(ready.plan), prepared, run, folder)
    baselines = fit_beside(prepared, data)
    return TrainedFold(
        predictor=predictor,
        baselines=baselines,
        prepared=_for_judging(prepared, data),
        train_rows=len(prepared.train),
        notes=(*notes, *baselines.warnings),
    )


def _for_judging(prepared: Prepared, data: Data) -> Prepared:
    """A fold's data without the rows that are not needed any more."""
    if data.follows_time:
        return prepared
    return replace(
        prepared,
        train=sampled(prepared.train, 0, seed=0),
        validation=sampled(prepared.validation, 0, seed=0),
    )


def _share(whole: Literal["unlimited"] | float, trainings: int) -> Literal["unlimited"] | float:
    return "unlimited" if whole == "unlimited" else whole / trainings
