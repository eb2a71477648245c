"""The ladder of a selection: every candidate with its score, in order.

It holds interval, times and size of each, and which is kept; in `ladder.json` of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self, final

from trainwright.contract.sections.metric import Metric
from trainwright.core.files import Json, damage_in, read_json, write_json
from trainwright.core.formatting import show_number, show_seconds
from trainwright.evaluation.candidates.compare_candidates import ComparedScore
from trainwright.predictor.ensemble_scorer import SecondLevel
from trainwright.tracking.run_folder import RunFolder

_FORMAT = 1

ENSEMBLE, STACK = "ensemble", "stack"
"""Names of the weighted mean and of the second level."""


@final
@dataclass(frozen=True, slots=True)
class Rung:
    """A candidate that is trained, or why it is not (`skipped`). `cut` says what the time has left
    of it.

    `seconds` are those of its trainings, `latency_ms` the given percentile of the time of a
    prediction of one row, `batch_ms` the time of one of `batch_rows` rows, `megabytes` the size of
    its bundles. `model` are the settings of its section, `version` what they were trained on.
    """

    name: str
    version: str
    model: Mapping[str, Json]
    skipped: str = ""
    cut: str = ""
    seconds: float = 0.0
    latency_ms: float = 0.0
    batch_ms: float = 0.0
    batch_rows: int = 0
    megabytes: float = 0.0
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """The fields by name."""
        return {"format": _FORMAT, **asdict(self), "notes": list(self.notes)}

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Inverse of `to_json`."""
        content = {key: value for key, value in json.items() if key != "format"}
        return cls(**{**content, "notes": tuple(content["notes"])})


def read_rung(folder: Path, version: str) -> list[Rung]:
    """The finished rung of a candidate's folder; none if it is not finished, or of another
    version."""
    path = folder / "candidate.json"
    if not path.is_file():
        return []
    with damage_in(path):
        rung = Rung.from_json(read_json(path))
    return [rung] if rung.version == version else []


def write_rung(folder: Path, rung: Rung) -> None:
    """Write a finished rung.

    Raises:
        StorageFailed: the disk.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "candidate.json", rung.to_json())


@final
@dataclass(frozen=True, slots=True)
class EnsembleFacts:
    """Weights by candidate; what they score on the rows that they were selected on, which is too
    good, and on rows that they were not. `gain` is the cross-fitted score minus that of the best
    single candidate, with its paired interval. `levels` is the second level, of a stack alone."""

    name: str
    weights: Mapping[str, float]
    value_on_selected: float
    compared: ComparedScore
    levels: Sequence[SecondLevel] = ()

    def to_json(self) -> Json:
        """Plain JSON."""
        return {
            "name": self.name,
            "second_level": [level.to_json() for level in self.levels],
            "weights": dict(self.weights),
            "value_on_selected": self.value_on_selected,
            "score": self.compared.score.to_json(),
            "gain": self.compared.gain.to_json(),
        }


@final
@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs from the simplest on. `compared` holds the scores of those that are trained; `limits`
    says which of them are over a limit of the contract; `rows` is the number of rows that they are
    compared on, `folds` the models of each, 0 without folds."""

    metric: Metric
    rungs: Sequence[Rung]
    compared: Mapping[str, ComparedScore]
    limits: Mapping[str, str]
    rows: int
    folds: int
    percentile: float
    chosen: str
    reason: str
    ensembles: Sequence[EnsembleFacts] = field(default=())

    def to_json(self) -> Json:
        """Plain JSON; a rung that is not trained has no score."""
        rungs: list[Json] = []
        for rung in self.rungs:
            one = rung.to_json()
            if (found := self.compared.get(rung.name)) is not None:
                one |= {"score": found.score.to_json(), "gain": found.gain.to_json()}
            rungs.append({**one, "over_limit": self.limits.get(rung.name, "")})
        return {
            "format": _FORMAT,
            "metric": self.metric.name,
            "confidence": self.metric.confidence,
            "rows": self.rows,
            "folds": self.folds,
            "percentile": self.percentile,
            "rungs": rungs,
            "ensemble": [one.to_json() for one in self.ensembles],
            "chosen": self.chosen,
            "reason": self.reason,
        }

    def write(self, folder: RunFolder) -> None:
        """Write `ladder.json`.

        Raises:
            StorageFailed: the disk.
        """
        write_json(folder.ladder, self.to_json())

    def lines(self) -> list[str]:
        """A line for each rung."""
        width = max(len(rung.name) for rung in self.rungs)
        return [f"{rung.name:<{width}}  {self._said(rung)}" for rung in self.rungs]

    def _said(self, rung: Rung) -> str:
        if rung.skipped:
            return f"not trained: {rung.skipped}"
        found, times = self.compared[rung.name], describe_times(rung)
        gain = f"{show_gain(found.gain.value)} to the best"
        if found.gain.given:
            gain += f" ({show_gain(found.gain.low)} to {show_gain(found.gain.high)})"
        parts = [f"{self.metric.name} {show_number(found.score.value)}", gain, times]
        if rung.cut:
            parts.append(f"cut by the time: {rung.cut}")
        if over := self.limits.get(rung.name, ""):
            parts.append(over)
        return " · ".join(parts)


def describe_times(rung: Rung) -> str:
    """Times and size of a trained candidate."""
    return (
        f"{show_seconds(rung.seconds)} · {rung.latency_ms:.3g} ms a row · {rung.megabytes:.3g} MB"
    )


def show_gain(value: float) -> str:
    """A difference with its sign."""
    return f"{'+' if value > 0 else ''}{show_number(value)}"
