"""One trial in a process of its own: it maps the prepared rows, fits the contract with its values,
and leaves its score, or the reason why it has none, beside its run."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import Interrupted, Mistake, TrainwrightError
from trainwright.core.files import Json, read_json, write_json
from trainwright.core.process import code_allowed
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.predictor.latency import measure_megabytes
from trainwright.run.fit_contract import ContractFit, answers_on_validation, fit_contract
from trainwright.run.mapped_rows import open_rows
from trainwright.run.request import Request
from trainwright.run.screen import StreamScreen
from trainwright.tune.pruning import PruneRule
from trainwright.tune.space import Params


@final
@dataclass(frozen=True, slots=True)
class TrialFiles:
    """The files of a trial in the folder of all trials: its run is the folder of its name."""

    trials: Path
    number: int

    @property
    def name(self) -> str:
        """Name of its run."""
        return f"{self.number:04d}"

    @property
    def asked(self) -> Path:
        """What the trial is to fit."""
        return self.trials / f"{self.name}.asked.json"

    @property
    def outcome(self) -> Path:
        """What came of it; written last."""
        return self.trials / f"{self.name}.json"

    @property
    def scores(self) -> Path:
        """Its predictions of the rows by which trials are compared."""
        return self.trials / f"{self.name}.npy"

    @property
    def log(self) -> Path:
        """What its training said."""
        return self.trials / f"{self.name}.log"

    def run_name(self, seed: int) -> str:
        """Name of its run with the seed of that number."""
        return f"{self.name}-seed-{seed}" if seed else self.name


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial: the contract's metric on the compared rows, its values by step, the
    size of its model in 10^6 bytes, its seconds and price; without a value, why there is none."""

    state: str
    value: float | None
    reason: str
    steps: Mapping[int, float]
    megabytes: float
    seconds: float
    price: float

    @classmethod
    def read(cls, files: TrialFiles) -> Outcome | None:
        """That of a trial; None if it has not ended."""
        if not files.outcome.is_file():
            return None
        content = read_json(files.outcome)
        steps = {int(step): float(value) for step, value in content.pop("steps").items()}
        return cls(**content, steps=steps)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "state": self.state,
            "value": self.value,
            "reason": self.reason,
            "steps": {str(step): value for step, value in self.steps.items()},
            "megabytes": self.megabytes,
            "seconds": self.seconds,
            "price": self.price,
        }


@final
@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What a trial fits: the contract and its overrides as a request has them, the folder of the
    prepared rows, the numbers of its seeds, its rule of pruning and the validations of the trials
    that it is compared with."""

    contract: str
    folder: str
    overrides: Sequence[str]
    params: Params
    rows: str
    seeds: int
    stop: str
    before: Sequence[Mapping[str, Any]]
    allow_code: bool

    def request(self, files: TrialFiles, seed: int) -> Request:
        """The request of one training; it goes on where it was begun."""
        name = files.run_name(seed)
        text = ContractText(self.contract, Path(self.folder))
        return Request(text, self.overrides, files.trials, name, resume=True)


def run_trial(trials: str, number: int) -> None:
    """Fit a trial that was asked for, and write what came of it. A signal ends the process with the
    trial unfinished; it goes on when the study does."""
    files = TrialFiles(Path(trials), number)
    asked = TrialRequest(**read_json(files.asked))
    with files.log.open("a", encoding="utf-8") as log, code_allowed(asked.allow_code):
        screen = StreamScreen(log)
        try:
            outcome = _fit(asked, files, screen)
        except Interrupted as error:
            sys.exit(error.exit_code)
        except (TrainwrightError, MemoryError) as error:
            reason = error.problems[0].message if isinstance(error, Mistake) else str(error)
            outcome = Outcome("failed", None, reason or type(error).__name__, {}, 0.0, 0.0, 0.0)
    write_json(files.outcome, outcome.to_json())


def _fit(asked: TrialRequest, files: TrialFiles, screen: StreamScreen) -> Outcome:
    data = open_rows(replace(asked.request(files, 0), overrides=()), Path(asked.rows))
    scores, values, seconds, price = list[Floats](), list[float](), 0.0, 0.0
    for seed in range(asked.seeds):
        request = asked.request(files, seed)
        if seed:
            first = data.ready.plan.contract.seed
            request = replace(request, overrides=(*request.overrides, f"seed={first + seed}"))
        rule = PruneRule(asked.stop, asked.before, data.ready.plan.contract.metric.name)
        request = replace(request, added=rule.additions())
        fitted = fit_contract(data, request, screen)
        answers = answers_on_validation(fitted)
        metric = fitted.ready.plan.contract.metric
        values.append(measure(metric.name, answers, metric))
        scores.append(answers.scores)
        seconds, price = seconds + fitted.seconds, price + fitted.price
        if rule.stopped:
            state, reason = "pruned", rule.stopped
            break
    else:
        state, reason = "complete", fitted.models.fitted.reason
    np.save(files.scores, np.mean(scores, axis=0))
    value = float(np.mean(values))
    size = _size_of(fitted)
    return Outcome(state, value, reason, rule.values, size, seconds, price)


def _size_of(fitted: ContractFit) -> float:
    """Size of the model in 10^6 bytes: what decides between trials that score alike."""
    with tempfile.TemporaryDirectory() as folder:
        fitted.models.fitted.predictor.scorer.write(Path(folder))
        return measure_megabytes(Path(folder))
