"""Winners on their test rows: a study, the contract as written, and two rivals with its budget."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

import numpy as np
import polars as pl

import trainwright as tw
from automl import call_peer, peer_scores
from real import FOLDER
from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.core.formatting import show_number
from trainwright.evaluation.candidates.compare_candidates import ComparedRows, compare_candidates
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder
from tunes.kept import Kept

Piece = Mapping[str, Any]
Space = Mapping[str, Any]
MOST_TRIALS = 2000
STUDY, WRITTEN, OPTUNA, AUTOGLUON = "a search", "as written", "Optuna by hand", "AutoGluon"
_ONE_TRAINING = ("tune=off", "budget.hours=unlimited")
TREES: Space = {
    "model.learning_rate": {"low": 0.01, "high": 0.3, "scale": "log"},
    "model.num_leaves": {"low": 4, "high": 64, "scale": "log"},
    "model.feature_fraction": {"low": 0.4, "high": 1.0},
    "model.lambda_l2": [0.0, 1.0, 10.0],
}
LINEAR: Space = {
    "model.penalty": {"low": 1e-2, "high": 10.0, "scale": "log"},
    "model.class_weights": ["none", "balanced"],
}


@final
@dataclass(frozen=True)
class RealSet:
    """A real set: seconds of each search, its contract's `data`, kind of model, metric and space,
    and what AutoGluon calls the model and searches of it."""

    name: str
    seconds: float
    data: Mapping[str, Any]
    metric: str
    kind: str
    space: Space
    peer: str
    peer_space: Space

    def contract(self, folder: Path) -> Path:
        """Its contract, with a search of the budget."""
        document = {
            "name": self.name,
            "task": "regression" if self.metric == "rmse" else "classification",
            "data": self.data,
            "model": {"kind": self.kind},
            "metric": {"name": self.metric},
            "budget": {"hours": self.seconds / 3600},
            "tune": {"over": self.space, "trials": MOST_TRIALS, "choice": "best"},
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "contract.yaml"
        path.write_text(json.dumps(document))
        return path

    @property
    def direction(self) -> str:
        """Of its metric."""
        return METRICS[self.metric].direction

    def frames(self, run: RunFolder) -> tuple[pl.DataFrame, pl.DataFrame]:
        """All rows but the test rows of a run, and these in its order."""
        if "test_path" in self.data:
            train, test = (
                pl.read_csv(self.data[name], infer_schema=False)
                for name in ("train_path", "test_path")
            )
            return train, test[read_predictions(run).rows]
        frame = pl.read_csv(self.data["path"], infer_schema=False)
        rows = read_predictions(run).rows
        frame = frame.drop(self.data.get("exclude", []))
        return frame.filter(~pl.Series(np.isin(np.arange(frame.height), rows))), frame[rows]


_TREES_OF_PEER = {path.removeprefix("model."): values for path, values in TREES.items()}
_BANKING = {f"{part}_path": str(FOLDER / "banking77" / f"{part}.csv") for part in ("train", "test")}
SETS = (
    RealSet(
        "telco",
        90.0,
        {
            "path": str(FOLDER / "telco-churn" / "Telco-Customer-Churn.csv"),
            "target": "Churn",
            "exclude": ["customerID"],
        },
        *("roc_auc", "boosting", TREES, "GBM", _TREES_OF_PEER),
    ),
    RealSet(
        "california",
        90.0,
        {
            "path": str(FOLDER / "california-housing" / "housing.csv"),
            "target": "median_house_value",
        },
        *("rmse", "boosting", TREES, "GBM", _TREES_OF_PEER),
    ),
    RealSet(
        "banking77",
        90.0,
        {**_BANKING, "target": "category", "columns": {"text": {"kind": "text"}}},
        *("accuracy", "linear", LINEAR, "LR", {"C": {"low": 0.1, "high": 100.0, "scale": "log"}}),
    ),
)


def run_search(real: RealSet, folder: Path, search: Callable[..., Any]) -> Piece:
    """Our search, and its judged winner."""
    started = time.perf_counter()
    result = search(real.contract(folder), folder / "runs")
    took = time.perf_counter() - started
    winner = result.winner
    return {
        "trials": len(result.trials),
        "seconds": took,
        "validation": winner.trial.outcome.value,
        "worth": winner.of_many.worth,
        "p": winner.of_many.p,
        "claimed": winner.is_claimed,
        "as_written": result.trials[0].outcome.value,
        "run": str(result.result.folder.path),
    }


def run_as_written(real: RealSet, folder: Path) -> Piece:
    """One training of the contract as written."""
    started = time.perf_counter()
    run = tw.train(real.contract(folder), overrides=_ONE_TRAINING, runs=folder)
    return {"seconds": time.perf_counter() - started, "run": str(run.folder)}


def run_optuna(real: RealSet, folder: Path) -> Piece:
    """The best of a loop of Optuna around `tw.fit`, in one process, as long as a search."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    started = time.perf_counter()
    data = tw.prepare(real.contract(folder), overrides=_ONE_TRAINING)
    direction = "maximize" if real.direction == "max" else "minimize"
    study = optuna.create_study(direction=direction, sampler=optuna.samplers.TPESampler(seed=0))
    fits = {}

    def suggest(trial: optuna.Trial, path: str, values: Any) -> object:
        if isinstance(values, list):
            return trial.suggest_categorical(path, values)
        low, high, is_log = values["low"], values["high"], values.get("scale") == "log"
        draw = trial.suggest_int if isinstance(low, int) else trial.suggest_float
        return draw(path, low, high, log=is_log)

    def objective(trial: optuna.Trial) -> float:
        overrides = [
            f"{path}={json.dumps(suggest(trial, path, values))}"
            for path, values in real.space.items()
        ]
        fit = tw.fit(data, overrides=overrides, runs=folder / "runs", progress=False)
        fits[trial.number] = fit
        return fit.score

    study.optimize(objective, timeout=real.seconds - (time.perf_counter() - started))
    judged = tw.judge(fits[study.best_trial.number], progress=False)
    return {
        "trials": len(study.trials),
        "seconds": time.perf_counter() - started,
        "validation": study.best_value,
        "run": str(judged.folder),
    }


