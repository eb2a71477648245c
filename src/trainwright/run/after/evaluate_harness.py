"""Tasks of the lm-evaluation-harness for the model of a finished run. Needs torch and the extra
harness."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import NormalDist
from typing import Any, final

from trainwright.core.code_permission import is_code_allowed
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.optional_dependencies import need_package
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.run.after.harness_model import harness_model
from trainwright.run.folder.planned_contract import read_planned
from trainwright.tracking.run_folder import RunFolder

_KEY = "task: "


@final
@dataclass(frozen=True, slots=True)
class HarnessScores:
    """What the harness measured: of each task its rows, and of each metric the value with the
    interval that its standard error gives at a confidence."""

    run: str
    rows: Mapping[str, int]
    metrics: Mapping[str, Mapping[str, Interval]]
    confidence: float

    def to_json(self) -> Json:
        """`run`, `confidence`, and `tasks` with `rows` and `metrics`; bounds that are not given
        are null."""
        return {
            "run": self.run,
            "confidence": self.confidence,
            "tasks": {
                task: {
                    "rows": self.rows[task],
                    "metrics": {name: one.to_json() for name, one in each.items()},
                }
                for task, each in self.metrics.items()
            },
        }


def evaluate_harness(folder: RunFolder, file: Path) -> HarnessScores:
    """The task of a YAML file of the harness, whose data lies in local files.

    Raises:
        Mistake: code is not allowed, the file is no task, or the run has no model that writes
            texts. MissingExtra: lm_eval is not installed.
    """
    need_package("lm_eval", "harness", "--harness", "a task of the lm-evaluation-harness")
    if not is_code_allowed():
        raise Mistake(
            Problem(
                "a task of the harness is a program: its templates and functions are run",
                path="--harness",
                found=str(file),
                expected="the permission to run it",
                fix="look at the file, then add --allow-code",
            )
        )
    task = _task_in(file)
    evaluator: Any = import_module("lm_eval.evaluator")
    tasks: Any = import_module("lm_eval.tasks")
    contract = read_planned(folder)
    manager = tasks.TaskManager(include_path=str(file.parent.resolve()), include_defaults=False)
    found: Any = evaluator.simple_evaluate(
        model=harness_model(folder.path),
        tasks=[task],
        task_manager=manager,
        log_samples=False,
        bootstrap_iters=contract.metric.resamples,
    )
    confidence = contract.metric.confidence
    counts = {name: int(one["effective"]) for name, one in found["n-samples"].items()}
    scores = {name: _intervals(found["results"][name], confidence) for name in counts}
    return HarnessScores(folder.name, counts, scores, confidence)


def _task_in(file: Path) -> str:
    """The name that the file gives its task, without reading the rest of it."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise _no_task(file, str(error)) from error
    names = [line.removeprefix(_KEY).strip(" \"'") for line in lines if line.startswith(_KEY)]
    if len(names) != 1:
        raise _no_task(file, f"{len(names)} lines that begin with {_KEY.strip()!r}")
    return names[0]


def _no_task(file: Path, found: str) -> Mistake:
    return Mistake(
        Problem(
            "the file is no task of the harness",
            path="--harness",
            found=f"{file}: {found}",
            expected="YAML with a line such as `task: my_questions`",
            fix="name such a file",
        )
    )


def _intervals(results: Mapping[str, Any], confidence: float) -> dict[str, Interval]:
    """Of each metric the value with its interval by the normal distribution; without a standard
    error none is given."""
    wide = NormalDist().inv_cdf(0.5 + confidence / 2)
    found = {}
    for key, value in results.items():
        name, _, filtered = key.partition(",")
        if not isinstance(value, int | float) or name.endswith("_stderr") or name == "sample_len":
            continue
        error = results.get(f"{name}_stderr,{filtered}")
        half = wide * error if isinstance(error, int | float) else math.inf
        shown = name if filtered in ("", "none") else f"{name} ({filtered})"
        found[shown] = Interval(float(value), value - half, value + half)
    return found
