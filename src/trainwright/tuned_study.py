"""Python API: `tune`, a search over values of a contract."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from trainwright.api import TrainedRun
from trainwright.contract.reading.read_contract import Sections, file_or_text
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.core.process import code_allowed
from trainwright.data.sources.frames import Frame
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen
from trainwright.tune.records import trials_frame
from trainwright.tune.run_study import StudyResult, run_study
from trainwright.tune.study import Trial


@final
@dataclass(frozen=True, repr=False)
class TunedStudy:
    """Ended search over values of a contract: its trials, and the judged run of the winner.
    `allow_code` is what its call said."""

    result: StudyResult
    allow_code: bool = False

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.result.folder.name

    @property
    def folder(self) -> Path:
        """Folder of the study."""
        return self.result.folder.path

    @property
    def report(self) -> Path:
        """The HTML report of the search; that of the winner is `run.report`."""
        return self.result.folder.report

    @property
    def trials(self) -> pl.DataFrame:
        """A row for each trial: its number, state, value on the validation rows, seconds, price,
        size in 10^6 bytes, why it ended, and what it tried, a column for each path. Trial 0 is the
        contract as written."""
        return trials_frame(self.result.trials)

    @property
    def best(self) -> Trial:
        """The trial of the best value on the validation rows, which so many trials make too
        good."""
        return self.result.winner.best

    @property
    def winner(self) -> Trial:
        """The trial that is kept: by `tune.choice` the smallest model whose interval reaches the
        best."""
        return self.result.winner.trial

    @property
    def run(self) -> TrainedRun:
        """The winner's run, judged once on the test rows."""
        return TrainedRun(self.result.result, self.allow_code)

    def to_json(self) -> Json:
        """Output of `trainwright tune --json`."""
        return self.result.to_json()

    def __repr__(self) -> str:
        of_many = self.result.winner.of_many
        best = f"best of {of_many.count} trials {show_number(of_many.value)}"
        kept = f"kept {self.winner.label}, {self.run.verdict.status}"
        return f"TunedStudy({self.name}: {best}; {kept}; {self.report})"


def tune(
    contract: str | Path | Sections,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    frames: Mapping[str, Frame] | None = None,
    allow_code: bool = False,
) -> TunedStudy:
    """Search over values of a contract, as its section `tune` says, and judge the winner. Each
    trial is a run in a process of its own; test rows stay closed until the winner is judged, once.

    Args:
        contract: the contract's file, its sections as a mapping, or the result of `read_contract`.
        overrides: replaced values, each as `"tune.trials=40"`.
        runs: parent folder of the study's folder.
        name: the study's name; empty takes the contract's name and the next free number.
        resume: go on with the study of this name, or the newest unfinished one.
        frames: rows in memory by name, as for `train`.
        allow_code: run the code that the contract names (`model.kind: imported`).

    Raises:
        Mistake: contract or data are wrong; nothing was written. Interrupted: stopped by a signal,
            to be resumed. RunLocked: another process runs the study. NonFinite: no trial has a
            value. MissingExtra: Optuna is not installed.
    """
    request = Request(
        file_or_text(contract),
        tuple(overrides),
        Path(runs),
        name,
        resume,
        frames=dict(frames or {}),
    )
    with code_allowed(allow_code):
        result = run_study(request, StreamScreen(sys.stderr))
    # Imported here: a search does not wait for them.
    from trainwright.report.study_page import report_study

    report_study(result)
    return TunedStudy(result, allow_code)