def run_autogluon(real: RealSet, folder: Path, run: RunFolder) -> Piece:
    """AutoGluon's search over the same model on all rows but the test rows of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    judged = read_predictions(run)
    target = real.data["target"]
    for name, frame in zip(("train", "test"), real.frames(run), strict=True):
        frame.write_csv(folder / f"{name}.csv")
    truths = frame[target].to_numpy()
    if real.metric != "rmse":
        assert (np.asarray(judged.target.classes)[judged.answers.truth] == truths).all()
    asked = {
        "target": target,
        "metric": real.metric,
        "seconds": real.seconds,
        "groups": "",
        "categorical": [],
        "cores": len(os.sched_getaffinity(0)),
        "calls": 0,
        "search": {"model": real.peer, "space": real.peer_space, "trials": MOST_TRIALS},
    }
    found = json.loads(call_peer(asked, folder))
    np.save(folder / "scores.npy", peer_scores(judged, folder))
    return {**found, "scores": str(folder / "scores.npy")}


def measure_winners(
    real: RealSet, kept: Kept, search: Callable[..., Any]
) -> Iterator[Sequence[Any]]:
    """The lines of a set: each tool, beside the search."""
    folder = kept.folder / f"real-{real.name}"
    pieces: dict[str, Piece] = {}
    runs: Mapping[str, Callable[[Path], Piece]] = {
        STUDY: partial(run_search, real, search=search),
        WRITTEN: partial(run_as_written, real),
        OPTUNA: partial(run_optuna, real),
        AUTOGLUON: lambda place: run_autogluon(real, place, run_of(pieces[STUDY])),
    }
    for tool, run in runs.items():
        name = tool.replace(" ", "-")
        pieces[tool] = kept.read_or(f"real-{real.name}-{name}", partial(run, folder / name))
    judged = read_predictions(run_of(pieces[STUDY]))
    scores = {
        tool: np.load(piece["scores"])
        if "scores" in piece
        else read_predictions(run_of(piece)).answers.scores
        for tool, piece in pieces.items()
    }
    answers = judged.answers
    rows = ComparedRows(answers.truth, judged.units, answers.positive)
    study = pieces[STUDY]
    values = {WRITTEN: study["as_written"]}
    for tool, piece in pieces.items():
        compared = compare_candidates(scores, rows, Metric(name=real.metric), 0, against=tool)
        score, gain = compared[tool].score, compared[STUDY].gain
        validation = show_number(values.get(tool, piece.get("validation")))
        if tool == STUDY:
            validation += f", other rows let expect {show_number(study['worth'])}"
        yield (
            f"{real.name}, {real.metric}",
            tool,
            piece.get("trials", 1),
            f"{piece['seconds']:.0f}",
            validation,
            f"{show_number(score.value)} ({score.bounds})",
            "" if tool == STUDY else f"{show_number(gain.value)} ({gain.bounds})",
        )


def describe_claim(study: Piece, name: str) -> str:
    """Whether a search claims a gain."""
    word = "claims" if study["claimed"] else "does not claim"
    return f"{name}: the search {word} a gain over the contract as written (p {study['p']:.3f})"


def run_of(piece: Piece) -> RunFolder:
    """The judged run of a piece."""
    return RunFolder(Path(piece["run"]))
