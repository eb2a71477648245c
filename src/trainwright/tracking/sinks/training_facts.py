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
from trainwright.core.files import Json
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import STUDY
from trainwright.tracking.sinks.spool import Point, milliseconds_of
from trainwright.tracking.sinks.study_files import (
    TRIAL,
    find_run_of,
    find_trials,
    read_numbers_of,
    read_or_empty,
    read_record_of,
)

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
    *("log.txt", "requirements.txt", "trials.csv"),
)


@final
@dataclass(frozen=True)
class TrackedTraining:
    """A training of a run: the run's own, or one inside it, such as a fold's; or a study, or one of
    its trials.

    `part` is its path in the folder of the run or the study, empty for that itself.
    """

    run: RunFolder
    part: str = ""
    changed: Mapping[str, Json] = field(default_factory=dict)
    """Settings of the section `tracking` in place of the contract's."""

    @property
    def folder(self) -> RunFolder:
        """Its own folder."""
        return RunFolder(self.run.path / self.part)

    @cached_property
    def in_study(self) -> bool:
        """Is it a study, or inside one?"""
        return (self.run.path / STUDY).is_file()

    @property
    def sink_folder(self) -> Path:
        """Where sinks keep their files: not among trials, which may be removed and run again."""
        if self.in_study and self.part:
            return self.run.path / "tracked" / self.part
        return self.folder.path

    @property
    def name(self) -> str:
        """The run's name, and the part."""
        return f"{self.run.name}/{self.part}".rstrip("/")

    @property
    def outer(self) -> str:
        """The part that trackers show it below; empty for the run or the study."""
        trial = TRIAL.match(self.part)
        return trial[0] if trial and trial[0] != self.part else ""

    @cached_property
    def plan(self) -> dict[str, Json]:
        """`plan.json` of the run or the study; empty without one."""
        return read_or_empty(self.run.plan)

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
        own = dict(_flat(self._own_plan().get("contract", {}), ""))
        tried = read_or_empty(self.run.path / f"{self.part}.asked.json").get("params", {})
        return {**own, **tried}

    def ended(self) -> str:
        """When the latest attempt has ended; empty while it is at work."""
        return str(self._record().get("ended", ""))

    def began_at(self) -> int | None:
        """Milliseconds since 1970 of the first start."""
        started = str(self._record().get("started", ""))
        return milliseconds_of(started) if started else None

    def end_milliseconds(self) -> int | None:
        """Milliseconds since 1970 of the end of the latest attempt; None without one."""
        return milliseconds_of(ended) if (ended := self.ended()) else None

    def status(self) -> Status:
        """How it has ended."""
        return _STATUS.get(str(self._record().get("ending", {}).get("state", "")), "KILLED")

    def tags(self) -> dict[str, str]:
        """Commit, data version, plan hash, ending and verdict, as far as they are known."""
        record = self._record()
        git, ending = record.get("git", {}), record.get("ending", {})
        known = {
            "commit": git.get("commit", ""),
            "dirty": str(git.get("dirty", "")),
            "data_version": record.get("data_version", ""),
            "plan_hash": self._own_plan().get("hash", ""),
            "container": record.get("container", {}).get("image", ""),
            "ending": ending.get("reason", ""),
            "verdict": ending.get("verdict", ""),
            "part": self.part,
        }
        return {name: str(value) for name, value in known.items() if value}

    def results(self, step: int) -> Iterator[Point]:
        """Metrics of the judged model with their intervals, of slices and of baselines, dated by
        the end of the run, at `step`; of a fold those of its own test rows. Of a trial its value on
        the rows by which trials are compared, of a study that of the best."""
        inner, moment = self.part, self.end_milliseconds() or 0
        if self.in_study:
            for name, value, written in read_numbers_of(self.run.path, self.part):
                # At the same step also once the kept trial is judged and has a curve.
                yield Point(name, value, 0, written)
            # Of a fold inside the run of a trial.
            inner = "/".join(self.part.split("/")[2:])
        for name, metric in _results(read_or_empty(self._own_run().evaluation), inner):
            if metric is not None and math.isfinite(metric):
                yield Point(name, float(metric), step, moment)

    def curve(self) -> Iterator[Point]:
        """Loss of the training and validation rows by trees, which boosting keeps in its bundle; of
        a study the values of its trials."""
        if self.in_study and not self.part:
            for number, trial in enumerate(find_trials(self.run.path)):
                for name, value, written in read_numbers_of(self.run.path, trial):
                    yield Point(name, value, number, written)
        grown = read_or_empty(self.folder.bundle / "boosting.json")
        moment = self.end_milliseconds() or 0
        metric = grown.get("metric", "loss")
        for trees, train, validation in grown.get("curve", ()):
            for part, value in (("train", train), ("val", validation)):
                if value is not None:
                    yield Point(f"{part}_{metric}", float(value), int(trees), moment)

    def artifacts(self) -> Iterator[Path]:
        """Report, plan, evaluation, bundle manifest, and what the record has as text; none of a
        trial that is not judged."""
        if self.in_study and self.part and not self.folder.evaluation.is_file():
            return iter(())
        return (path for name in _ARTIFACTS if (path := self.folder.path / name).is_file())

    def _own_run(self) -> RunFolder:
        return find_run_of(self.run.path, self.part) if self.in_study else self.run

    def _own_plan(self) -> dict[str, Json]:
        return read_or_empty(self._own_run().plan) if self.in_study and self.part else self.plan

    def _record(self) -> dict[str, Json]:
        if self.in_study:
            return read_record_of(self.run.path, self.part)
        return read_or_empty(self.run.record)


def find_trainings(training: TrackedTraining) -> list[TrackedTraining]:
    """The run's own training and those inside it that have begun, or a study and its trials."""
    root = training.run.path
    patterns = (*_INNER, "trials/*-*", *(f"trials/*/{inner}" for inner in _INNER))
    inner = (path for pattern in patterns for path in sorted(root.glob(pattern)))
    parts = [path.relative_to(root).as_posix() for path in inner if (path / "data").is_dir()]
    parts = [*find_trials(root), *parts]
    return [training, *(replace(training, part=part) for part in parts)]


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
