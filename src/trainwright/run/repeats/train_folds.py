"""Cross-validation: trainings of single folds, and their out-of-fold predictions.

A fold's training is in `folds/<number>` of the run's folder and has checkpoints, signals and a
bundle of its own: an interrupted run resumes in the fold in which it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, final

import numpy as np

from trainwright.contract.sections.budget import Budget
from trainwright.contract.sections.data import fold_count
from trainwright.contract.sections.metric import Metric
from trainwright.core.files import read_json
from trainwright.core.formatting import show_number
from trainwright.data.base.table import Floats, Integers, Part
from trainwright.data.dispatch import prepare_one_fold
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import DUMMY
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.fold_scores import FoldScores, score_folds
from trainwright.model.dummy import fit_constant
from trainwright.planner.plan import Plan
from trainwright.predictor.bundle import MANIFEST, read_bundle, write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.baseline_bundles import fit_beside, score_beside
from trainwright.run.folder.check_own_files import check_owner, describe_owner
from trainwright.run.folder.interruption import note_cut
from trainwright.run.learners.fit_result import check_ending
from trainwright.run.learners.learner import build_learner
from trainwright.run.prepare_run import Ready, decided_task
from trainwright.run.run_context import RunContext
from trainwright.run.summary import labelled
from trainwright.tracking.event_log import EventLog
from trainwright.tracking.observers import Observer, Observers
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.unfinished import remove_unfinished_of_run


class _Tested(NamedTuple):
    """Predictions of a fold's model and baselines on the rows of the fold, and its training rows.

    `rows` are positions in the data file, `scores` [n, C] or [n, 1].
    """

    rows: Integers
    scores: Floats
    baselines: Mapping[str, Floats]
    train_rows: int
    notes: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class HeldOut:
    """Out-of-fold predictions of all folds."""

    folds: tuple[_Tested, ...]

    def scored(
        self, prepared: Prepared, shares: Mapping[str, float], notes: Sequence[str]
    ) -> Scored:
        """Rows of all folds as one part: `prepared` is that of the run's own model, whose test part
        they are."""
        part = prepared.test
        at = np.concatenate([np.searchsorted(part.rows, fold.rows) for fold in self.folds])
        names = self.folds[0].baselines
        said = dict.fromkeys([*notes, *(note for fold in self.folds for note in fold.notes)])
        return Scored(
            part=part,
            target=prepared.target,
            scores=_placed([fold.scores for fold in self.folds], at),
            baselines={
                name: _placed([fold.baselines[name] for fold in self.folds], at) for name in names
            }
            | _one_dummy(part, prepared.target.outputs),
            shares=shares,
            notes=tuple(said),
            folds=self.fold_of_rows(part),
        )

    def by_fold(self, scored: Scored, metric: Metric) -> FoldScores:
        """Score of each fold; `scored` is the result of the method above."""
        number = self.fold_of_rows(scored.part)
        return score_folds(scored, number, [fold.train_rows for fold in self.folds], metric)

    def fold_of_rows(self, part: Part) -> Integers:
        """Fold of each judged row, int64 [N]; 0 without folds."""
        number = np.zeros(len(part), dtype=np.int64)
        for at, fold in enumerate(self.folds):
            number[np.searchsorted(part.rows, fold.rows)] = at
        return number


def describe_folds(scores: FoldScores, metric: str) -> str:
    """`rmse 3.1 · 2.9 · 3.3, mean 3.1 (2.6 to 3.6)`."""
    values = " · ".join(show_number(one.metrics[metric]) for one in scores.folds)
    mean = scores.means[metric]
    reach = f" ({show_number(mean.low)} to {show_number(mean.high)})" if mean.given else ""
    return f"{metric} {values}, mean {show_number(mean.value)}{reach}"


def share_of_budget(plan: Plan) -> Plan:
    """Plan of one training: the budget is divided evenly between the folds or seeds and the run's
    own model. Without them the plan is unchanged."""
    trainings = fold_count(plan.contract.data) + plan.contract.training.seeds
    if trainings == 1:
        return plan
    budget = plan.contract.budget
    shared = Budget(
        hours=_share(budget.hours, trainings),
        cost=_share(budget.cost, trainings),
        price_per_hour=budget.price_per_hour,
    )
    return replace(plan, contract=plan.contract.model_copy(update={"budget": shared}))


def train_folds(ready: Ready, run: RunContext, watchers: Sequence[Observer]) -> HeldOut:
    """Train and test every fold, if any; those finished by an earlier process are read. `watchers`
    observe all trainings.

    Raises:
        Interrupted: the run can be resumed. NonFinite: a training was halted.
    """
    count = fold_count(ready.plan.contract.data)
    of_fold = replace(run, observers=tuple(watchers))
    return HeldOut(tuple(_tested(ready, of_fold, number, count) for number in range(count)))


def _tested(ready: Ready, run: RunContext, number: int, count: int) -> _Tested:
    contract, data = ready.plan.contract, ready.plan.contract.data
    prepared = prepare_one_fold(
        ready.raw, data, decided_task(contract), contract.split_seed, number
    )
    folder = run.folder.fold(number + 1, prepared.version)
    remove_unfinished_of_run(folder)
    sizes = f"{len(prepared.train):,} / {len(prepared.validation):,} / {len(prepared.test):,}"
    run.screen.say(labelled("fold", f"{number + 1} of {count} · {sizes} rows"))
    predictor, notes = inner_predictor(ready.plan, prepared, run, folder)
    baselines = fit_beside(prepared, data)
    return _Tested(
        rows=prepared.test.rows,
        scores=predictor.score(prepared.test.inputs),
        baselines=score_beside(baselines, prepared, data),
        train_rows=len(prepared.train),
        notes=(*notes, *baselines.warnings),
    )


def inner_predictor(
    plan: Plan, prepared: Prepared, run: RunContext, folder: RunFolder
) -> tuple[Predictor, tuple[str, ...]]:
    """Model of a fold or of another seed: read if it exists, else trained."""
    identity = run.identity.of_part(folder.full_name)
    if (folder.bundle / MANIFEST).is_file():
        about = read_json(folder.bundle / MANIFEST)["about"]
        check_owner(folder, about, identity)
        return read_bundle(folder.bundle), tuple(about["warnings"])
    observer = Observers([EventLog(folder.events)], run.screen.say)
    if run.goes_on and folder.events.exists():
        observer.observe(note_cut(folder))
    observers = (observer, *run.observers)
    inner = replace(run, folder=folder, observers=observers, identity=identity)
    fitted = build_learner(share_of_budget(plan)).fit(prepared, inner)
    check_ending(fitted, run.flag)
    kind = folder.path.parent.name.removesuffix("s")
    about = {
        **describe_owner(run.folder, identity),
        kind: folder.name,
        "warnings": list(fitted.warnings),
    }
    write_bundle(fitted.predictor, folder.bundle, about)
    return fitted.predictor, fitted.warnings


def _one_dummy(part: Part, outputs: int) -> dict[str, Floats]:
    """Dummy classifier, the same on all folds: the class shares of the judged rows.

    The more frequent a class is in a fold, the rarer it is in the fold's training rows: ranked
    across folds, their class shares have an average precision far below the share of the class,
    which noise would beat.
    """
    if outputs == 1:
        return {}
    return {DUMMY: fit_constant(part.target, outputs).score(part.inputs)}


def _placed(scores: Sequence[Floats], at: Integers) -> Floats:
    """Scores of all folds in the order of the part's rows."""
    together = np.concatenate(scores)
    placed = np.empty_like(together)
    placed[at] = together
    return placed


def _share(whole: Literal["unlimited"] | float, trainings: int) -> Literal["unlimited"] | float:
    return "unlimited" if whole == "unlimited" else whole / trainings
