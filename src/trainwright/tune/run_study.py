"""From a contract with a search to a judged winner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import final

from trainwright.contract.sections.metric import METRICS
from trainwright.core.files import Json
from trainwright.run.request import Request
from trainwright.run.run_context import Result
from trainwright.run.screen import Screen
from trainwright.tune.records import write_journal, write_table
from trainwright.tune.study import Search, Trial, plan_study
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
    with plan.folder.lock():
        search = Search(plan, screen)
        trials = search.run()
        write_table(plan.folder, plan.space, trials)
        write_journal(plan.folder, plan.space, trials, direction)
        winner = choose_winner(plan, trials)
        for line in describe_winner(winner, contract.metric.name):
            screen.say(line)
        result = judge_winner(plan, winner, screen)
        plan.folder.write(
            seconds=search.seconds,
            trials=plan.section.trials,
            winner=winner.record(),
            run=result.name,
        )
    return StudyResult(plan.folder, trials, winner, result)
