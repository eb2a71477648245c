"""Python API of the command: `train` and `load`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from trainwright.contract.reading.read_contract import Sections, file_or_text
from trainwright.core.errors import Mistake, Problem
from trainwright.core.faultpoints import reached
from trainwright.core.files import Json
from trainwright.data.sources.frames import Frame
from trainwright.evaluation.evaluate import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import MANIFEST, read_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.prepare_run import Request
from trainwright.run.prepared_data import PreparedData
from trainwright.run.run_result import Result
from trainwright.run.screen import Screen, StreamScreen
from trainwright.run.script.judge_model import Predict, judge_model
from trainwright.run.train import train as train_contract
from trainwright.tracking.run_folder import RunFolder, is_run_folder


@final
@dataclass(frozen=True, repr=False)
class TrainedRun:
    """Judged run: its metrics, the verdict, and the model."""

    result: Result

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.result.name

    @property
    def folder(self) -> Path:
        """Folder of the run, from which it can be reproduced."""
        return self.result.folder.path

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.result.folder.report

    @property
    def verdict(self) -> Verdict:
        """Verdict of the contract, clause by clause."""
        return self.result.verdict

    @property
    def evaluation(self) -> Evaluation:
        """Every metric on the test rows with its interval, per slice, and of the baselines."""
        return self.result.evaluation

    @cached_property
    def predictor(self) -> Predictor:
        """Model with its fitted features, read from the run's bundle on first use."""
        return read_own_bundle(self.result.folder)

    def to_json(self) -> Json:
        """Output of `trainwright train --json`."""
        return self.result.to_json()

    def __repr__(self) -> str:
        from trainwright.report.cell import summarise_result

        return summarise_result(self.result)

    def _repr_html_(self) -> str:
        """Notebook representation."""
        from trainwright.report.cell import draw_cell

        return draw_cell(self.result)


def train(
    contract: str | Path | Sections,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    frames: Mapping[str, Frame] | None = None,
) -> TrainedRun:
    """Train what a contract describes and judge it; progress is shown on stderr.

    Args:
        contract: the contract's file, its sections as a mapping, or the result of `read_contract`.
            Relative paths of a mapping start at the working directory.
        overrides: replaced values, each as `"training.batch_size=64"`.
        runs: parent folder of the run's folder.
        name: the run's name; empty takes the contract's name and the next free number.
        resume: resume the run of this name, or the newest unfinished one.
        frames: rows in memory, for a contract whose `data.path` is `frame://NAME`: polars or pandas
            frames, or dicts of columns, by name.

    Raises:
        Mistake: contract or data are wrong, with all problems at once; nothing was written.
        Interrupted: the run was stopped by a signal and can be resumed.
        NonFinite: the training was halted at a non-finite loss or gradient.
        TrainwrightError: other failures, each named in `trainwright.core.errors`.
    """
    request = Request(
        file_or_text(contract),
        tuple(overrides),
        Path(runs),
        name,
        resume,
        frames=dict(frames or {}),
    )
    return TrainedRun(train_and_report(request, StreamScreen(sys.stderr)))


def train_and_report(request: Request, screen: Screen) -> Result:
    """Run to the verdict and write the report; shared by the command and `train`.

    Raises:
        As `train`.
    """
    result = train_contract(request, screen)
    reached("report")
    # Imported here: a training does not wait for it.
    from trainwright.report.page import write_report

    write_report(result.folder)
    return result


def judge(
    predict: Predict,
    data: PreparedData,
    *,
    runs: str | Path = "runs",
    name: str = "",
) -> TrainedRun:
    """Open the test rows, once, and judge a model by the contract: every metric with its interval,
    slices, baselines, experiments on the audit's findings, verdict, record and report of a run.

    Args:
        predict: maps a frame of features to class probabilities, as a frame or mapping with one
            column per class or as an array [N, C] in the order of `data.classes`; for a numeric
            target to values [N].
        data: from `prepare`.
        runs: parent folder of the run's folder.
        name: the run's name; empty takes the contract's name and the next free number.

    Raises:
        Mistake: invalid predictions, or the name is taken. StorageFailed: the disk.
    """
    from trainwright.report.page import write_report

    result = judge_model(predict, data, Path(runs), name)
    write_report(result.folder)
    return TrainedRun(result)


def load(run: str | Path) -> Predictor:
    """Load the predictor of a run from its folder, or from a bundle; every file is verified first.

    Raises:
        Mistake: neither, a run without a model yet, or a changed file. MissingExtra: a network,
            without PyTorch. StorageFailed: the run's files belong to another run.
    """
    folder = Path(run)
    if (folder / MANIFEST).exists() or not is_run_folder(folder):
        return read_bundle(folder)
    bundle = RunFolder.open(folder).bundle
    if bundle.is_dir():
        return read_own_bundle(RunFolder.open(folder))
    raise Mistake(
        Problem(
            f"run {folder.name} has no model yet",
            found=f"no {bundle.name} in {folder}",
            fix=f"let it end: trainwright resume {shlex.quote(str(folder))}",
        )
    )
