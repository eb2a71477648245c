"""Verbs of `trainwright runs`, and `card`. Heavy imports are inside the verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.cli.arguments import RUNS, AsJson, RunName, Runs, naming_damage


def card(
    run: RunName,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="Where it goes; else to stdout."),
    ] = Path(),
    runs: Runs = RUNS,
) -> None:
    """Write a model card from the record of a run, in the layout of Hugging Face."""
    from trainwright.cli.init_predict import check_folder
    from trainwright.core.formatting import show_safely
    from trainwright.report.model_card import make_card, write_card
    from trainwright.run.folder.planned_contract import find_run

    if output != Path():
        check_folder(output)
    folder = find_run(run, runs)
    with naming_damage(folder):
        if output == Path():
            typer.echo(make_card(folder), nl=False)
        else:
            typer.echo(show_safely(str(write_card(folder, output))))


Step = Annotated[int, typer.Argument(metavar="STEP", min=0, help="The step of a checkpoint.")]

runs_app = typer.Typer(
    help="List, show and compare runs.", no_args_is_help=True, rich_markup_mode=None
)


@runs_app.command("list")
def list_runs(
    runs: Runs = RUNS,
    sort: Annotated[
        Literal["started", "name", "model", "score", "time", "price"],
        typer.Option(help="Sort key; by score the best first."),
    ] = "started",
    verdict: Annotated[
        str, typer.Option(metavar="VERDICT", help="Only runs with this verdict: met, missed...")
    ] = "",
    state: Annotated[
        str, typer.Option(metavar="STATE", help="Only runs in this state: finished, running...")
    ] = "",
    model: Annotated[
        str, typer.Option(metavar="KIND", help="Only runs of this kind of model: boosting...")
    ] = "",
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Only runs with this in the name.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the runs of a folder: model, score with interval, verdict, time and price."""
    from trainwright.cli.runs.runs_show import show_runs
    from trainwright.run.folder.run_table import RunFilter

    show_runs(runs, RunFilter(verdict, state, model, name), sort, as_json=as_json)


@runs_app.command("compare")
def compare_runs(
    names: Annotated[list[str], typer.Argument(metavar="RUN...", help="Two or more runs.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="An .html page with curves.")
    ] = Path(),
    runs: Runs = RUNS,
    as_json: AsJson = False,
) -> None:
    """Compare judged runs: contracts, metrics with paired intervals, time and price."""
    from trainwright.cli.runs.runs_show import show_comparison

    show_comparison(names, runs, output, as_json=as_json)


@runs_app.command("show")
def show_run(run: RunName, runs: Runs = RUNS, as_json: AsJson = False) -> None:
    """Show the state, the record and the verdict of a run."""
    from trainwright.cli.render import show_one_run

    show_one_run(run, runs, as_json=as_json)


@runs_app.command("verify")
def verify(run: RunName, runs: Runs = RUNS, as_json: AsJson = False) -> None:
    """Check every file of a run against what was written, changing nothing."""
    from trainwright.cli.runs.runs_show import show_verified

    raise typer.Exit(show_verified(run, runs, as_json=as_json))


@runs_app.command("sync")
def sync(
    run: RunName,
    sink: Annotated[
        Literal["all", "mlflow", "tensorboard", "wandb"],
        typer.Option(help="Only this tracker; else all of the run's contract."),
    ] = "all",
    mlflow_uri: Annotated[
        str, typer.Option(metavar="URL", help="MLflow server in place of the contract's.")
    ] = "",
    seconds: Annotated[float, typer.Option(min=0, help="Most seconds for each tracker.")] = 600.0,
    runs: Runs = RUNS,
) -> None:
    """Send trackers what they lack of a run; exit code 75 if they still do."""
    from trainwright.cli.runs.sync_run import sync_run

    raise typer.Exit(sync_run(run, runs, sink, mlflow_uri, seconds))


@runs_app.command("checkpoints")
def list_checkpoints(run: RunName, runs: Runs = RUNS, as_json: AsJson = False) -> None:
    """List the checkpoints of a run."""
    from trainwright.cli.runs.runs_show import show_checkpoints

    show_checkpoints(run, runs, as_json=as_json)


@runs_app.command("pin")
def pin(run: RunName, step: Step, runs: Runs = RUNS) -> None:
    """Keep a checkpoint of a run forever; the run may be active."""
    from trainwright.cli.runs.runs_show import keep

    keep(run, runs, step)


@runs_app.command("unpin")
def unpin(run: RunName, step: Step, runs: Runs = RUNS) -> None:
    """Unpin a checkpoint: retention may remove it."""
    from trainwright.cli.runs.runs_show import let_go

    let_go(run, runs, step)
