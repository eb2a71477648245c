"""`runs sync`: what trackers lack of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from trainwright.cli.arguments import naming_damage
from trainwright.contract.sections.run_settings import SinkKind, Tracking
from trainwright.core.errors import EXIT_DONE, Interrupted, Mistake, Problem
from trainwright.core.redaction import redact
from trainwright.run.folder.planned_contract import find_run
from trainwright.run.screen import StreamScreen, labelled
from trainwright.tracking.sinks.sender import describe_missing, send_run
from trainwright.tracking.sinks.sink_process import lock_sink, need_sinks
from trainwright.tracking.sinks.training_facts import TrackedTraining


def sync_run(name: str, runs: Path, sinks: Sequence[str], mlflow_uri: str, seconds: float) -> int:
    """Send each tracker what it lacks; the exit code.

    Raises:
        Mistake: there is no such run, or no tracker to send it to. MissingExtra: a client is not
            installed. RunLocked: another process sends it.
    """
    run = TrackedTraining(
        find_run(name, runs), changed={"mlflow_uri": mlflow_uri} if mlflow_uri else {}
    )
    screen = StreamScreen(sys.stderr)
    code = EXIT_DONE

    def say(label: str, text: str) -> None:
        screen.say(labelled(label, text))

    with naming_damage(run.run):
        tracking = _chosen(run, sinks)
        if not tracking.sinks:
            fix = "name one with --sink"
            raise Mistake(
                Problem("the contract of this run names no tracker", path="tracking.sinks", fix=fix)
            )
        need_sinks(tracking)
        for kind in tracking.sinks:
            with lock_sink(run.run, kind):
                send_run(run, kind, say, lambda _seconds: True, seconds)
                missing = describe_missing(run, kind)
            if missing:
                say("unsent", f"{kind} lacks {missing}")
                code = Interrupted.exit_code
            else:
                say("sent", f"{kind} has {run.name}")
    return code


def _chosen(run: TrackedTraining, sinks: Sequence[str]) -> Tracking:
    """Settings of the run with the given trackers, or those of its contract."""
    settings = {**run.settings, "windows": "off", "inspect": "off"}
    try:
        return Tracking.model_validate({**settings, "sinks": tuple(sinks or settings["sinks"])})
    except ValidationError as error:
        raise Mistake(
            Problem(
                "this is not where a run can be sent",
                path="--mlflow-uri" if "mlflow_uri" in str(error) else "--sink",
                found=redact(", ".join(sinks)),
                expected=", ".join(get_args(SinkKind)),
            )
        ) from None
