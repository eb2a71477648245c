"""Python API: `train`, its two parts `fit` and `judge`, and `load`."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, final, overload

import polars as pl

from trainwright.contract.reading.read_contract import Sections, file_or_text, is_contract
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import show_number, show_seconds
from trainwright.core.lazy_imports import need_torch
from trainwright.core.process import code_allowed
from trainwright.data.sources.frames import Frame
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.predictor import Predictor
from trainwright.run.fit_contract import (
    ContractFit,
    answers_on_validation,
    evaluate_validation,
    fit_contract,
    judge_fit,
)
from trainwright.run.folder.check_own_files import read_model, read_own_bundle
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Additions, Request
from trainwright.run.run_context import Result
from trainwright.run.screen import StreamScreen
from trainwright.run.script.judge_model import Predict, judge_model
from trainwright.run.train import train as train_contract
from trainwright.tracking.events import Observer

if TYPE_CHECKING:
    from trainwright.engine.job import Job
    from trainwright.engine.stopping.stop_rules import StopRule
    from trainwright.run.script.same_settings import OnChange
    from trainwright.tracking.events import Ended

ContractGiven = PreparedData | str | Path | Sections
"""A contract from Python: its file, sections or object, or data that was prepared for it."""


@final
@dataclass(frozen=True, repr=False)
class TrainedRun:
    """Judged run: its metrics, the verdict, and the model. `allow_code` is what its call said."""

    result: Result
    allow_code: bool = False

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
        with code_allowed(self.allow_code):
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


@final
@dataclass(frozen=True, repr=False)
class FittedRun:
    """Trained models of a contract, which are not judged yet: the model, its score on the
    validation rows, its history and its cost. `judge` opens the test rows. `allow_code` is what its
    call said."""

    fitted: ContractFit
    allow_code: bool = False

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.fitted.folder.name

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.fitted.folder.path

    @property
    def predictor(self) -> Predictor:
        """The model with its fitted features."""
        return self.fitted.models.fitted.predictor

    @cached_property
    def score(self) -> float:
        """The contract's metric on the validation rows, all of them; NaN if there are none."""
        metric = self.fitted.ready.plan.contract.metric
        answers = answers_on_validation(self.fitted)
        return measure(metric.name, answers, metric) if len(answers) else math.nan

    @cached_property
    def validation(self) -> Evaluation:
        """Every metric on the validation rows with its interval, and per slice. They steer the
        training, so it is no verdict: a choice among many fits makes it too good."""
        return evaluate_validation(self.fitted)

    @property
    def history(self) -> pl.DataFrame:
        """Validations of the training: `step` (of boosting the trees) and the values by name; of
        boosting those on the recorded curve. Empty for a model that is solved at once."""
        return pl.DataFrame(self.fitted.models.fitted.history)

    @property
    def kind(self) -> Literal["finished", "early", "budget", "interrupted", "halted"]:
        """Kind of the ending: `finished`, `early` (no improvement, or a stop rule) or `budget`."""
        return self.fitted.models.fitted.kind

    @property
    def reason(self) -> str:
        """Reason of the ending."""
        return self.fitted.models.fitted.reason

    @property
    def seconds(self) -> float:
        """Seconds of training, those of folds, other seeds and earlier attempts included."""
        return self.fitted.seconds

    @property
    def price(self) -> float:
        """Price of the machine for the run so far; 0 without `budget.price_per_hour`."""
        return self.fitted.price

    def __repr__(self) -> str:
        metric = self.fitted.ready.plan.contract.metric.name
        how = f"{self.reason} ({self.kind}), {show_seconds(self.seconds)}"
        return f"FittedRun({self.name}: validation {metric} {show_number(self.score)}; {how})"


