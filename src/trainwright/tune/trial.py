"""One trial in a process of its own: it maps the prepared rows, fits the contract with its values,
and leaves its score, or the reason why it has none, next to its run."""

from __future__ import annotations

import io
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self, final

import numpy as np

from trainwright.contract.reading.read_contract import ContractText
from trainwright.contract.sections.run_settings import Tune
from trainwright.core.errors import Interrupted, Mistake, Problem, RunLocked, TrainwrightError
from trainwright.core.files import read_json, write_json
from trainwright.core.process import code_allowed
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.predictor.latency import measure_megabytes
from trainwright.run.fit_contract import ContractFit, fit_contract
from trainwright.run.mapped_rows import open_rows
from trainwright.run.prepared_data import PreparedData
from trainwright.run.request import Request
from trainwright.run.screen import Screen, StreamScreen
from trainwright.tune.pruning import PruneRule
from trainwright.tune.scored_rows import TrialRows
from trainwright.tune.space import Params, overrides_of

ASKED, OUTCOME, SCORES = ".asked.json", ".json", ".npy"
"""What a trial is to fit; what came of it, written last; its predictions of the rows by which
trials are compared."""


@final
@dataclass(frozen=True, slots=True)
class TrialFiles:
    """A trial in the folder of all trials: its run is the folder of its name, and its files stand
    next to that."""

    trials: Path
    number: int

    @property
    def name(self) -> str:
        """Name of its run."""
        return f"{self.number:04d}"

    def path(self, suffix: str) -> Path:
        """One of its files."""
        return self.trials / f"{self.name}{suffix}"

    def outcome(self) -> Outcome | None:
        """What came of it; None if it has not ended."""
        if not self.path(OUTCOME).is_file():
            return None
        content = read_json(self.path(OUTCOME))
        steps = {int(step): float(value) for step, value in content.pop("steps").items()}
        return Outcome(**content, steps=steps)

    def end(self, outcome: Outcome) -> None:
        """Write what came of it."""
        write_json(self.path(OUTCOME), asdict(outcome))


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a trial, `complete`, `pruned` or `failed`: the contract's metric on the compared
    rows, its values by step where they were pruned by, the size of its model in 10^6 bytes, its
    seconds and price; without a value, the reason."""

    state: str
    value: float | None
    reason: str
    steps: Mapping[int, float] = field(default_factory=dict)
    megabytes: float = 0.0
    seconds: float = 0.0
    price: float = 0.0


@final
@dataclass(frozen=True, slots=True)
class TrialRequest:
    """What a trial fits: the text of the contract and where its paths start, the overrides that all
    trials share, its own values by path, the folder of the prepared rows, the section of the search
    and the validations of the trials before."""

    contract: str
    folder: str
    shared: Sequence[str]
    params: Params
    rows: str
    section: Tune
    before: Sequence[Mapping[str, Any]]
    allow_code: bool

    @classmethod
    def read(cls, files: TrialFiles) -> Self:
        """That of a trial."""
        content = read_json(files.path(ASKED))
        section = Tune.model_validate_json(json.dumps(content.pop("section")))
        return cls(**content, section=section)

    def write(self, files: TrialFiles) -> None:
        """Write that of a trial."""
        write_json(
            files.path(ASKED), {**asdict(self), "section": self.section.model_dump(mode="json")}
        )


def run_trial(trials: str, number: int) -> None:
    """Fit a trial that was asked for, and write what came of it. A signal ends the process with the
    trial unfinished; it goes on when the study does."""
    files = TrialFiles(Path(trials), number)
    request = TrialRequest.read(files)
    with code_allowed(request.allow_code):
        try:
            # What it says is in the log of its run.
            outcome = _fit(request, files, StreamScreen(io.StringIO()))
        except (Interrupted, RunLocked) as error:
            sys.exit(error.exit_code)
        except (TrainwrightError, MemoryError) as error:
            reason = error.problems[0].message if isinstance(error, Mistake) else str(error)
            outcome = Outcome("failed", None, reason or type(error).__name__)
    files.end(outcome)


def _fit(asked: TrialRequest, files: TrialFiles, screen: StreamScreen) -> Outcome:
    """Train with each seed and fold; a training that was begun goes on."""
    text = ContractText(asked.contract, Path(asked.folder))
    data = open_rows(Request(text, asked.shared), Path(asked.rows))
    overrides = overrides_of(asked.params)
    request = Request(text, (*asked.shared, *overrides), files.trials, resume=True)
    rows = TrialRows.of(data, asked.section)
    data = prepare_as_asked(data, request, overrides, screen)
    contract = data.ready.plan.contract
    fits, values, scores = list[ContractFit](), list[float](), list[Floats]()
    rule = PruneRule(asked.section.stop, asked.before, contract.metric.name)
    for seed in range(asked.section.seeds):
        seeded = replace(request, added=rule.additions()) if not fits else request
        if seed:
            seeded = replace(seeded, overrides=(*seeded.overrides, f"seed={contract.seed + seed}"))
        parts = list[Answers]()
        for name, inner in rows.trainings(data):
            name = f"{files.name}{name}" + (f"-seed-{seed}" if seed else "")
            fits.append(fit_contract(inner, replace(seeded, name=name), screen))
            parts.append(fits[-1].answers)
        scores.append(np.concatenate([part.scores for part in parts]))
        # One training decides by its own threshold, if it has one.
        answers = parts[0] if len(parts) == 1 else rows.answers(scores[-1])
        values.append(measure(contract.metric.name, answers, contract.metric))
        if rule.stopped:
            break
    # Of the first seed, whose model is the one that is kept.
    np.save(files.path(SCORES), scores[0])
    with tempfile.TemporaryDirectory() as folder:
        fits[0].models.fitted.predictor.scorer.write(Path(folder))
        megabytes = measure_megabytes(Path(folder))
    value = float(np.mean(values))
    if not math.isfinite(value):
        return Outcome("failed", None, f"{contract.metric.name} is not a finite number")
    return Outcome(
        "pruned" if rule.stopped else "complete",
        value,
        rule.stopped or fits[0].models.fitted.reason,
        rule.values,
        megabytes,
        sum(fit.seconds for fit in fits),
        sum(fit.price for fit in fits),
    )


def prepare_as_asked(
    data: PreparedData, request: Request, overrides: Sequence[str], screen: Screen
) -> PreparedData:
    """The rows as the overrides of a trial prepare them: the shared ones, or, where they change the
    columns or the kind of the model, the same prepared again.

    Raises:
        Mistake: in the contract, or its validation rows are not the shared ones.
    """
    if not any(one.startswith(("data.", "model.kind=")) for one in overrides):
        return data
    fresh = PreparedData.of(request, screen)
    shared = data.ready.prepared.validation.rows
    if not np.array_equal(fresh.ready.prepared.validation.rows, shared):
        problem = Problem("its validation rows are not those of the other trials", path="tune.over")
        raise Mistake(problem)
    return fresh
