"""`weights export` and `weights convert`: weights as plain safetensors."""

from __future__ import annotations

import sys
from pathlib import Path

from trainwright.cli.arguments import naming_damage
from trainwright.cli.init_predict import check_folder
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET
from trainwright.core.formatting import show_safely
from trainwright.core.lazy_imports import need_onnx, need_torch
from trainwright.run.folder.planned_contract import find_run
from trainwright.run.screen import labelled


def export(run: str, runs: Path, step: int | None, output: Path) -> None:
    """Write the weights of a run: of its model, or of the checkpoint of a step."""
    need_torch("", "the weights of a network")
    from trainwright.run.after.export_weights import export_checkpoint, export_model

    check_folder(output)
    folder = find_run(run, runs)
    with naming_damage(folder):
        if step is None:
            exported = export_model(folder, output)
        else:
            exported = export_checkpoint(folder, step, output)
    if exported.doubt:
        sys.stderr.write(labelled("warning", exported.doubt) + "\n")
    sys.stdout.write(show_safely(f"{len(exported.names):,} tensors in {output}\n"))


def export_graph(run: str, runs: Path, output: Path) -> None:
    """Write the network of a run as ONNX, checked on its test rows."""
    need_torch("", "the weights of a network")
    need_onnx()
    from trainwright.run.after.export_onnx import TOLERANCE, export_onnx

    folder = find_run(run, runs)
    with naming_damage(folder):
        exported = export_onnx(folder, output)
    sys.stdout.write(
        f"{show_safely(str(exported.folder))}: equal to the predictor on {exported.rows:,} test "
        f"rows, largest difference {exported.difference:.1e} of at most {TOLERANCE:g}\n"
    )


def export_small_graph(run: str, runs: Path, output: Path) -> int:
    """Write the network of a run as ONNX with weights of 8 bits, judged again; the exit code."""
    need_torch("", "the weights of a network")
    need_onnx()
    from trainwright.cli.render import show_result
    from trainwright.run.after.export_int8 import export_int8

    folder = find_run(run, runs)
    with naming_damage(folder):
        exported = export_int8(folder, output)
    show_result(exported.result, (), as_json=False, of_run=False)
    for one in exported.fallen:
        sys.stderr.write(labelled("fallen", show_safely(one)) + "\n")
    if exported.fallen:
        sys.stderr.write("the verdict falls in 8 bits: nothing is written\n")
        return EXIT_VERDICT_NOT_MET
    share = f"{exported.size_ratio:.0%} of the size of a graph of 32 bits"
    sys.stdout.write(f"{show_safely(str(output))}: {share}\n")
    met = exported.result.verdict.status == "met"
    return EXIT_DONE if met else EXIT_VERDICT_NOT_MET


def export_hub_folder(run: str, runs: Path, output: Path, *, merges: bool = False) -> None:
    """Write the network of a run as a folder of Hugging Face; or only one whose adapter `merges`
    into its base."""
    need_torch("", "the weights of a network")
    from trainwright.run.after.export_folder import export_folder, merge_folder

    folder = find_run(run, runs)
    with naming_damage(folder):
        exported = (merge_folder if merges else export_folder)(folder, output)
    for doubt in exported.doubts:
        sys.stderr.write(labelled("warning", show_safely(doubt)) + "\n")
    sys.stdout.write(show_safely(f"{exported.architecture} in {output}\n"))


def convert(source: Path, output: Path) -> None:
    """Write the tensors of a foreign file."""
    need_torch("", "a file of torch")
    from trainwright.checkpoint.foreign.torch_import import convert_foreign

    check_folder(output)
    names = convert_foreign(source, output)
    sys.stdout.write(show_safely(f"{len(names):,} tensors in {output}\n"))
