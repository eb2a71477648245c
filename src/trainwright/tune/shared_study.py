"""A study whose trials several machines share: a PostgreSQL database gives each trial its number
and its values, and says by its locks which are at work."""

from __future__ import annotations

import itertools
import math
import secrets
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.metric import METRICS
from trainwright.core.errors import Mistake, Problem, StorageFailed
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.run.mapped_rows import open_rows, write_rows
from trainwright.run.request import Request
from trainwright.run.screen import Screen, labelled
from trainwright.tune.database import StudyDatabase, database_errors
from trainwright.tune.proposals import add_trial, new_study, sampler_of_trial, search_method
from trainwright.tune.scored_rows import TrialRows
from trainwright.tune.space import read_space
from trainwright.tune.study import Search, StudyPlan, Trial, trial_request
from trainwright.tune.study_folder import StudyFolder, is_study
from trainwright.tune.trial import OUTCOME, Outcome

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial
    from optuna.trial import Trial as Asked

_POLL_SECONDS = 0.25

_MOST_SECONDS_TO_SHOW = 120.0
"""Until a file of another machine is seen here; network file systems remember what was missing."""


def plan_joined(request: Request, study: Path, screen: Screen) -> StudyPlan:
    """The plan of a study that another machine has begun, with its rows mapped; waits until it has
    prepared them.

    Raises:
        Mistake: there is no such study, it is of another contract, or of one machine.
    """
    document, section, space = read_space(request)
    study = study.absolute()
    if not is_study(study):
        what, expected = "there is no study to join", "the folder of a study that machines share"
        fix = "start it on the first machine"
        raise Mistake(Problem(what, "--join", str(study), expected, fix))
    if section.storage == "auto":
        what, expected = "a study of one machine cannot be joined", "postgresql://host/database"
        fix = "write it as storage, and start the study again"
        raise Mistake(Problem(what, "tune.storage", "auto", expected, fix))
    asked = replace(request, runs=study.parent, name=study.name, resume=True)
    version = StudyFolder(study).read()["data"]
    folder = StudyFolder.open(asked, document, section, version)
    if "shared" not in folder.read():
        screen.say(labelled("join", f"{folder.name} is being prepared by its first driver"))
    while "shared" not in folder.read():
        time.sleep(_POLL_SECONDS)
    shared = folder.read()["shared"]
    section = section.model_copy(update={"trials": shared["trials"]})
    base = trial_request(request, document)
    data = open_rows(base, folder.path / "rows" / shared["rows"])
    rows = TrialRows.of(data, section)
    return StudyPlan(document, section, space, base, data, rows, folder)


