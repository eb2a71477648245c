"""`runs sync`: what trackers lack of a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from trainwright.cli.arguments import naming_damage
from trainwright.contract.sections.run_settings import SinkKind
from trainwright.core.errors import EXIT_DONE, Interrupted, Mistake, Problem
from trainwright.run.folder.planned_contract import find_run
from trainwright.run.screen import StreamScreen, labelled
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import find_study
from trainwright.tracking.sinks.sender import describe_missing, send_run
from trainwright.tracking.sinks.sink_process import lock_sink, need_sinks
from trainwright.tracking.sinks.training_facts import TrackedTraining


def sync_run(
    name: str, runs: Path, sink: Literal["all"] | SinkKind, mlflow_uri: str, seconds: float
) -> int:
    """Send each tracker what it lacks of a run or a search; the exit code.

    Raises:
        Mistake: there is no such run, or no tracker to send it to. MissingExtra: a client is not
            installed. RunLocked: another process sends it.
    """
    study = find_study(name, runs)
    run = TrackedTraining(
        RunFolder(study) if study else find_run(name, runs),
        changed={"mlflow_uri": mlflow_uri} if mlflow_uri else {},
    )
    screen = StreamScreen(sys.stderr)
    code = EXIT_DONE

    def say(label: str, text: str) -> None:
        screen.say(labelled(label, text))

    with naming_damage(run.run):
        chosen = run.settings["sinks"] if sink == "all" else [sink]
        if not chosen:
            problem = "the contract of this run names no tracker"
            raise Mistake(Problem(problem, path="tracking.sinks", fix="name one with --sink"))
        if "mlflow" in chosen and not str(run.settings["mlflow_uri"]).startswith("http"):
            problem = "MLflow is a server with an address"
            fix = "for example --mlflow-uri http://127.0.0.1:5000"
            raise Mistake(Problem(problem, path="--mlflow-uri", found=mlflow_uri, fix=fix))
        need_sinks(chosen)
        for kind in chosen:
            with lock_sink(run.run, kind):
                send_run(run, kind, say, lambda _seconds: True, seconds)
                missing = describe_missing(run, kind)
            if missing:
                say("unsent", f"{kind} lacks {missing}")
                code = Interrupted.exit_code
            else:
                say("sent", f"{kind} has {run.name}")
    return code
