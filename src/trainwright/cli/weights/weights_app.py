"""Verbs of `trainwright weights`. Heavy imports are inside them, so that help is instant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trainwright.cli.arguments import RUNS, AllowCode, RunName, Runs
from trainwright.core.process import code_allowed

weights_app = typer.Typer(
    help="Weights as plain safetensors.", no_args_is_help=True, rich_markup_mode=None
)


ExportedTo = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="PATH",
        help="Where they go: model.safetensors, or a folder named as the format.",
    ),
]
ExportFormat = Annotated[
    Literal["safetensors", "onnx", "onnx-int8", "huggingface"],
    typer.Option(
        help="safetensors; onnx: the graph of a network, checked on test rows; onnx-int8: with "
        "weights of 8 bits, judged again; huggingface: a decoder for transformers."
    ),
]


@weights_app.command("export")
def export_weights(
    run: RunName,
    output: ExportedTo = None,
    to: ExportFormat = "safetensors",
    step: Annotated[
        int | None,
        typer.Option(metavar="STEP", min=0, help="Of a checkpoint; by default the run's model."),
    ] = None,
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
) -> None:
    """Write the weights of a run as safetensors, its network as ONNX, or its decoder as a folder of
    Hugging Face. A graph of 8 bits is judged again on the test rows: the exit code is that of its
    verdict, and if that falls nothing is written."""
    from trainwright.cli.weights.weights_export import (
        export,
        export_graph,
        export_hub_folder,
        export_small_graph,
    )

    if step is not None and to != "safetensors":
        raise typer.BadParameter("a checkpoint is no model: remove --step", param_hint="--to")
    with code_allowed(allow_code):
        match to:
            case "safetensors":
                export(run, runs, step, output or Path("model.safetensors"))
            case "onnx":
                export_graph(run, runs, output or Path("onnx"))
            case "onnx-int8":
                raise typer.Exit(export_small_graph(run, runs, output or Path("onnx-int8")))
            case _:
                export_hub_folder(run, runs, output or Path("huggingface"))


@weights_app.command("merge")
def merge_adapter(
    run: RunName,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FOLDER", help="A new folder.")
    ] = Path("merged"),
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
) -> None:
    """Write the base of a run with its adapter merged into it, as a folder of Hugging Face. The
    base is unchanged."""
    from trainwright.cli.weights.weights_export import export_hub_folder

    with code_allowed(allow_code):
        export_hub_folder(run, runs, output, merges=True)


@weights_app.command("convert")
def convert_weights(
    source: Annotated[Path, typer.Argument(metavar="FILE", help="A .pt file of named tensors.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where the weights go.")
    ] = Path("model.safetensors"),
) -> None:
    """Turn a foreign .pt file into safetensors, in a process that can do nothing else."""
    from trainwright.cli.weights.weights_export import convert

    convert(source, output)
