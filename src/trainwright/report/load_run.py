"""Tolerant reading of a run folder for the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import DataMistake, Mistake, StorageFailed
from trainwright.core.files import Json, read_json
from trainwright.data.columns.class_target import PROBABILITY
from trainwright.data.statistics.profile import Distribution
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.verdict import Verdict
from trainwright.tracking.event_log import read_events
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.signals import read_signals
from trainwright.tracking.telemetry_file import WindowLine, read_windows

if TYPE_CHECKING:
    from trainwright.evaluation.explanations.explanation import Explanation

T = TypeVar("T")

_WRONG_SHAPE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


@final
@dataclass(frozen=True, slots=True)
class StoredEvaluation:
    """`evaluation.json`: metrics, verdict and durations, and the scores of folds and seeds if there
    are several; what a calibration changed; questions that a decoder answered, and texts that it
    wrote."""

    evaluation: Evaluation
    verdict: Verdict
    seconds: Mapping[str, float]
    opened: Sequence[tuple[str, str]]
    by_fold: Mapping[str, Json] = field(default_factory=dict)
    by_seed: Mapping[str, Json] = field(default_factory=dict)
    calibration: Mapping[str, Json] = field(default_factory=dict)
    questions: Sequence[Json] = ()
    samples: Sequence[Json] = ()

    @property
    def in_folds(self) -> bool:
        """Whether models of folds scored the rows."""
        return bool(self.by_fold.get("folds"))


@final
@dataclass(frozen=True, slots=True)
class Trees:
    """`bundle/boosting.json`: (trees, value on training rows, value on validation rows), and the
    trees kept of each model, one a quantile; empty if unknown."""

    metric: str
    curve: Sequence[tuple[float, float, float]]
    kept: tuple[int, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class Forecast:
    """Test rows of a numeric target in time order, [N] each: `time` is datetime64[us] or
    numbers."""

    time: npt.NDArray[Any]
    target: npt.NDArray[np.float64]
    prediction: npt.NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class FindingRow:
    """One finding of the preflight checks."""

    severity: str
    kind: str
    count: int
    message: str
    fix: str


@final
@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a run folder. Missing parts are empty; `damaged` lists unreadable files with the
    reason."""

    name: str
    judged: tuple[StoredEvaluation, ...] = ()
    plan: Mapping[str, Json] = field(default_factory=dict)
    record: Mapping[str, Json] = field(default_factory=dict)
    manifest: Mapping[str, Json] = field(default_factory=dict)
    split: Mapping[str, Json] = field(default_factory=dict)
    findings: tuple[FindingRow, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    signals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    windows: Sequence[WindowLine] = ()
    events: Sequence[Mapping[str, Json]] = ()
    trees: tuple[Trees, ...] = ()
    contract_text: str = ""
    damaged: Sequence[tuple[str, str]] = ()
    forecasts: tuple[Forecast, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    ladder: Mapping[str, Json] = field(default_factory=dict)


def read_contents(folder: RunFolder) -> Contents:
    """Read the folder. All files are optional, and damaged ones are skipped."""
    reading = _Reading()
    manifest = folder.data / "manifest.json"
    split = folder.data / "split.json"
    trees = folder.bundle / "boosting.json"
    return Contents(
        name=folder.name,
        judged=reading.take("evaluation.json", lambda: (_judged(read_json(folder.evaluation)),)),
        plan=reading.take_mapping("plan.json", lambda: read_json(folder.plan)),
        record=reading.take_mapping("record.json", lambda: read_json(folder.record)),
        manifest=reading.take_mapping("data/manifest.json", lambda: read_json(manifest)),
        split=reading.take_mapping("data/split.json", lambda: read_json(split)),
        findings=reading.take("preflight.json", lambda: _findings(read_json(folder.preflight))),
        distributions=reading.take(
            "data/distributions.json", lambda: _distributions(read_json(folder.distributions))
        ),
        signals=reading.take_mapping("signals.jsonl", lambda: read_signals(folder.signals)),
        windows=reading.take("windows.jsonl", lambda: tuple(read_windows(folder.windows))),
        events=reading.take("events.jsonl", lambda: tuple(read_events(folder.events))),
        trees=reading.take("bundle/boosting.json", lambda: (_trees(read_json(trees)),)),
        forecasts=reading.take("predictions.parquet", lambda: _forecasts(folder.predictions)),
        explanations=reading.take(
            folder.explanation.name, lambda: _explanations(folder.explanation)
        ),
        ladder=reading.take_mapping(folder.ladder.name, lambda: read_json(folder.ladder)),
        contract_text=reading.take_text("contract.yaml", lambda: folder.contract.read_bytes()),
        damaged=tuple(reading.damaged),
    )


@final
@dataclass(slots=True)
class _Reading:
    """Reads part by part and collects read errors."""

    damaged: list[tuple[str, str]] = field(default_factory=list)

    def take(self, name: str, read: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        try:
            return read()
        except FileNotFoundError:
            return ()
        except OSError as error:
            self.damaged.append((name, error.strerror or "it cannot be read"))
        except (StorageFailed, Mistake) as error:
            self.damaged.append((name, str(error)))
        except _WRONG_SHAPE as error:
            self.damaged.append((name, f"{type(error).__name__}: {error}"))
        return ()

    def take_mapping(self, name: str, read: Callable[[], Json]) -> Mapping[str, Json]:
        found = self.take(name, lambda: (_mapping(read()),))
        return found[0] if found else {}

    def take_text(self, name: str, read: Callable[[], bytes]) -> str:
        return "".join(self.take(name, lambda: (read().decode(errors="replace"),)))


def _explanations(path: Path) -> tuple[Explanation, ...]:
    stored = read_json(path)
    # Imported here: few runs have one.
    from trainwright.evaluation.explanations.explanation import Explanation

    return (Explanation.from_json(stored),)


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ValueError("it does not hold an object")  # noqa: TRY004  one error for one bad file
    return value


def _judged(value: Json) -> StoredEvaluation:
    return StoredEvaluation(
        Evaluation.from_json(value["evaluation"]),
        Verdict.from_json(value["verdict"]),
        {str(name): float(each) for name, each in value.get("seconds", {}).items()},
        [(str(one["time"]), str(one["why"])) for one in value.get("opened", [])],
        value.get("by_fold") or {},
        value.get("by_seed") or {},
        value.get("calibration") or {},
        value.get("questions") or (),
        value.get("samples") or (),
    )


def _distributions(value: Json) -> tuple[Distribution, ...]:
    return tuple(Distribution.from_json(one) for one in value)


def _findings(value: Json) -> tuple[FindingRow, ...]:
    return tuple(
        FindingRow(
            str(one["severity"]),
            str(one["kind"]).replace("_", " "),
            int(one["count"]),
            str(one["message"]),
            str(one["fix"]),
        )
        for one in value
    )


def _forecasts(path: Path) -> tuple[Forecast, ...]:
    """Empty if the rows have no time, the target is not numeric, or several origins forecast it."""
    if not path.is_file():
        return ()
    import polars as pl

    from trainwright.data.formats.parquet_sizes import read_parquet

    try:
        frame = read_parquet(path)
    except (pl.exceptions.PolarsError, DataMistake) as error:
        raise ValueError(str(error).splitlines()[0][:160]) from error
    if not {"time", "target", "prediction"} <= set(frame.columns):
        return ()
    # Integer class labels are not a numeric target.
    if "origin" in frame.columns or any(name.startswith(PROBABILITY) for name in frame.columns):
        return ()
    ordered = frame.sort("time", maintain_order=True)
    time, target, prediction = (ordered[name] for name in ("time", "target", "prediction"))
    return (Forecast(time.to_numpy(), target.to_numpy(), prediction.to_numpy()),)


def _trees(value: Json) -> Trees:
    curve = [(float(a), float(b), float(c)) for a, b, c in value["curve"]]
    kept = value.get("kept", [])
    each = kept if isinstance(kept, list) else [kept]
    return Trees(str(value.get("metric", "loss")), curve, tuple(int(one) for one in each if one))
