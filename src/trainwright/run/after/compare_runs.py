"""Comparison of judged runs: contracts, metrics with paired intervals, time and price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import names_of
from trainwright.contract.resumable_fields import differences
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, read_json
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.metric_values import metrics_of
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.folder.run_table import RunRow, read_run_row
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.judging.write_predictions import ScoredRows, read_predictions
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Several runs compared with the first of them.

    `settings` are the contract paths at which they differ, with the value of each run. `metrics` of
    each run are on its own test rows, as judged. `gains` are each later run's value minus the first
    one's on the same resamples of the same test rows; a run judged on other rows has none, and
    `unpaired` gives the reason.
    """

    runs: tuple[RunRow, ...]
    settings: Mapping[str, tuple[Json, ...]]
    metrics: Mapping[str, tuple[Interval, ...]]
    gains: Mapping[str, Mapping[str, Interval]]
    unpaired: Mapping[str, str]
    confidence: float

    def to_json(self) -> Json:
        """Strict JSON."""
        return {
            "runs": [run.to_json() for run in self.runs],
            "settings": {path: list(values) for path, values in self.settings.items()},
            "metrics": {
                name: [one.to_json() for one in each] for name, each in self.metrics.items()
            },
            "gains": {
                run: {name: one.to_json() for name, one in each.items()}
                for run, each in self.gains.items()
            },
            "unpaired": dict(self.unpaired),
            "confidence": self.confidence,
        }


def compare_runs(folders: Sequence[RunFolder]) -> Comparison:
    """Compare judged runs.

    Raises:
        Mistake: fewer than two runs, a run without a verdict, or a duplicate. StorageFailed: a file
            of a run has been modified.
    """
    names = [folder.name for folder in folders]
    if len(set(names)) < max(2, len(names)):
        raise Mistake(
            Problem(
                "a comparison needs two or more different runs",
                found=", ".join(names) or "none",
                fix="name them: trainwright runs compare A B",
            )
        )
    contracts = [read_planned(folder) for folder in folders]
    judged = [read_judged(folder).evaluation.metrics for folder in folders]
    shared = [name for name in judged[0] if all(name in one for one in judged)]
    section = contracts[0].metric
    measured: dict[str, dict[str, Interval]] = {}
    unpaired: dict[str, str] = {}
    first = read_predictions(folders[0])
    for folder in folders[1:]:
        other = read_predictions(folder)
        if why := _why_unpaired(folders[0], first, folder, other):
            unpaired[folder.name] = why
        else:
            measured[folder.name] = _gains(first, other, contracts[0])
    return Comparison(
        runs=tuple(map(read_run_row, folders)),
        settings=_settings(contracts, has_texts=any(map(_has_texts, folders))),
        metrics={name: tuple(one[name] for one in judged) for name in shared},
        gains=measured,
        unpaired=unpaired,
        confidence=section.confidence,
    )


def _settings(contracts: Sequence[Contract], *, has_texts: bool) -> dict[str, tuple[Json, ...]]:
    """Paths at which any contract differs from the first, with all values. The encoding of text
    columns is compared only if there are any."""
    dumps = [contract.model_dump(mode="json") for contract in contracts]
    paths = [path for other in dumps[1:] for path, _, _ in differences(dumps[0], other)]
    unused = () if has_texts else ("data.features.text.",)
    differing = (
        path for path in dict.fromkeys(paths) if path != "name" and not path.startswith(unused)
    )
    return {path: tuple(_at(dump, path) for dump in dumps) for path in differing}


def _has_texts(folder: RunFolder) -> bool:
    """Whether a column of its table is text."""
    return any(column["kind"] == "text" for column in _facts(folder).get("columns", []))


def _at(value: Json, path: str) -> Json:
    for key in names_of(path):
        value = value.get(key, "absent") if isinstance(value, dict) else "absent"
    return value


def _why_unpaired(first: RunFolder, one: ScoredRows, second: RunFolder, other: ScoredRows) -> str:
    """Why two runs cannot be compared row by row; empty if they can."""
    if not one.target.is_same(other.target):
        return "it predicts another target, or other classes"
    if _files(first) != _files(second):
        return "its data files differ"
    if len(one.rows) != len(other.rows) or not np.array_equal(
        np.sort(one.rows), np.sort(other.rows)
    ):
        return "its test rows differ"
    if (one.answers.folds is None) != (other.answers.folds is None):
        return "only one of the two has the fold of each row, within which roc_auc ranks"
    return ""


def _files(folder: RunFolder) -> list[str]:
    return [file["sha256"] for file in _facts(folder)["files"]]


def _facts(folder: RunFolder) -> Json:
    return read_json(folder.data / "manifest.json")["facts"]


def _gains(first: ScoredRows, other: ScoredRows, contract: Contract) -> dict[str, Interval]:
    """Each metric of the second minus that of the first, on the same resamples."""
    orders = [np.argsort(one.rows, kind="stable") for one in (first, other)]
    names = metrics_of(first.target)
    rows = np.arange(len(first.rows))
    lines = [
        MeasuredMetric(name, one.answers.take(order), rows)
        for one, order in zip((first, other), orders, strict=True)
        for name in names
    ]
    draws = Resampling(first.units[orders[0]], contract.metric.resamples, contract.seed)
    measured: list[ResampledMetric] = measure_lines(lines, contract.metric, draws)
    confidence = contract.metric.confidence
    pairs = zip(names, measured[: len(names)], measured[len(names) :], strict=True)
    return {name: gain_of(b, a, confidence) for name, a, b in pairs}
