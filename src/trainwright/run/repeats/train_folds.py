"""Trainings on other rows or seeds: cross-validation, other seeds on the same split.

A fold's training is in `folds/<number>` of the run's folder and has checkpoints, signals and a
bundle of its own: an interrupted run resumes in the fold in which it stopped.

One with another seed is in `seeds/<number>`, in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import Data, fold_count
from trainwright.contract.sections.run_settings import Budget
from trainwright.data.dispatch import prepare_one_fold
from trainwright.data.subsample import sampled
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import Baselines
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.fold_scores import SeedScores, score_seeds
from trainwright.planner.estimate import count_trainings
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.model_files import fit_beside
from trainwright.run.learners.learner import Learner, build_learner
from trainwright.run.prepare.contract_target import with_contract_target
from trainwright.run.prepare.prepare_run import Ready, decided_task, text_reading
from trainwright.run.run_context import RunContext
from trainwright.run.screen import labelled
from trainwright.tracking.checksums import remove_unfinished_of_run
from trainwright.tracking.events import Observer

_MOST_SEED = 2**32


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


def train_seeds(
    ready: Ready, run: RunContext, watchers: Sequence[Observer]
) -> Mapping[int, Predictor]:
    """Model of each seed but the first, if there are several; those finished by an earlier process
    are read. `watchers` observe all trainings.

    Raises:
        Interrupted: the run can be resumed. NonFinite: a training was halted.
    """
    contract = ready.plan.contract
    count = contract.training.seeds
    of_seed = replace(run, observers=tuple(watchers))
    found: dict[int, Predictor] = {}
    for number in range(1, count):
        seed = (contract.seed + number) % _MOST_SEED
        # Imported here: few runs have several seeds.
        from trainwright.run.learners.inner_training import inner_predictor

        run.screen.say(labelled("seed", f"{seed} · {number + 1} of {count} trainings"))
        folder = run.folder.seed(number, ready.prepared.version)
        remove_unfinished_of_run(folder)
        learner = learner_of(with_seed(ready.plan, seed))
        found[seed], _ = inner_predictor(learner, ready.prepared, of_seed, folder)
    return found


def score_other_seeds(
    others: Mapping[int, Predictor], prepared: Prepared, scored: Scored, contract: Contract
) -> SeedScores:
    """Variation of the metric on the test rows over the models of the other seeds."""
    test = prepared.test
    scores = {
        seed: one.score(one.inputs_of(test, prepared.features)) for seed, one in others.items()
    }
    chosen = {seed: others[seed].decide(each) for seed, each in scores.items()}
    decided = {seed: each for seed, each in chosen.items() if each is not None}
    return score_seeds(scored, scores, contract.seed, contract.metric, decided)


def with_seed(plan: Plan, seed: int) -> Plan:
    """Plan of the same training with another seed."""
    return replace(plan, contract=plan.contract.model_copy(update={"seed": seed}))
