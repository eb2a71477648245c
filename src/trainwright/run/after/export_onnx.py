"""Export of a run's network as ONNX, checked on held-out rows of the run. Needs torch and onnx."""

from __future__ import annotations

import io
import logging
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, hash_file, read_json, storage_errors, write_json
from trainwright.data.base.inputs import Inputs
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.columns.target import Target
from trainwright.data.subsample import sampled
from trainwright.data.text.eval_windows import cut_windows
from trainwright.model.input_shape import Shape
from trainwright.objective.output_link import OutputLink
from trainwright.predictor.bundle import MANIFEST
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor
from trainwright.run.after.explain_run import prepare_again
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.screen import StreamScreen
from trainwright.tracking.run_folder import RunFolder

MODEL, RECORD = "model.onnx", "export.json"
TOLERANCE = 1e-4
"""Largest difference to the predictor, as a share of the value where that is above 1."""

_MOST_BYTES = 2**31 - 2**24
"""A file of protocol buffers ends at 2 GiB, with the graph beside the weights."""
_ROWS = 256
_WINDOWS = 32
_NETWORKS = ("mlp", "tabular_resnet", "resnet", "gpt")
"""Those whose graphs are held to onnxruntime by a test."""
_TOKENS = "tokens"
_LIBRARIES = ("trainwright", "torch", "onnx", "onnxruntime", "onnxscript")

Arrays = dict[str, npt.NDArray[Any]]


@final
@dataclass(frozen=True, slots=True)
class OnnxExport:
    """What was exported: `rows` were compared, `difference` is the largest."""

    folder: Path
    rows: int
    difference: float


def export_onnx(folder: RunFolder, output: Path) -> OnnxExport:
    """Write the network of a finished run to the new folder `output`: `model.onnx`, which takes
    encoded rows in batches of any size, and `export.json`, the record of its check.

    Raises:
        Mistake: the run has no network or another folder is there; or the file differs from the
            predictor, and nothing is written. DataChanged: the rows of the run are no longer those
            that it was judged on. StorageFailed: the disk.
    """
    check_free(output)
    predictor = read_own_bundle(folder)
    scorer = predictor.scorer
    kind = read_planned(folder).model.kind
    if not isinstance(scorer, NetworkScorer) or kind not in _NETWORKS:
        raise _no_network(folder, kind)
    held_out = _held_out(folder, predictor)
    if len(held_out.levels.scale):
        why = "it learned forecasts against the level of each row, which is no input of a graph"
        raise _not_exportable(folder, ValueError(why))
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        file = Path(scratch) / MODEL
        try:
            names = write_graph(
                scorer.network, scorer.shape, predictor.target, scorer.context, file
            )
        except (torch.onnx.OnnxExporterError, ValueError) as error:
            raise _not_exportable(folder, error) from error
        batches = list(_batches(scorer, predictor, held_out))
        rows, difference = compare_with_graph(file, batches)
        if not difference <= TOLERANCE:
            raise _differs(folder, difference)
        check = {
            "part": "test",
            "rows": rows,
            "tolerance": TOLERANCE,
            "largest_difference": difference,
        }
        record = {**_describe_graph(folder, predictor, file), "inputs": names, "check": check}
        place_graph(file, record, output)
    return OnnxExport(output, rows, difference)


def _describe_graph(folder: RunFolder, predictor: Predictor, file: Path) -> Json:
    target = predictor.target
    return {
        "format": 1,
        "run": folder.name,
        "bundle": read_json(folder.bundle / MANIFEST)["files"],
        "file": {"name": MODEL, "sha256": hash_file(file), "size_bytes": file.stat().st_size},
        "output": output_name(target),
        "classes": list(target.classes),
        "targets": list(target.target_names),
        "calibration": predictor.calibration.to_json() if predictor.calibration else None,
        "costs": list(map(list, target.costs)),
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def output_name(target: Target) -> str:
    """What the graph computes: uncalibrated class probabilities [N, C], values [N, 1] or
    ascending quantiles [N, K] in the unit of the target, or the logits of the next token
    [N, L, V]."""
    if target.task == "generation":
        return "logits"
    return "values" if target.centre_and_spread else "probabilities"


@final
class _Scoring(nn.Module):
    """A network and what the predictor does with its outputs."""

    def __init__(self, network: nn.Module, target: Target) -> None:
        super().__init__()
        self.network = network
        self.does = output_name(target)
        self.link = OutputLink(target)
        self.are_quantiles = bool(target.quantiles)

    def forward(self, *arguments: Tensor) -> Tensor:
        """Probabilities, values or logits."""
        out: Tensor = self.network(*arguments)
        if self.does == "logits":
            return out
        scores = self.link.scores(out)
        return torch.sort(scores, dim=1).values if self.are_quantiles else scores


def write_graph(network: nn.Module, shape: Shape, target: Target, context: int, file: Path) -> Json:
    """Write a network in evaluation mode as an ONNX graph with a free batch size, of texts with a
    free length up to the context. Returns its inputs: type and shape by name.

    Raises:
        ValueError: it is larger than one file of this format. What `torch.onnx.export` raises.
    """
    size = sum(one.nbytes for one in network.state_dict().values())
    if size > _MOST_BYTES:
        raise ValueError(f"{size:,} bytes of weights, and a graph holds at most {_MOST_BYTES:,}")
    rows = [torch.zeros_like(one) for one in shape.empty_rows(2, context)]
    if target.task == "generation":
        rows = rows[:1]
    names = _input_names(rows)
    batch = torch.export.Dim("batch")
    free: list[dict[int, Any]] = [{0: batch} for _ in rows]
    if target.task == "generation":
        free = [{0: batch, 1: torch.export.Dim("length", max=context)}]
    loud = logging.getLogger("torch.onnx")
    level = loud.level
    loud.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            graph = torch.onnx.export(
                _Scoring(network, target).eval(),
                tuple(rows),
                dynamo=True,
                input_names=names,
                output_names=[output_name(target)],
                dynamic_shapes=(tuple(free),),
                verbose=False,
            )
    finally:
        loud.setLevel(level)
    assert graph is not None, "the exporter of torch.export returns the graph"
    graph.save(file, external_data=False)
    return _described(file)


def _input_names(rows: Sequence[Tensor]) -> list[str]:
    if len(rows) == 2:
        return ["numeric", "categories"]
    return ["pixels" if rows[0].dtype == torch.uint8 else _TOKENS]


def _described(file: Path) -> Json:
    return {
        one.name: {"type": one.type, "shape": list(one.shape)}
        for one in open_session(file).get_inputs()
    }


def open_session(file: Path) -> Any:
    """A graph that onnxruntime runs on the CPU."""
    import onnxruntime

    return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])