def train(
    contract: str | Path | Sections,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    start: str = "",
    frames: Mapping[str, Frame] | None = None,
    allow_code: bool = False,
) -> TrainedRun:
    """Train what a contract describes and judge it; progress is shown on stderr.

    Args:
        contract: the contract's file, its sections as a mapping, or the result of `read_contract`.
            Relative paths of a mapping start at the working directory.
        overrides: replaced values, each as `"training.batch_size=64"`.
        runs: parent folder of the run's folder.
        name: the run's name; empty takes the contract's name and the next free number.
        resume: resume the run of this name, or the newest unfinished one.
        start: `RUN@STEP`: begin at a checkpoint of another run of this model, `RUN` at its newest.
        frames: rows in memory, for a contract whose `data.path` is `frame://NAME`: polars or pandas
            frames, or dicts of columns, by name.
        allow_code: run the code that the contract names (`model.kind: imported`).

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
        start=start,
        frames=dict(frames or {}),
    )
    with code_allowed(allow_code):
        return _reported(train_contract(request, StreamScreen(sys.stderr)), allow_code)


@overload
def fit(
    training: Job,
    *,
    run: str | Path | None = None,
    changed: OnChange = "refuse",
    restore_best: bool = False,
    progress: bool = True,
) -> Ended: ...
@overload
def fit(
    training: ContractGiven,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    stop_rules: Sequence[StopRule] = (),
    observers: Sequence[Observer] = (),
    progress: bool = True,
    allow_code: bool = False,
) -> FittedRun: ...
def fit(training: Any, **options: Any) -> Ended | FittedRun:
    """Train a contract's model up to its validation score, or the `Job` of a script. Test rows stay
    closed until `judge` opens them.

    Of a contract: every model that it asks for is trained, folds and seeds too, in a run folder of
    its own. `progress` says whether it is shown on stderr. A `Job` trains until a stop rule or the
    guard ends it and resumes from its newest valid checkpoint, one at step 0 and one at every
    ending; SIGTERM and Ctrl-C end it after the current step, with a checkpoint.

    Args:
        training: the contract's file, its sections as a mapping, the result of `read_contract`, or
            data from `prepare`, which many fits share; or a `Job`.
        overrides: (contract) replaced values, each as `"model.learning_rate=0.1"`; of prepared data
            none that would prepare it otherwise.
        runs, name, resume: (contract) as for `train`.
        stop_rules: (contract) rules next to the contract's, asked between two steps or two trees.
            They are not known to a resume by the command.
        observers: (contract) observers of the training's events. Of boosting they see a `Validated`
            event a tree. An error of theirs is announced and does not end the training.
        allow_code: (contract) as for `train`.
        run: (job) a run folder for record, signals, events and, if the job names no other place,
            its checkpoints; made if it is missing. The checkpoints are bound to it: those of
            another run are refused. `trainwright runs` takes it.
        changed: (job) what happens if settings (learning rate, batch size, dropout, weight decay,
            rows) differ from those of the checkpoint: `refuse`, or `record`, which announces them
            and goes on with the new ones.
        restore_best: (job) end with the weights of the best validation.

    Raises:
        Mistake: contract, data or job are wrong; nothing was written. DataChanged: the rows have
            changed. RunLocked: another process trains into this folder. Interrupted: stopped by a
            signal, to be resumed by the same call (of a contract with `resume=True`); a script
            ends with exit code 75. NonFinite: the guard halted the training. NoValidCheckpoint,
            StorageFailed: as their names say. Whatever a job's step itself raises passes through.
    """
    if isinstance(training, PreparedData) or is_contract(training):
        return _fit_contract(training, **options)
    need_torch("", "trainwright.fit")
    # Imported here: only networks need torch.
    from trainwright.run.script.fit_job import fit as fit_job

    return fit_job(training, **options)


def _fit_contract(
    given: ContractGiven,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    name: str = "",
    resume: bool = False,
    stop_rules: Sequence[StopRule] = (),
    observers: Sequence[Observer] = (),
    progress: bool = True,
    allow_code: bool = False,
) -> FittedRun:
    asked_at = time.monotonic()
    screen = StreamScreen(sys.stderr if progress else io.StringIO())
    if not isinstance(given, PreparedData):
        with code_allowed(allow_code):
            given = PreparedData.of(Request(file_or_text(given), tuple(overrides)), screen)
        overrides = ()
    request = replace(
        given.request,
        overrides=(*given.request.overrides, *overrides),
        runs=Path(runs),
        name=name,
        resume=resume,
        added=Additions(tuple(stop_rules), tuple(observers)),
        asked_at=asked_at,
    )
    with code_allowed(allow_code):
        return FittedRun(fit_contract(given, request, screen), allow_code)


@overload
def judge(model: FittedRun, *, progress: bool = True) -> TrainedRun: ...
@overload
def judge(
    model: Predict, data: PreparedData, *, runs: str | Path = "runs", name: str = ""
) -> TrainedRun: ...
def judge(
    model: FittedRun | Predict,
    data: PreparedData | None = None,
    *,
    runs: str | Path = "runs",
    name: str = "",
    progress: bool = True,
) -> TrainedRun:
    """Open the test rows, once, and judge a model by the contract: every metric with its interval,
    slices, baselines, experiments on the audit's findings, verdict, record and report of a run.

    Args:
        model: what `fit` gave for a contract, judged in its own run; or a function that maps a
            frame of features to class probabilities, as a frame or mapping with one column per
            class or as an array [N, C] in the order of `data.classes`; for a numeric target to
            values [N].
        data: from `prepare`, for a function.
        runs: parent folder of the run's folder, for a function.
        name: the run's name, for a function; empty takes the contract's name and the next free
            number.
        progress: whether progress is shown on stderr.

    Raises:
        Mistake: invalid predictions, or the name is taken. DataChanged: the data has changed since
            it was read. StorageFailed: the disk.
    """
    if isinstance(model, FittedRun):
        screen = StreamScreen(sys.stderr if progress else io.StringIO())
        with code_allowed(model.allow_code):
            return _reported(judge_fit(model.fitted, screen), model.allow_code)
    if isinstance(data, PreparedData):
        return _reported(judge_model(model, data, Path(runs), name))
    raise Mistake(
        Problem(
            "a function is judged on the rows of a contract",
            path="data",
            fix="judge it on prepared data: tw.judge(predict, tw.prepare(contract))",
        )
    )


def _reported(result: Result, allow_code: bool = False) -> TrainedRun:
    # Imported here: a training does not wait for it.
    from trainwright.report.page import write_report

    write_report(result.folder)
    for sinks in result.sinks:
        sinks.finish()
    return TrainedRun(result, allow_code)


def load(run: str | Path, *, allow_code: bool = False) -> Predictor:
    """Load the predictor of a run from its folder, or from a bundle; every file is verified first.

    `allow_code` runs the code of a model of `kind: imported`, if it is that of the training, from
    the contract's folder, the working directory or Python's path.

    Raises:
        Mistake: neither, a run without a model yet, or a changed file. MissingExtra: a network,
            without PyTorch. StorageFailed: the run's files belong to another run.
    """
    with code_allowed(allow_code):
        return read_model(Path(run))
