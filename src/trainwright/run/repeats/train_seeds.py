"""Trainings with other seeds, on the same split.

Each is in `seeds/<number>` of the run's folder and has checkpoints, signals and a bundle of its
own: an interrupted run resumes in the one in which it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.contract.document import Contract
from trainwright.data.types import Prepared
from trainwright.evaluation.scored_part import Scored
from trainwright.evaluation.seed_scores import SeedScores, score_seeds
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.prepare.ready_run import Ready
from trainwright.run.repeats.train_folds import learner_of
from trainwright.run.run_context import RunContext
from trainwright.run.summary import labelled
from trainwright.tracking.observers import Observer
from trainwright.tracking.unfinished import remove_unfinished_of_run

_MOST_SEED = 2**32


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
