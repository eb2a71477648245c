"""Judging a user's model by a contract on its test rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import fold_count
from trainwright.core.errors import Mistake, NotAvailable, Problem
from trainwright.core.files import write_json
from trainwright.data.base.inputs import Floats
from trainwright.data.columns.target import Target
from trainwright.doctor.preflight import of_data
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.fold_scores import FoldScores, SeedScores
from trainwright.predictor.input_rows import is_pandas
from trainwright.run.audit_data import look_at_data, record_found
from trainwright.run.folder.model_files import fit_beside, score_beside, write_baselines
from trainwright.run.judging.evaluation_file import read_judged, write_judged
from trainwright.run.judging.judge import HeldOut, judge_scored
from trainwright.run.judging.write_predictions import write_predictions
from trainwright.run.opening.open_folder import FinishedRun, StartedRun, describe_rows, open_run
from trainwright.run.prepare.prepare_run import Ready, need_test_rows
from trainwright.run.prepared_data import PreparedData, labelled_rows
from trainwright.run.run_context import Result
from trainwright.run.screen import LoggedScreen, Screen, StageTimes, StreamScreen, doubt_warnings

Predict = Callable[[pl.DataFrame], Any]
_SUM_TOLERANCE = 1e-3
_OWN = "the model is the caller's own: the run holds its test predictions and no copy of it"


def judge_model(predict: Predict, data: PreparedData, runs: Path, name: str) -> Result:
    """Open the test rows, once, and judge a model by the contract, in a run folder of its own.

    Raises:
        Mistake: `predict` returns no scores, or the name is taken. NotAvailable: the data is no
            table, or the contract asks for folds or several seeds, whose models only `fit` makes.
            StorageFailed: the disk.
    """
    ready, stages = data.ready, StageTimes()
    _check_judgeable(ready)
    need_test_rows(ready)
    request = replace(data.request, runs=runs, name=name)
    prepared = ready.prepared
    with stages("predict"):
        rows = labelled_rows(ready, prepared.test).features
        scores = read_scores(predict(rows), prepared.target, len(rows))
    screen = LoggedScreen(StreamScreen(sys.stderr))
    with open_run(request, ready, screen) as started:
        if isinstance(started, FinishedRun):
            return read_judged(started.folder)
        result = _judge(ready, scores, started, stages, screen)
        started.finish(result.verdict.status, "judged")
    return result


def _check_judgeable(ready: Ready) -> None:
    contract, problems = ready.plan.contract, []
    if not contract.data.reads_frames:
        problems.append(Problem("only tables can be judged with a model of one's own", "data.kind"))
    if fold_count(contract.data) or contract.training.seeds > 1:
        problems.append(
            Problem(
                "folds and several seeds need one model each",
                path="data.split",
                fix="split into one training and one test part, or let `fit` make the models",
            )
        )
    if contract.purpose != "unstated":
        problems.append(
            Problem(
                "a purpose asks for what the run of a trained model holds",
                path="purpose",
                found=f"{contract.purpose}, and a model of the caller's own",
                fix="remove purpose, or let `fit` make the model",
            )
        )
    if problems:
        raise NotAvailable(problems)


def _judge(
    ready: Ready, scores: Floats, started: StartedRun, stages: StageTimes, screen: Screen
) -> Result:
    contract, prepared = ready.plan.contract, ready.prepared
    with stages("look"):
        found = look_at_data(ready)
    findings = of_data(prepared, found.faults, found.audited, ready.plan.contract.metric.name)
    record_found(found, findings, started, screen)
    describe_rows(started.folder, ready)
    write_json(started.folder.own_target, prepared.target.to_json())
    with stages("baselines"):
        baselines = fit_beside(prepared, contract.data)
        write_baselines(baselines, started.folder)
        scored = Scored(
            part=prepared.test,
            target=prepared.target,
            scores=scores,
            baselines=score_beside(baselines, prepared, contract.data),
            shares=baselines.shares,
            notes=(_OWN, *doubt_warnings(ready.raw.facts), *baselines.warnings),
        )
    evaluation, verdict = judge_scored(ready, scored, HeldOut(()), found.audited, stages)
    result = Result(started.folder, evaluation, verdict, dict(stages.seconds), started.sinks)
    write_predictions(scored, started.folder, contract.data)
    write_judged(result, prepared.target, FoldScores((), {}), SeedScores())
    return result


def read_scores(given: object, target: Target, rows: int) -> Floats:
    """Output of a model as float64: probabilities [N, C], values [N, 1] or quantiles [N, K].

    Raises:
        Mistake: wrong shape, non-finite numbers, or invalid probabilities.
    """
    try:
        scores = np.asarray(_in_order(given, target), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise _wrong_scores(f"{type(given).__name__}: {error}"[:160], target, rows) from error
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if target.quantiles:
        if scores.shape != (rows, len(target.quantiles)) or not np.isfinite(scores).all():
            raise _wrong_scores(_shown(scores), target, rows)
        return target.arrange(scores)
    if not target.classes:
        if scores.shape != (rows,) or not np.isfinite(scores).all():
            raise _wrong_scores(_shown(scores), target, rows)
        return scores[:, None]
    if scores.shape != (rows, len(target.classes)) or not np.isfinite(scores).all():
        raise _wrong_scores(_shown(scores), target, rows)
    sums = scores.sum(axis=1)
    if rows and (scores.min() < 0 or np.abs(sums - 1).max() > _SUM_TOLERANCE):
        found = f"numbers from {scores.min():.4g} to {scores.max():.4g}, rows that sum to up to "
        raise _wrong_scores(f"{found}{sums.max():.4g}", target, rows)
    return scores


def _in_order(given: Any, target: Target) -> object:
    """Columns named by classes, in the order of the classes."""
    if not target.classes or isinstance(given, np.ndarray | list | tuple):
        return given
    if isinstance(given, Mapping):
        columns = dict(given.items())
    elif isinstance(given, pl.DataFrame):
        columns = {name: given[name].to_numpy() for name in given.columns}
    elif is_pandas(given):
        columns = {name: given[name].to_numpy() for name in given}
    else:
        return given
    columns = {_as_class(str(name), target): values for name, values in columns.items()}
    if missing := [name for name in target.classes if name not in columns]:
        raise ValueError(f"columns {', '.join(columns)}, and none for {', '.join(missing)}")
    return np.stack([np.asarray(columns[name]) for name in target.classes], axis=1)


def _as_class(name: str, target: Target) -> str:
    """The class that a column is called after; Python writes booleans with a capital letter."""
    lower = name.lower()
    is_boolean = lower in ("false", "true") and name not in target.classes
    return lower if is_boolean else name


def _shown(scores: Floats) -> str:
    strange = int((~np.isfinite(scores)).sum())
    return f"{list(scores.shape)}" + (f" with {strange:,} that are not finite" if strange else "")


def _wrong_scores(found: str, target: Target, rows: int) -> Mistake:
    expected = f"values [{rows}]"
    if target.quantiles:
        expected = f"quantiles [{rows}, {len(target.quantiles)}], as metric.quantiles says"
    if target.classes:
        names = ", ".join(target.classes[:5])
        expected = f"probabilities [{rows}, {len(target.classes)}] of {names}"
    return Mistake(
        Problem(
            "the predictions cannot be judged",
            path="predict",
            found=found,
            expected=expected,
            fix="give model.predict_proba(rows) for classes, model.predict(rows) for numbers",
        )
    )
