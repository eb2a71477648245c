"""Context of a process at work on a run, and the result of a run for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.training.training import Checkpointing
from trainwright.core.files import Json
from trainwright.core.progress import StopFlag
from trainwright.engine.save_interval import BestSpacing, FixedSpacing, Spacing
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.run.request import Additions, Request
from trainwright.run.screen import LoggedScreen, Screen, StageTimes
from trainwright.tracking.clock import Spent
from trainwright.tracking.events import Observer
from trainwright.tracking.identity import Identity, NoIdentity
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.tracking.sinks.sink_process import Sinks


@final
@dataclass(frozen=True, slots=True)
class RunAttempt:
    """A process at work on a request: where it reports, how long its stages take, and its stop
    flag."""

    request: Request
    screen: LoggedScreen
    stages: StageTimes
    flag: StopFlag = field(default_factory=StopFlag)


@final
@dataclass(frozen=True, slots=True)
class RunContext:
    """Folder of the run, its observers, its screen, and the stop flag. `goes_on`: the run is
    resumed. Its files are bound to its `identity`; `spent` records how long its trainings take.
    `added` are stop rules and observers of the caller; the observers are among `observers`."""

    folder: RunFolder
    observers: tuple[Observer, ...]
    screen: Screen
    flag: StopFlag
    goes_on: bool = False
    identity: Identity = field(default_factory=NoIdentity)
    spent: Spent = field(default_factory=Spent)
    added: Additions = field(default_factory=Additions)


@final
@dataclass(frozen=True, slots=True)
class Result:
    """A judged model: its run, metrics, and verdict."""

    folder: RunFolder
    evaluation: Evaluation
    verdict: Verdict
    seconds: Mapping[str, float]
    sinks: Sequence[Sinks] = ()
    """What sends the run to trackers, if it has some: finished once the report is written."""

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.folder.name

    def to_json(self) -> Json:
        """`run`, `verdict`, `clauses`, `metrics`, `slices`, `baselines`, `warnings`, `findings`,
        `report`.

        An unavailable bound is null.
        """
        slices: dict[str, dict[str, Json]] = {}
        for one in self.evaluation.slices:
            entry = slices.setdefault(one.name, {"rows": one.rows})
            entry[one.metric] = one.interval.to_json()
        return {
            "run": self.name,
            "verdict": self.verdict.status,
            "clauses": self.verdict.to_json()["clauses"],
            "metrics": {k: v.to_json() for k, v in self.evaluation.metrics.items()},
            "slices": slices,
            "baselines": {
                name: {k: v.to_json() for k, v in metrics.items()}
                for name, metrics in self.evaluation.baselines.items()
            },
            "warnings": list(self.evaluation.warnings),
            "findings": self.verdict.to_json()["findings"],
            "report": str(self.folder.report),
        }


def build_spacing(section: Checkpointing) -> Spacing:
    """Spacing of the contract, if it sets one."""
    match section.save_every_minutes:
        case "auto" | "off":
            raise AssertionError("decided by the plan, and on")
        case "measured":
            hours = section.expected_hours_between_failures
            assert hours != "off", "a rule of the contract asks for it"
            return BestSpacing(3600 * hours)
        case minutes:
            return FixedSpacing(60 * minutes)
