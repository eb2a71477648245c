"""Verbs of `trainwright weights`. Heavy imports are inside them, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainwright.cli.arguments import RUNS, RunName, Runs

weights_app = typer.Typer(
    help="Weights as plain safetensors.", no_args_is_help=True, rich_markup_mode=None
)


@weights_app.command("export")
def export_weights(
    run: RunName,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the weights go.")
    ] = Path("model.safetensors"),
    step: Annotated[
        int | None,
        typer.Option(metavar="STEP", min=0, help="Of a checkpoint; by default the run's model."),
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Write the weights of a run in the layout of Hugging Face."""
    from trainwright.cli.weights import export

    export(run, runs, step, output)


@weights_app.command("convert")
def convert_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A .pt file of named tensors.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the weights go.")
    ] = Path("model.safetensors"),
) -> None:
    """Turn a foreign .pt file into safetensors, in a process that can do nothing else."""
    from trainwright.cli.weights import convert

    convert(source, output)
