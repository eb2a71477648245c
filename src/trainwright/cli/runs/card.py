"""`card`: the model card of a judged run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.arguments import RUNS, RunName, Runs


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
    from trainwright.cli.output.damage import naming_damage
    from trainwright.core.terminal import show_safely
    from trainwright.report.card.write_card import make_card, write_card
    from trainwright.run.folder.planned_contract import find_run

    if output != Path():
        check_folder(output)
    folder = find_run(run, runs)
    with naming_damage(folder):
        if output == Path():
            typer.echo(make_card(folder), nl=False)
        else:
            typer.echo(show_safely(str(write_card(folder, output))))
