"""A training as an offline run of W&B."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, final

from trainwright.core.files import hash_value
from trainwright.tracking.sinks import Say
from trainwright.tracking.sinks.cursor import Cursor
from trainwright.tracking.sinks.spool import Point
from trainwright.tracking.sinks.training_facts import TrackedTraining

if TYPE_CHECKING:
    import wandb

_STEP = "step"


@final
class WandbRun:
    """Writes one offline folder, for `wandb sync`, that holds the whole training.

    The client writes in the background and does not say how far it is. So a folder is never
    continued: after a resume or a rollback everything is written again, under the same id.
    """

    def __init__(self, training: TrackedTraining, cursor: Cursor, parent: str, say: Say) -> None:  # noqa: ARG002
        self._training = training
        self._parent = parent
        self._folder = training.sink_folder / "wandb"
        self._run = self._begin(cursor)

    def send(self, points: Sequence[Point], cursor: Cursor) -> None:  # noqa: ARG002
        """A row of the history for the numbers of a step."""
        for (step, moment), group in groupby(points, key=lambda p: (p.step, p.milliseconds)):
            numbers: dict[str, float] = {point.name: point.value for point in group}
            self._run.log({**numbers, _STEP: step, "_timestamp": moment / 1000})

    def rewind(self, cursor: Cursor) -> None:
        """Write everything again: the folder then has each step once."""
        tags = dict(cursor.tags)
        self._run.finish(exit_code=1)
        self._run = self._begin(cursor)
        cursor.tags = tags

    def finish(self, cursor: Cursor) -> None:
        """Results and tags as the summary, and the end of the run."""
        training = self._training
        if cursor.sent.get("ending") == training.ended():
            return
        for point in training.results(max(cursor.last, cursor.curve, 0)):
            self._run.summary[point.name] = point.value
        for name, text in {**training.tags(), **cursor.tags}.items():
            self._run.summary[name] = text
        import wandb

        self._run.finish(exit_code=0 if training.status() == "FINISHED" else 1)
        # The files are whole when the client's own process has ended.
        wandb.teardown()
        cursor.sent["ending"] = training.ended()

    def _begin(self, cursor: Cursor) -> wandb.Run:
        """A new folder in place of those that were not synchronised."""
        for folder in self._folder.glob("offline-run-*"):
            if not any(folder.glob("*.synced")):
                shutil.rmtree(folder)
        training = self._training
        cursor.restart(self._folder.name, hash_value(training.identity)[:8])
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in ("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
            os.environ[name] = str(self._folder / "client")
        os.environ |= {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
        import wandb

        quiet = wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            save_code=False,
            x_disable_machine_info=True,
            x_disable_stats=True,
            x_disable_meta=True,
        )
        run = wandb.init(
            mode="offline",
            dir=training.sink_folder,
            id=cursor.run,
            name=training.name,
            project=training.experiment,
            group=self._parent or None,
            job_type=training.part.partition("/")[0] or None,
            config=training.parameters(),
            settings=quiet,
            reinit="create_new",
        )
        run.define_metric("*", step_metric=_STEP)
        return run
