"""A study from its contract to one judged winner: the driver, which alone decides what each trial
tries."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.reading.read_contract import Document
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.run_settings import Ray, Tune
from trainwright.core.formatting import show_number, show_seconds
from trainwright.core.process import is_code_allowed
from trainwright.core.threads import usable_cores
from trainwright.run.mapped_rows import write_rows
from trainwright.run.prepare.prepare_run import blaming
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Request
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.lock import RunLock
from trainwright.tracking.sinks.sink_process import need_sinks
from trainwright.tune.database import StudyDatabase
from trainwright.tune.processes import LocalProcesses, RayTasks, RunningTrial, TrialRunner
from trainwright.tune.proposals import Proposals, search_method
from trainwright.tune.scored_rows import TrialRows
from trainwright.tune.space import NO_SEARCH, NO_SINKS, Params, Space, read_space
from trainwright.tune.study_folder import StudyFolder
from trainwright.tune.trial import Outcome, TrialRequest
from trainwright.tune.warm_start import KnownTrials, read_known

_NO_BUDGET = ("budget.hours=unlimited", "budget.cost=unlimited")
"""Of a trial: the budget is that of the study."""

_MOST_SECONDS_TO_DIE = 60.0

_MOST_DEATHS = 5
"""Times that the process of a trial may die before the trial counts as failed."""


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """An ended trial, with the values that it tried; none of the contract as written."""

    number: int
    params: Params
    outcome: Outcome

    @property
    def label(self) -> str:
        """What the screen calls it."""
        return "as written" if not self.number else f"trial {self.number}"


@final
@dataclass(frozen=True, slots=True)
class StudyPlan:
    """What a study is asked: its contract, its section `tune`, the searched space, the request of
    its trials without their values, the rows that they share, those by which they are compared, and
    where it is kept."""

    document: Document
    section: Tune
    space: Space
    request: Request
    data: PreparedData
    rows: TrialRows
    folder: StudyFolder

    @property
    def parallel(self) -> int:
        """Trials at a time."""
        match self.section.parallel:
            case "auto":
                return 1
            case Ray() as cluster:
                return cluster.trials_at_a_time
            case count:
                return count

    @property
    def values_as_written(self) -> Params:
        """The values of the contract as written; none if one of them is outside of the space."""
        decided = self.data.ready.plan.contract.model_dump(mode="json")
        return self.space.values_of(decided)

    @property
    def earlier_trials(self) -> KnownTrials:
        """Trials of an earlier study, with their values."""
        return [(params, value) for params, value in self.folder.read().get("start", ())]

    @property
    def seconds(self) -> float:
        """The budget of the study; infinite without one."""
        return self.document.contract.budget.seconds()


def plan_study(request: Request, screen: Screen) -> StudyPlan:
    """Read the contract, prepare its rows, and open the folder of the study.

    Raises:
        Mistake: in the contract, the data, the installation or the name of the study.
    """
    document, section, space = read_space(request)
    with blaming(document.source):
        need_sinks(document.contract.tracking.sinks)
    base = trial_request(request, document)
    data = PreparedData.of(base, screen)
    rows = TrialRows.of(data, section)
    # What cannot be reached is said before anything is written.
    if section.storage != "auto":
        StudyDatabase(section.storage).close()
    if isinstance(section.parallel, Ray):
        RayTasks(section.parallel)
    known = [] if request.resume else read_known(document, section.start, space, screen)
    version = data.ready.prepared.version
    folder = StudyFolder.open(request, document, section, version, known)
    return StudyPlan(document, section, space, base, data, rows, folder)


def trial_request(request: Request, document: Document) -> Request:
    """The request of a trial, without its values, from that of the study."""
    # A trial reads the text of the contract, which has no name of its own.
    name = f"name={json.dumps(document.contract.name)}"
    threads = _threads_of_a_trial(document)
    overrides = (*request.overrides, name, NO_SEARCH, NO_SINKS, *_NO_BUDGET, *threads)
    return replace(request, overrides=overrides, name="", resume=False)


def _threads_of_a_trial(document: Document) -> tuple[str, ...]:
    """Trials side by side share the cores, and those of a cluster have theirs, unless the contract
    says how many each takes."""
    section, threads = document.contract.tune, document.contract.compute.threads
    assert section != "off", "checked when the space was read"
    match section.parallel:
        case int(count) if threads == "auto" and count > 1:
            return (f"compute.threads={max(1, usable_cores() // count)}",)
        case Ray() as cluster if threads == "auto":
            return (f"compute.threads={cluster.cores}",)
    return ()


@final
class Search:
    """The trials of a study, in the order of their numbers.

    Trial n is asked for when the results of all trials up to n - parallel are known, and of no
    other: results that come earlier wait. So what is tried does not depend on how long trials take,
    and a search that is killed goes on with the same trials.
    """

    def __init__(self, plan: StudyPlan, screen: Screen) -> None:
        contract = plan.data.ready.plan.contract
        self._plan, self._screen = plan, screen
        self._rows = write_rows(plan.data.ready, plan.folder.path / "rows")
        self._direction = METRICS[contract.metric.name].direction
        method = search_method(plan.section, plan.space)
        self._proposals = Proposals(plan.space, method, contract.seed, self._direction)
        for params, value in plan.earlier_trials:
            self._proposals.learn(params, value)
        self._runner: TrialRunner
        match plan.section.parallel:
            case Ray() as cluster:
                self._runner = RayTasks(cluster)
            case _:
                self._runner = LocalProcesses()
        self._running: dict[int, RunningTrial] = {}
        self._params: dict[int, Params] = {}
        self._began, self._before = time.monotonic(), float(plan.folder.read()["seconds"])
        self.trials: list[Trial] = []

    def run(self) -> Sequence[Trial]:
        """All trials, those of an earlier process read.

        Raises:
            Interrupted, KeyboardInterrupt: trials that had begun go on with the study.
        """
        window = self._plan.parallel
        try:
            for number in range(self._plan.section.trials):
                self._settle(number - window)
                params = {} if not number else self._proposals.ask(number)
                if params is None or not self._has_time():
                    break
                self.begin(number, params)
            self._settle(max(self._params))
        finally:
            self.stop()
        return self.trials

    def stop(self) -> None:
        """End the trials that run."""
        for trial in self._running.values():
            trial.stop()

    @property
    def seconds(self) -> float:
        """Seconds of the study so far, over all its processes."""
        return self._before + time.monotonic() - self._began

    def begin(self, number: int, params: Params) -> None:
        """Start a trial, unless it has ended."""
        files, self._params[number] = self._plan.folder.files(number), params
        if files.outcome():
            return
        asked = TrialRequest(
            contract=self._plan.document.source.text,
            folder=str(self._plan.document.source.folder),
            shared=self._plan.request.overrides,
            params=params,
            rows=str(self._rows.absolute()),
            section=self._plan.section,
            before=[
                {"value": one.outcome.value, "steps": one.outcome.steps}
                for one in self.trials
                if one.outcome.state == "complete"
            ],
            allow_code=is_code_allowed(),
        )
        for path in files.trials.glob(f"{files.name}*/"):
            # The process of a driver that was killed dies a moment after it.
            RunLock.wait_until_free(path / "lock", _MOST_SECONDS_TO_DIE)
        if self._plan.section.stop != "off":
            # What the pruner saw of a training that was killed is not kept.
            for path in files.trials.glob(f"{files.name}*/"):
                shutil.rmtree(path)
        asked.write(files)
        self._running[number] = self._runner.start(files)

    def _settle(self, last: int) -> None:
        """Wait for the trials up to a number, and learn their results in their order."""
        for number in range(len(self.trials), min(last, max(self._params, default=-1)) + 1):
            outcome = self.wait(number)
            params = self._params[number]
            if not number:
                params = self._plan.values_as_written
                if outcome.value is not None:
                    self._proposals.learn(params, outcome.value)
            self._proposals.tell(number, outcome.value)
            self.add(Trial(number, params, outcome))
            self._plan.folder.write(seconds=self.seconds)

    def add(self, trial: Trial) -> None:
        """Note a trial that has ended, and say so."""
        self.trials.append(trial)
        self._screen.say(self._line(trial))

    def is_running(self, number: int) -> bool:
        """Is the process of a trial at work?"""
        trial = self._running.get(number)
        return trial is not None and trial.is_running()

    def wait(self, number: int) -> Outcome:
        """The outcome of a trial; one whose process died is started again."""
        files, why = self._plan.folder.files(number), ""
        for _ in range(_MOST_DEATHS):
            if outcome := files.outcome():
                return outcome
            if why:
                note = f"the process of trial {files.number} died ({why}): it goes on"
                self._screen.say(labelled("warning", note))
            trial = self._running.pop(files.number, None) or self._runner.start(files)
            self._running[files.number] = trial
            why = trial.wait()
            del self._running[files.number]
        if not (outcome := files.outcome()):
            reason = f"its process died {_MOST_DEATHS} times ({why})"
            outcome = Outcome("failed", None, reason)
            files.end(outcome)
        return outcome

    def _has_time(self) -> bool:
        """Is a further trial likely to end within the budget? The first is always tried."""
        lengths = [trial.outcome.seconds for trial in self.trials if trial.outcome.seconds]
        if not lengths or math.isinf(self._plan.seconds):
            return True
        ahead = statistics.median(lengths) * (1 + len(self._running) / self._plan.parallel)
        if self.seconds + ahead <= self._plan.seconds:
            return True
        said = f"{len(self._params)} of {self._plan.section.trials} trials fit into the budget"
        self._screen.say(labelled("budget", said))
        return False

    def _line(self, trial: Trial) -> str:
        """`trial     3 · 0.8471 (...) · best 0.8493 (trial 1) · 4 of 12, about 40s left`."""
        count = self._plan.section.trials
        values = {
            ended.label: ended.outcome.value
            for ended in self.trials
            if ended.outcome.value is not None
        }
        value = trial.outcome.value
        reached = trial.outcome.reason if value is None else show_number(value)
        tried = ", ".join(
            f"{path}={item:.4g}" if isinstance(item, float) else f"{path}={item}"
            for path, item in trial.params.items()
        )
        parts = [str(trial.number), f"{reached} ({tried if trial.number else trial.label})"]
        if values:
            sign = 1 if self._direction == "max" else -1
            best = max(values, key=lambda name: sign * values[name])
            parts.append(f"best {show_number(values[best])} ({best})")
        left = (count - len(self.trials)) * self.seconds / len(self.trials)
        left = max(0.0, min(left, self._plan.seconds - self.seconds))
        ahead = f", about {show_seconds(left)} left" if left else ""
        parts.append(f"{len(self.trials)} of {count}{ahead}")
        return labelled("trial", " · ".join(parts))
