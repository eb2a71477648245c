"""From a contract with a search to a judged winner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final
from uuid import uuid4

from trainwright.contract.sections.metric import METRICS
from trainwright.core.files import Json, read_json, write_json, write_text
from trainwright.run.request import Request
from trainwright.run.run_context import Result
from trainwright.run.screen import Screen, labelled
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks.sink_process import Sinks
from trainwright.tune.database import StudyDatabase
from trainwright.tune.proposals import search_method
from trainwright.tune.records import trials_frame, write_journal
from trainwright.tune.shared_study import SharedSearch, plan_joined
from trainwright.tune.study import Search, StudyPlan, Trial, plan_study
from trainwright.tune.study_folder import StudyFolder
from trainwright.tune.winner import Winner, choose_winner, describe_winner, judge_winner


@final
@dataclass(frozen=True, slots=True)
class StudyResult:
    """An ended study: its trials, the one that is kept and its judged run."""

    folder: StudyFolder
    trials: Sequence[Trial]
    winner: Winner
    result: Result
    sinks: Sequence[Sinks] = ()
    """What sends the study to trackers: finished once the reports are written."""

    def to_json(self) -> Json:
        """Output of `trainwright tune --json`."""
        return {
            "study": self.folder.name,
            "trials": [
                {"trial": one.number, "params": dict(one.params), **asdict(one.outcome)}
                for one in self.trials
            ],
            "winner": self.winner.record(),
            "judged": self.result.to_json(),
        }


def join_study(request: Request, study: Path, screen: Screen) -> Sequence[Trial]:
    """Run trials of a study that another machine has begun and will judge, until none is left.

    Raises:
        Mistake: in the contract, or there is no such study. Interrupted: other machines, or this
            one when it joins again, go on with its trials.
    """
    return run_trials(plan_joined(request, study, screen), screen)[0]


def run_trials(plan: StudyPlan, screen: Screen) -> tuple[Sequence[Trial], float]:
    """All trials of a study, and the seconds that they took; of a shared one, those of a machine
    that would have run them alone.

    Raises:
        As `tune`.
    """
    if plan.section.storage == "auto":
        search = Search(plan, screen)
        return search.run(), search.seconds
    with closing(StudyDatabase(plan.section.storage)) as database:
        shared = SharedSearch(plan, database, screen)
        return shared.run(), shared.seconds


def run_study(request: Request, screen: Screen) -> StudyResult:
    """Run the trials of a contract's search, keep one, and judge it on the test rows; `name` of the
    request is that of the study.

    Raises:
        Mistake: in the contract or the data; nothing was written. Interrupted: the study can go on.
            RunLocked: another process runs it. NonFinite: no trial has a value.
    """
    plan = plan_study(request, screen)
    contract = plan.data.ready.plan.contract
    direction = METRICS[contract.metric.name].direction
    with plan.folder.lock(), _tracked(plan, screen) as sinks:
        trials, seconds = run_trials(plan, screen)
        write_text(plan.folder.path / "trials.csv", trials_frame(trials).write_csv())
        write_journal(plan.folder, plan.space, trials, direction)
        winner = choose_winner(plan, trials)
        for line in describe_winner(winner, contract.metric.name):
            screen.say(line)
        # Before the test rows are opened: a study that dies then goes on with this winner.
        plan.folder.write(seconds=seconds, trials=plan.section.trials, winner=winner.record())
        result = judge_winner(plan, winner, screen)
        plan.folder.write(run=result.name)
    return StudyResult(plan.folder, trials, winner, result, sinks)


@contextmanager
def _tracked(plan: StudyPlan, screen: Screen) -> Iterator[Sequence[Sinks]]:
    """Inside the block the sinks of the study send it and its trials; after an error they go on by
    themselves."""
    folder, contract = RunFolder(plan.folder.path), plan.document.contract
    searched = plan.section.model_copy(update={"method": search_method(plan.section, plan.space)})
    known = read_json(folder.plan) if folder.plan.is_file() else {"identity": {"run": uuid4().hex}}
    decided = {
        **plan.data.ready.plan.contract.model_dump(mode="json"),
        **contract.model_dump(mode="json", include={"budget", "tracking"}),
        "tune": searched.model_dump(mode="json"),
    }
    source = str(plan.document.source.folder)
    write_json(folder.plan, {**known, "contract": decided, "contract_folder": source})
    sinks = list[Sinks]()
    if contract.tracking.sinks:
        sinks.append(
            Sinks.start(folder, contract.tracking, lambda *said: screen.say(labelled(*said)))
        )
    try:
        yield sinks
    except BaseException:
        for running in sinks:
            running.leave()
        raise
