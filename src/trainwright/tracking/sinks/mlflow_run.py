"""A training as a run of an MLflow server."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from trainwright.core.errors import StorageFailed
from trainwright.core.files import hash_file, hash_value
from trainwright.core.formatting import many
from trainwright.core.redaction import redact_named
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import Cursor
from trainwright.tracking.sinks.spool import Point
from trainwright.tracking.sinks.training_facts import TrackedTraining

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Limits of MLflow 3 (mlflow.utils.validation).
_MOST_METRICS, _MOST_PARAMS, _MOST_TAGS = 1000, 100, 100
_LONGEST_NAME, _LONGEST_PARAM, _LONGEST_TAG = 250, 6000, 8000
_REFUSED = re.compile(r"[^\w\-. :/]", re.ASCII)
_REQUEST_SECONDS = 20
_OURS = "trainwright."
_IDENTITY = f"{_OURS}identity"
T = TypeVar("T")


@final
class MlflowRun:
    """Sends to a run of MLflow's tracking server, nested in that of `parent` if there is one.

    MLflow drops a point that it has already: the same name, value, step and time. Its run is found
    again by the tag `trainwright.identity` if the process died before its id was noted.
    """

    def __init__(self, training: TrackedTraining, cursor: Cursor, parent: str, say: Say) -> None:
        # Retries are the sender's, which waits for a server and says so.
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
        os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = str(_REQUEST_SECONDS)
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
        from mlflow import MlflowClient

        self._training = training
        self._say = say
        address = str(training.settings["mlflow_uri"])
        self._client: MlflowClient = MlflowClient(tracking_uri=address)
        where = f"{address} {training.experiment}"
        if cursor.address == where and self._goes_on(cursor.run):
            self._client.update_run(cursor.run, status="RUNNING")
        else:
            cursor.restart(where, self._begin(parent))
        self.run = cursor.run
        self._renamed = len(cursor.names)

    def send(self, points: Sequence[Point], cursor: Cursor) -> None:
        """Finite numbers as metrics; the others as a tag of their name."""
        from mlflow.entities import Metric

        finite = (point for point in points if math.isfinite(point.value))
        metrics = (
            Metric(self._name(p.name, cursor), p.value, p.milliseconds, p.step) for p in finite
        )
        for some in _chunks(metrics, _MOST_METRICS):
            self._client.log_batch(self.run, metrics=some)
        for point in points:
            if not math.isfinite(point.value):
                tag = f"nonfinite.{self._name(point.name, cursor)}"
                cursor.tags.setdefault(tag, f"{point.value} at step {point.step}")
        self._say_renamed(cursor)
        self._send_tags(cursor, cursor.tags)

    def rewind(self, cursor: Cursor) -> None:
        """MLflow keeps what was sent; the tag `rewound` names the steps that were gone back to."""
        self._send_tags(cursor, cursor.tags)

    def finish(self, cursor: Cursor) -> None:
        """Parameters, results, tags, artifacts, and the status."""
        training = self._training
        self._send_parameters(cursor)
        self.send(tuple(training.results(max(cursor.last, cursor.curve, 0))), cursor)
        self._send_tags(cursor, {**cursor.tags, **training.tags()})
        for path in training.artifacts():
            self._send_artifact(path, cursor)
        self._client.set_terminated(
            self.run, training.status(), end_time=training.end_milliseconds()
        )

    def _goes_on(self, run: str) -> bool:
        """Is there a run of this id?"""
        from mlflow.exceptions import MlflowException

        if not run:
            return False
        try:
            return bool(self._client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _begin(self, parent: str) -> str:
        """Id of the run of this training, made if there is none."""
        training = self._training
        experiment = self._experiment()
        same = f"tags.`{_IDENTITY}` = '{training.identity}'"
        if mine := self._client.search_runs([experiment], same, max_results=1):
            self._client.update_run(mine[0].info.run_id, status="RUNNING")
            return str(mine[0].info.run_id)
        named = f"attributes.run_name = '{training.name.replace(chr(39), '')}'"
        if not training.part and self._client.search_runs([experiment], named, max_results=1):
            said = f"MLflow has a run named {training.name} in {training.experiment} already"
            self._say("warning", f"{said}: this one is another of the same name")
        tags = {_IDENTITY: training.identity, **training.tags()}
        tags = {name: value[:_LONGEST_TAG] for name, value in tags.items()}
        if commit := tags.get("commit"):
            tags["mlflow.source.git.commit"] = commit
        if parent:
            tags["mlflow.parentRunId"] = parent
        made = self._client.create_run(
            experiment, tags=tags, run_name=training.name, start_time=training.began_at()
        )
        return str(made.info.run_id)

    def _experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        name = self._training.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name))
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            # Another run has made it meanwhile.
            found = self._client.get_experiment_by_name(name)
        if found is None or found.lifecycle_stage != "active":
            raise StorageFailed(f"the experiment {name} is deleted there: choose another name")
        return str(found.experiment_id)

    def _send_parameters(self, cursor: Cursor) -> None:
        """The contract; values that are too long are cut, and a tag names them. MLflow refuses a
        parameter that changes, so what a resume changes is in the plan alone."""
        from mlflow.entities import Param

        if "parameters" in cursor.sent:
            return
        parameters = {self._name(k, cursor): str(v) for k, v in self._training.parameters().items()}
        cut = [name for name, value in parameters.items() if len(value) > _LONGEST_PARAM]
        params = [Param(name, value[:_LONGEST_PARAM]) for name, value in parameters.items()]
        for some in _chunks(params, _MOST_PARAMS):
            self._client.log_batch(self.run, params=some)
        if cut:
            cursor.tags["cut_parameters"] = ", ".join(cut)
            self._say("note", f"MLflow takes {_LONGEST_PARAM:,} characters of {', '.join(cut)}")
        cursor.sent["parameters"] = self.run

    def _send_tags(self, cursor: Cursor, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        digest = hash_value(dict(tags))
        if cursor.sent.get("tags") == digest or not tags:
            return
        named = [RunTag(self._name(k, cursor), v[:_LONGEST_TAG]) for k, v in tags.items()]
        for some in _chunks(named, _MOST_TAGS):
            self._client.log_batch(self.run, tags=some)
        cursor.sent["tags"] = digest

    def _send_artifact(self, path: Path, cursor: Cursor) -> None:
        digest = hash_file(path)
        name = path.relative_to(self._training.folder.path)
        if cursor.sent.get(str(name)) != digest:
            folder = "" if name.parent == Path() else str(name.parent)
            self._client.log_artifact(self.run, str(path), folder or None)
            cursor.sent[str(name)] = digest

    def _name(self, name: str, cursor: Cursor) -> str:
        """The name as MLflow takes it, which the cursor keeps if it is another one."""
        if name in cursor.names:
            return cursor.names[name]
        parts = _REFUSED.sub("_", name)[:_LONGEST_NAME].split("/")
        taken = "/".join(part if part.strip(".") else "_" for part in parts)
        if taken == name:
            return name
        if taken in cursor.names.values():
            taken = f"{taken[: _LONGEST_NAME - 9]}-{hash_value(name)[:8]}"
        cursor.names[name] = taken
        return taken

    def _say_renamed(self, cursor: Cursor) -> None:
        """Say new names once, and keep all of them in a tag."""
        if len(cursor.names) > self._renamed:
            name, taken = list(cursor.names.items())[self._renamed]
            new = many(len(cursor.names) - self._renamed, "name")
            self._say(
                "note",
                f"MLflow refuses {new}, such as {redact_named(name)!r}, sent as "
                f"{taken!r}: the tag renamed lists them",
            )
            cursor.tags["renamed"] = redact_named(json.dumps(cursor.names, ensure_ascii=False))
            self._renamed = len(cursor.names)


def _chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(values)
    while some := list(islice(rest, size)):
        yield some
