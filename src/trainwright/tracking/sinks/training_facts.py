"""Parameters, tags, results and artifacts of a training, from the files of its run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, final

from trainwright.contract.sections.run_settings import Tracking
from trainwright.core.files import Json, read_json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.sinks.spool import Point, milliseconds_of

Status = Literal["FINISHED", "FAILED", "KILLED"]

_STATUS: Mapping[str, Status] = {
    "finished": "FINISHED",
    "fitted": "FINISHED",
    "failed": "FAILED",
}
"""By the state of the ending; a run that was interrupted or has none was killed."""

_INNER = ("folds/*", "seeds/*", "refits/*", "candidates/*/*")
_ARTIFACTS = (
    *("contract.yaml", "plan.json", "evaluation.json", "report.html", "bundle/bundle.json"),
    *("log.txt", "requirements.txt"),
)


@final
@dataclass(frozen=True)
class TrackedTraining:
    """A training of a run: the run's own, or one inside it, such as a fold's.

    `part` is its path in the run folder, empty for the run's own.
    """

    run: RunFolder
    part: str = ""
    changed: Mapping[str, Json] = field(default_factory=dict)
    """Settings of the section `tracking` in place of the contract's."""

    @property
    def folder(self) -> RunFolder:
        """Its own folder."""
        return RunFolder(self.run.path / self.part)

    @property
    def name(self) -> str:
        """The run's name, and the part."""
        return f"{self.run.name}/{self.part}".rstrip("/")

    @cached_property
    def plan(self) -> dict[str, Json]:
        """`plan.json` of the run; empty for a run without one."""
        return _read(self.run.plan)

    @property
    def settings(self) -> dict[str, Json]:
        """Section `tracking` of the contract, with what was changed."""
        written = self.plan.get("contract", {}).get("tracking", {})
        return {**Tracking().model_dump(), **written, **self.changed}

    @property
    def experiment(self) -> str:
        """Experiment of MLflow, project of W&B."""
        experiment = self.settings.get("experiment", "auto")
        name = self.plan.get("contract", {}).get("name", self.run.name)
        return str(name if experiment == "auto" else experiment)

    @property
    def identity(self) -> str:
        """Unique text of this training, the same in every attempt."""
        return f"{self.plan.get('identity', {}).get('run', '')}/{self.part}"

    @property
    def contract_folder(self) -> Path:
        """Where relative paths of the contract start."""
        if "contract_folder" in self.plan:
            return Path(self.plan["contract_folder"])
        return Path(self.plan.get("contract_path", "")).parent

    def parameters(self) -> dict[str, str | float | bool]:
        """The resolved contract by dotted paths; lists and empty sections as JSON."""
        return dict(_flat(self.plan.get("contract", {}), ""))

    def ended(self) -> str:
        """When the latest attempt of the run has ended; empty while it is at work."""
        return str(_read(self.run.record).get("ended", ""))

    def began_at(self) -> int | None:
        """Milliseconds since 1970 of the first start of the run."""
        started = str(_read(self.run.record).get("started", ""))
        return milliseconds_of(started) if started else None

    def end_milliseconds(self) -> int | None:
        """Milliseconds since 1970 of the end of the latest attempt; None without one."""
        return milliseconds_of(ended) if (ended := self.ended()) else None

    def status(self) -> Status:
        """How the run has ended."""
        ending = _read(self.run.record).get("ending", {})
        return _STATUS.get(str(ending.get("state", "")), "KILLED")

    def tags(self) -> dict[str, str]:
        """Commit, data version, plan hash, ending and verdict, as far as they are known."""
        record = _read(self.run.record)
        git, ending = record.get("git", {}), record.get("ending", {})
        known = {
            "commit": git.get("commit", ""),
            "dirty": str(git.get("dirty", "")),
            "data_version": record.get("data_version", ""),
            "plan_hash": self.plan.get("hash", ""),
            "container": record.get("container", {}).get("image", ""),
            "ending": ending.get("reason", ""),
            "verdict": ending.get("verdict", ""),
            "part": self.part,
        }
        return {name: str(value) for name, value in known.items() if value}

    def results(self, step: int) -> Iterator[Point]:
        """Metrics of the judged model with their intervals, of slices and of baselines, dated by
        the end of the run, at `step`; of a fold those of its own test rows."""
        evaluated = _read(self.run.evaluation)
        moment = self.end_milliseconds() or 0
        for name, value in _results(evaluated, self.part):
            if value is not None and math.isfinite(value):
                yield Point(name, float(value), step, moment)

    def curve(self) -> Iterator[Point]:
        """Loss of the training and validation rows by trees, which boosting keeps in its bundle."""
        grown = _read(self.folder.bundle / "boosting.json")
        moment = self.end_milliseconds() or 0
        metric = grown.get("metric", "loss")
        for trees, train, validation in grown.get("curve", ()):
            for part, value in (("train", train), ("val", validation)):
                if value is not None:
                    yield Point(f"{part}_{metric}", float(value), int(trees), moment)

    def artifacts(self) -> Iterator[Path]:
        """Report, plan, evaluation, bundle manifest, and what the record has as text."""
        return (path for name in _ARTIFACTS if (path := self.folder.path / name).is_file())


def find_trainings(training: TrackedTraining) -> list[TrackedTraining]:
    """The run's own training, and those inside it that have begun."""
    run = training.run
    inner = (path for pattern in _INNER for path in sorted(run.path.glob(pattern)))
    parts = [path.relative_to(run.path).as_posix() for path in inner if (path / "data").is_dir()]
    return [training, *(replace(training, part=part) for part in parts)]


def _read(path: Path) -> dict[str, Json]:
    try:
        value = read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return value if isinstance(value, dict) else {}


def _flat(value: Json, path: str) -> Iterator[tuple[str, str | float | bool]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, str | int | float):
        yield path, value
    else:
        yield path, json.dumps(value, ensure_ascii=False)


def _results(evaluated: Mapping[str, Json], part: str) -> Iterator[tuple[str, float | None]]:
    if not evaluated or (part and not part.startswith("folds/")):
        return
    if part:
        folds = evaluated.get("by_fold", {}).get("folds", [])
        number = int(part.rpartition("/")[2])
        if number <= len(folds):
            yield from ((f"test/{name}", v) for name, v in folds[number - 1]["metrics"].items())
        return
    evaluation = evaluated["evaluation"]
    for name, interval in evaluation["metrics"].items():
        yield from _bounds(f"{evaluation['part']}/{name}", interval)
    for each in evaluation["slices"]:
        yield from _bounds(f"slice/{each['name']}/{each['metric']}", each)
    for baseline, metrics in evaluation["baselines"].items():
        for name, interval in metrics.items():
            yield f"baseline/{baseline}/{name}", interval["value"]


def _bounds(name: str, interval: Mapping[str, Json]) -> Iterator[tuple[str, float | None]]:
    yield name, interval["value"]
    yield f"{name}/low", interval["low"]
    yield f"{name}/high", interval["high"]
