"""Verbs of `trainwright weights`. Heavy imports are inside them, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.cli.arguments import RUNS, RunName, Runs

weights_app = typer.Typer(
    help="Weights as plain safetensors.", no_args_is_help=True, rich_markup_mode=None
)


@weights_app.command("export")
def export_weights(
    run: RunName,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="Where they go: model.safetensors, or for onnx the folder onnx.",
        ),
    ] = None,
    to: Annotated[
        Literal["safetensors", "onnx"],
        typer.Option(help="safetensors, or onnx: the graph of a network, checked on test rows."),
    ] = "safetensors",
    step: Annotated[
        int | None,
        typer.Option(metavar="STEP", min=0, help="Of a checkpoint; by default the run's model."),
    ] = None,
    runs: Runs = RUNS,
) -> None:
    """Write the weights of a run in the layout of Hugging Face, or its network as ONNX."""
    from trainwright.cli.weights import export, export_graph

    if to == "onnx":
        if step is not None:
            raise typer.BadParameter(
                "a checkpoint is no model: leave --step out", param_hint="--to"
            )
        export_graph(run, runs, output or Path("onnx"))
    else:
        export(run, runs, step, output or Path("model.safetensors"))


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
