"""`tune`: search over values of a contract, and judge the winner."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.arguments import RUNS, AllowCode, AsJson, ContractPath, Overrides, Runs
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET
from trainwright.core.process import code_allowed, loading
from trainwright.core.progress import StopFlag

StudyName = Annotated[
    str, typer.Option("--study", metavar="NAME", help="Name of the study's folder.")
]
GoOn = Annotated[bool, typer.Option("--resume", help="Go on with the study.")]

Join = Annotated[
    Path | None,
    typer.Option(
        "--join",
        metavar="STUDY",
        help="Run trials of a study that another machine began; its folder.",
    ),
]


def tune(
    contract: ContractPath,
    overrides: Overrides = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    study: StudyName = "",
    resume: GoOn = False,
    join: Join = None,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Search over values of a contract, as its section `tune` says, and judge the winner.

    Every trial is a run of its own below the study's folder; the test rows stay closed until the
    winner is judged on them, once."""
    from trainwright.run.supervise.preemption import stop_on_signals

    asked_at = time.monotonic()
    with stop_on_signals(StopFlag()), code_allowed(allow_code):
        with loading():
            from trainwright.run.request import Request
            from trainwright.run.screen import StreamScreen
            from trainwright.tune.run_study import join_study, run_study
        request = Request(contract, overrides, runs, study, resume, sys.argv, asked_at=asked_at)
        if join:
            join_study(request, join, StreamScreen(sys.stderr))
            raise typer.Exit(EXIT_DONE)
        result = run_study(request, StreamScreen(sys.stderr))
        # Imported here: a study does not wait for what shows its result.
        from trainwright.cli.render import commands_with_a_run, say_whole, show_json, show_result
        from trainwright.report.study_page import report_study

        report_study(result)
        if as_json:
            show_json(result.to_json())
        else:
            winner = str(result.result.folder.path)
            show_result(result.result, commands_with_a_run(winner, runs), as_json=False)
            say_whole("search", str(result.folder.report))
    met = result.result.verdict.status == "met"
    raise typer.Exit(EXIT_DONE if met else EXIT_VERDICT_NOT_MET)