@final
class SharedSearch:
    """The trials of a study that this machine runs while others do, until none is left.

    A trial is given out under one lock of the database, and held by another for as long as it runs:
    if its driver dies, the database frees it, and the next driver that asks goes on with it. Values
    depend on which results are known when they are asked for, hence on timing.
    """

    def __init__(self, plan: StudyPlan, database: StudyDatabase, screen: Screen) -> None:
        self._plan, self._screen = plan, screen
        self._database = database
        self._search = Search(plan, screen)
        contract = plan.data.ready.plan.contract
        self._seed, self._direction = contract.seed, METRICS[contract.metric.name].direction
        self._method = search_method(plan.section, plan.space)
        self._count = plan.section.trials
        if self._method == "grid":
            self._count = min(self._count, 1 + int(plan.space.count(self._count)))
        self._as_written = plan.values_as_written
        shared = plan.folder.read().get("shared") or self._create()
        if shared["trials"] != plan.section.trials:
            plan.folder.write(shared={**shared, "trials": plan.section.trials})
        self._study, self._first = database.load(shared["study"]), int(shared["first"])
        self._running, self._is_over = set[int](), False

    @property
    def seconds(self) -> float:
        """Seconds of the trials of all machines, as if each machine ran without a break."""
        lengths = [trial.outcome.seconds for trial in self._search.trials]
        return sum(lengths) / self._plan.parallel

    def run(self) -> Sequence[Trial]:
        """All trials, when the last has ended on whichever machine.

        Raises:
            Interrupted, KeyboardInterrupt: trials that had begun go on with the study.
            StorageFailed: the database or the files of another machine are gone.
        """
        try:
            with database_errors():
                while not self._step():
                    time.sleep(_POLL_SECONDS)
        finally:
            self._search.stop()
        return sorted(self._search.trials, key=lambda trial: trial.number)

    def _step(self) -> bool:
        """Start what may start, record what has ended; has all of it?"""
        while len(self._running) < self._plan.parallel and (asked := self._claim()):
            number = asked.number - self._first
            params = self._plan.space.suggest(asked) if number or self._as_written else {}
            self._running.add(number)
            self._search.begin(number, params if number else {})
        for number in sorted(self._running):
            if not self._search.is_running(number):
                self._tell(number, self._search.wait(number))
        trials = self._trials()
        ended = [trial for trial in trials if trial.state.is_finished()]
        self._read_outcomes(ended)
        return len(ended) == len(trials) and (self._is_over or len(ended) >= self._count)

    def _claim(self) -> Asked | None:
        """A trial for this driver: one whose driver is gone, or a new one; None without any."""
        from optuna.trial import Trial, TrialState

        with self._database.giving_out():
            trials = self._trials()
            self._study.sampler = sampler_of_trial(self._method, self._seed, len(trials))
            for trial in trials:
                number = trial.number - self._first
                held = trial.state != TrialState.RUNNING or number in self._running
                if held or not self._database.try_lock(number):
                    continue
                # Its driver may have ended it since the list was read.
                if self._trials()[number].state == TrialState.RUNNING:
                    note = f"the driver of trial {number} is gone: it goes on here"
                    self._screen.say(labelled("warning", note))
                    return Trial(self._study, trial._trial_id)
                self._database.unlock(number)
            begun = sum(trial.state != TrialState.WAITING for trial in trials)
            if begun >= self._count or not self._has_time(trials):
                return None
            params = self._as_written
            if begun and self._method == "grid":
                params = next(itertools.islice(self._plan.space.combinations(), begun - 1, None))
            elif begun:
                params = {}
            if params and begun == len(trials):
                self._study.enqueue_trial(dict(params))
            self._database.try_lock(begun)
            return self._study.ask()

    def _tell(self, number: int, outcome: Outcome) -> None:
        """Record a result, and free the trial."""
        from optuna.trial import TrialState

        self._running.discard(number)
        has_value = outcome.value is not None and math.isfinite(outcome.value)
        # A trial without values would leave samplers that intersect those of all with nothing.
        is_known = has_value and (number or self._as_written)
        state = TrialState.COMPLETE if is_known else TrialState.FAIL
        value = outcome.value if is_known else None
        self._study.tell(self._first + number, value, state=state, skip_if_finished=True)
        self._database.unlock(number)

    def _read_outcomes(self, ended: Sequence[FrozenTrial]) -> None:
        """The results of all machines, as far as they are seen here."""
        known = {trial.number for trial in self._search.trials}
        for asked in ended:
            number = asked.number - self._first
            if number in known:
                continue
            files, began = self._plan.folder.files(number), time.monotonic()
            while not (outcome := files.outcome()):
                if time.monotonic() > began + _MOST_SECONDS_TO_SHOW:
                    what = f"trial {number} has ended, but {files.path(OUTCOME)} is not seen here"
                    raise StorageFailed(f"{what}: machines need one folder under the same path")
                time.sleep(_POLL_SECONDS)
            params = dict(asked.params) if number else self._as_written
            self._search.add(Trial(number, params, outcome))

    def _has_time(self, trials: Sequence[FrozenTrial]) -> bool:
        """Is a further trial likely to fit into the budget, which is one of machine time?"""
        lengths = [trial.outcome.seconds for trial in self._search.trials]
        at_work = sum(not trial.state.is_finished() for trial in trials)
        ahead = (at_work + 1) * statistics.median(lengths or [0.0]) / self._plan.parallel
        self._is_over = bool(trials) and self.seconds + ahead > self._plan.seconds
        return not self._is_over

    def _trials(self) -> list[FrozenTrial]:
        """Those of this study, without those that another one gave it."""
        return self._study.get_trials(deepcopy=False)[self._first :]

    def _create(self) -> Json:
        """A study in the database, which no other driver sees before it is complete."""
        name = f"{self._plan.folder.name}-{secrets.token_hex(4)}"
        study = new_study(self._direction, name, self._database.storage)
        for params, value in self._plan.earlier_trials:
            add_trial(study, self._plan.space, params, value)
        rows = write_rows(self._plan.data.ready, self._plan.folder.path / "rows").name
        shared = {"study": name, "first": len(study.trials), "rows": rows}
        shared["trials"] = self._plan.section.trials
        self._plan.folder.write(shared=shared)
        said = "values depend on how fast each machine is, so the search does not repeat"
        self._screen.say(labelled("shared", f"{many(self._count, 'trial')} · {said}"))
        return shared
