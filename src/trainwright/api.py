"""What a program calls instead of the command: `train` and `load`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from trainwright.core.faultpoints import reached
from trainwright.core.files import Json
from trainwright.data.frames import Frame
from trainwright.evaluation.evaluate import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import read_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.ready import Request
from trainwright.run.result import Result
from trainwright.run.stages import Screen, StreamScreen
from trainwright.run.train import train as train_contract


@final
@dataclass(frozen=True)
class TrainedRun:
    """A judged run: what was measured, the verdict, and the model."""

    result: Result

    @property
    def name(self) -> str:
        """The run's name."""
        return self.result.name

    @property
    def folder(self) -> Path:
        """The run's folder, from which it can be repeated."""
        return self.result.folder.path

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.result.folder.report

    @property
    def verdict(self) -> Verdict:
        """The contract judged, clause by clause."""
        return self.result.verdict

    @property
    def evaluation(self) -> Evaluation:
        """Every metric on the test rows with its interval, per slice, and of the baselines."""
        return self.result.evaluation

    @cached_property
    def predictor(self) -> Predictor:
        """The model with its fitted features, read from the run's bundle at the first use."""
        return read_bundle(self.result.folder.bundle)

    def to_json(self) -> Json:
        """What `trainwright train --json` prints."""
        return self.result.to_json()


def train(
    contract: str | Path,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    frames: Mapping[str, Frame] | None = None,
) -> TrainedRun:
    """Train what a contract describes and judge it; says on stderr what it does.

    Args:
        contract: the contract's file.
        overrides: replaced values, each as `"training.batch_size=64"`.
        runs: the folder in which the run gets its own.
        name: the run's name; empty takes the contract's name and the next free number.
        resume: go on with the run of this name, or with the newest unfinished one.
        frames: rows in memory, for a contract whose `data.path` is `frame://NAME`: frames of polars
            or pandas, or dicts of columns, by name.

    Raises:
        Mistake: contract or data are wrong, every problem at once; nothing was written.
        Interrupted: the run was stopped by a signal and can be resumed.
        NonFinite: the training was halted at a loss or gradient that is not a finite number.
        TrainwrightError: the other ways to fail, each named in `trainwright.core.errors`.
    """
    request = Request(
        Path(contract), tuple(overrides), Path(runs), name, resume, frames=dict(frames or {})
    )
    return TrainedRun(train_and_report(request, StreamScreen(sys.stderr)))


def train_and_report(request: Request, screen: Screen) -> Result:
    """What the command and `train` share: the run to its verdict, then its report.

    Raises:
        As `train`.
    """
    result = train_contract(request, screen)
    reached("report")
    # Imported here: a training does not wait for it.
    from trainwright.report.page import write_report

    write_report(result.folder)
    return result


def load(bundle: str | Path) -> Predictor:
    """Read a predictor from a bundle, `runs/<name>/bundle`; every file is verified first.

    Raises:
        Mistake: not a bundle, or a changed one. MissingExtra: a network, without PyTorch.
    """
    return read_bundle(Path(bundle))
