"""A study as its folder holds it, ended or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

from trainwright.contract.sections.metric import METRICS, Direction
from trainwright.contract.sections.run_settings import Tune
from trainwright.core.files import Json, damage_in, read_json, to_json
from trainwright.evaluation.candidates.selection_bias import BestOfMany
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import STUDY
from trainwright.tune.space import Params, Space
from trainwright.tune.study import Trial
from trainwright.tune.study_folder import StudyFolder
from trainwright.tune.trial import ASKED, OUTCOME


@final
@dataclass(frozen=True, slots=True)
class StoredChoice:
    """Numbers of the kept trial and of the one with the best value, the gain of trials over the
    contract as written, what the best of so many is worth, and whether its gain is claimed."""

    trial: int
    best: int
    gains: Mapping[int, Interval]
    of_many: BestOfMany
    is_claimed: bool

    @classmethod
    def read(cls, content: Json) -> StoredChoice:
        """That of `study.json`."""
        gains = {int(key): Interval.from_json(gain) for key, gain in content["gains"].items()}
        return cls(
            content["trial"],
            content["best"],
            gains,
            BestOfMany(**content["best_of_many"]),
            content["claimed"],
        )


@final
@dataclass(frozen=True, slots=True)
class StoredStudy:
    """A study: what it was asked, its ended trials, and its choice once it has one. `metric` is
    empty before a trial was planned; `confidence` is that of its intervals, and `seconds` are those
    of all its processes."""

    folder: StudyFolder
    section: Tune
    space: Space
    metric: str
    confidence: float
    trials: Sequence[Trial]
    seconds: float
    contract: str
    overrides: Sequence[str]
    choice: StoredChoice | Literal["none"]

    @property
    def direction(self) -> Direction:
        """Of its metric."""
        return METRICS[self.metric].direction if self.metric else "max"

    @property
    def rows(self) -> str:
        """The rows by which its trials are compared."""
        return "validation" if self.section.folds == "off" else f"{self.section.folds} folds"

    @property
    def complete(self) -> Sequence[Trial]:
        """The trials that have a value and were not pruned."""
        return [
            trial
            for trial in self.trials
            if trial.outcome.state == "complete" and trial.outcome.value is not None
        ]

    def run_of(self, number: int) -> RunFolder:
        """The run of a trial."""
        return RunFolder(self.folder.trials / self.folder.files(number).name)


def read_study(path: Path) -> StoredStudy:
    """Read a study from its folder.

    Raises:
        DamagedFile: a file of it.
    """
    folder = StudyFolder(path)
    with damage_in(path / STUDY):
        content = folder.read()
        count = {"trials": content["trials"]} if "trials" in content else {}
        section = Tune.model_validate_json(to_json({**content["asked"]["tune"], **count}))
        space = Space.of(section)
        winner = content.get("winner")
        choice: StoredChoice | Literal["none"] = StoredChoice.read(winner) if winner else "none"
    trials, metric, confidence = list[Trial](), "", 0.95
    for number in folder.numbers():
        files = folder.files(number)
        with damage_in(files.path(ASKED)):
            params: Params = read_json(files.path(ASKED))["params"]
        if (not metric or not number) and (plan := folder.plan_of(number)):
            section_of_metric = plan["contract"]["metric"]
            metric = section_of_metric["name"]
            confidence = float(section_of_metric["confidence"])
            params = params or space.values_of(plan["contract"])
        with damage_in(files.path(OUTCOME)):
            outcome = files.outcome()
        if outcome:
            trials.append(Trial(number, params, outcome))
    return StoredStudy(
        folder,
        section,
        space,
        metric,
        confidence,
        trials,
        float(content["seconds"]),
        content["asked"]["contract"],
        content["asked"]["overrides"],
        choice,
    )
