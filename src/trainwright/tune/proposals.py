"""Which values a trial gets: Optuna's samplers, a new one for every trial, so that a search that
was killed goes on as if it had not been."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, final

from trainwright.contract.sections.metric import Direction
from trainwright.contract.sections.run_settings import Tune, Value
from trainwright.tune.space import Params, Space

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study
    from optuna.trial import Trial

Method = Literal["grid", "random", "tpe", "gp", "cmaes"]


def search_method(section: Tune, space: Space) -> Method:
    """What `auto` means for a space."""
    if section.method != "auto":
        return section.method
    return "grid" if space.count(section.trials) < section.trials else "tpe"


def new_study(
    direction: Direction, name: str = "study", storage: BaseStorage | None = None
) -> Study:
    """A study of Optuna, in memory without a storage."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    return optuna.create_study(
        direction="maximize" if direction == "max" else "minimize",
        study_name=name,
        storage=storage,
    )


def sampler_of_trial(method: Method, seed: int, number: int) -> BaseSampler:
    """The sampler of one trial. A sampler that lived on would go on with random numbers that a
    search that was killed has lost."""
    from optuna import samplers

    own = (seed * 1_000_003 + number) % 2**32
    match method:
        case "random" | "grid":
            return samplers.RandomSampler(seed=own)
        case "tpe":
            return samplers.TPESampler(seed=own, multivariate=True, group=True)
        case "gp":
            return samplers.GPSampler(seed=own)
        case "cmaes":
            return samplers.CmaEsSampler(seed=own, n_startup_trials=4)


@final
class Proposals:
    """Values for the trials of a study in the order of their numbers, from 1 on; trial 0 is the
    contract as written.

    The study in memory gets the same results before the same questions whenever it is made
    again, so it gives the same answers.
    """

    def __init__(self, space: Space, method: Method, seed: int, direction: Direction) -> None:
        self._space, self._method, self._seed = space, method, seed
        self._study = new_study(direction)
        self._asked: dict[int, Trial] = {}

    def ask(self, number: int) -> dict[str, Value] | None:
        """The values of a trial; None where every combination was tried."""
        if self._method == "grid":
            return next(itertools.islice(self._space.combinations(), number - 1, None), None)
        self._study.sampler = sampler_of_trial(self._method, self._seed, number)
        trial = self._asked[number] = self._study.ask()
        return self._space.suggest(trial)

    def tell(self, number: int, value: float | None) -> None:
        """The result of a trial that was asked for; None where it failed. One that was pruned has
        the value that it had reached."""
        from optuna.trial import TrialState

        if number not in self._asked:
            return
        trial = self._asked.pop(number)
        if value is None:
            self._study.tell(trial, state=TrialState.FAIL)
        else:
            self._study.tell(trial, value)

    def learn(self, params: Params, value: float) -> None:
        """A result of values that were not asked for."""
        if params and self._method != "grid":
            add_trial(self._study, self._space, params, value)


def add_trial(
    study: Study,
    space: Space,
    params: Params,
    value: float | None,
    steps: Mapping[int, float] = MappingProxyType({}),
    state: str = "complete",
) -> None:
    """Add an ended trial to a study, with its validations by step; without a value, a failed one. A
    pruned one has in Optuna the value of its last validation."""
    from optuna.trial import TrialState

    study.enqueue_trial(dict(params))
    trial = study.ask()
    for axis in space.axes:
        if axis.path in params:
            axis.suggest(trial)
    for step in sorted(steps):
        trial.report(steps[step], step)
    if value is None:
        study.tell(trial, state=TrialState.FAIL)
    elif state == "pruned":
        study.tell(trial, state=TrialState.PRUNED)
    else:
        study.tell(trial, value)