def compare_with_graph(
    file: Path, batches: Sequence[tuple[Mapping[str, npt.NDArray[Any]], npt.NDArray[Any]]]
) -> tuple[int, float]:
    """Rows and largest difference between the graph and what it should give, over batches of its
    arguments and of that; NaN if either is not a number."""
    session = open_session(file)
    names = [one.name for one in session.get_inputs()]
    rows, largest = 0, 0.0
    for arguments, expected in batches:
        found = session.run(None, {name: arguments[name] for name in names})[0]
        scale = np.maximum(1.0, np.abs(expected))
        largest = float(np.maximum(largest, (np.abs(found - expected) / scale).max()))
        rows += len(expected)
    return rows, largest


def _batches(
    scorer: NetworkScorer, predictor: Predictor, inputs: Inputs
) -> Iterator[tuple[Arrays, npt.NDArray[Any]]]:
    """The held-out rows as the graph reads them, with what the predictor gives before its
    calibration: the first alone, and all of them. Of a text some windows of each length, with the
    logits of the network."""
    if predictor.target.task == "generation":
        for windows in cut_windows(TokenInputs.of_kind(inputs.segments), scorer.context):
            tokens = windows.between(0, _WINDOWS).tokens(0).astype(np.int64)
            with torch.no_grad():
                yield {_TOKENS: tokens}, scorer.network(torch.from_numpy(tokens)).numpy()
        return
    for stop in (1, len(inputs)):
        expected = predictor.uncalibrated(inputs.take(np.arange(stop)))
        yield dict(inputs.arrays(0, stop)), expected


def _held_out(folder: RunFolder, predictor: Predictor) -> Inputs:
    """Test rows of the run, encoded by its own features."""
    why = "the exported file is checked on the rows that the run was judged on"
    ready = prepare_again(folder, StreamScreen(io.StringIO()), why)
    part = sampled(ready.prepared.test, _ROWS, ready.plan.contract.split_seed)
    return next(iter(predictor.features.inputs_of(part)))


def place_graph(file: Path, record: Json, output: Path) -> None:
    """Write a graph and its record to a new folder, whole or not at all."""
    new = output.with_name(f".tmp-{os.getpid()}-{output.name}")
    with storage_errors(f"writing {output}"):
        try:
            new.mkdir(parents=True)
            shutil.copyfile(file, new / MODEL)
            write_json(new / RECORD, record)
            new.rename(output)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise


def check_free(output: Path) -> None:
    """Check that a folder is not there yet.

    Raises:
        Mistake: it is.
    """
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise Mistake(
            Problem(
                "the output is there already",
                path="-o",
                found=str(output),
                expected="a folder that is not there yet",
                fix="name another one, or remove it",
            )
        )


def _no_network(folder: RunFolder, kind: str) -> Mistake:
    return Mistake(
        Problem(
            f"the model of run {folder.name} cannot be written as ONNX",
            found=f"it is of kind {kind}",
            expected=f"one of: {', '.join(_NETWORKS)}",
            fix="train one of these, or share the bundle, which tw.load reads",
        )
    )


def _not_exportable(folder: RunFolder, error: Exception) -> Mistake:
    return Mistake(
        Problem(
            f"the network of run {folder.name} cannot be written as ONNX",
            found=(str(error).strip().splitlines() or [type(error).__name__])[0][:200],
            fix="share the bundle, which tw.load reads",
        )
    )


def _differs(folder: RunFolder, difference: float) -> Mistake:
    return Mistake(
        Problem(
            f"the network of run {folder.name} computes something else as ONNX: nothing is written",
            found=f"a largest difference of {difference:.2g} on its test rows",
            expected=f"at most {TOLERANCE:g}",
            fix="share the bundle, which tw.load reads",
        )
    )
