"""Export of a run's network as ONNX in 8 bits, judged again before it is written. Needs torch and
onnx."""

from __future__ import annotations

import io
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, damage_in, hash_file, read_json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, Inputs
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.naive_forecasts import forecast_naively
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.verdict import Verdict, judge
from trainwright.predictor.network_scorer import NetworkScorer
from trainwright.predictor.predictor import Predictor
from trainwright.run.after.explain_run import prepare_again
from trainwright.run.after.export_onnx import (
    MODEL,
    RECORD,
    check_free,
    export_onnx,
    open_session,
    place_graph,
)
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.model_files import read_baselines
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.judging.judge_purpose import HELD
from trainwright.run.run_context import Result
from trainwright.run.screen import StreamScreen
from trainwright.tracking.run_folder import RunFolder

_QUANTISED = ("MatMul", "Gemm", "Gather")
_CONVOLVES = "Conv"
_ORDER = ("met", "undecided", "missed")
"""From the best status of a clause to the worst."""
_ROWS = 1024


@final
@dataclass(frozen=True, slots=True)
class Int8Export:
    """How a graph of 8 bits is judged; `fallen` names the clauses that are worse than those of the
    run, of which nothing is written. `size_ratio` is its size over that of a graph of 32 bits."""

    result: Result
    fallen: tuple[str, ...]
    size_ratio: float


def export_int8(folder: RunFolder, output: Path) -> Int8Export:
    """Write the network of a judged run as a graph whose weights have 8 bits, to the new folder
    `output`, unless a clause of its verdict falls. Matrices have a scale for each column, their
    inputs one for each batch, found as it comes (dynamic quantisation; Jacob et al. 2018,
    arXiv:1712.05877, section 2). The clauses are judged on the test rows; limits of `serving` are
    of the bundle and are not.

    Raises:
        Mistake: as `export_onnx`; or the run was judged by folds or by questions, or its network
            convolves.
            DataChanged: the rows of the run are no longer those that it was judged on.
            StorageFailed: the disk.
    """
    check_free(output)
    before = _judged_alone(folder)
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        whole = Path(scratch) / "whole"
        export_onnx(folder, whole)
        small = Path(scratch) / MODEL
        _quantize(whole / MODEL, small, folder)
        result = _judge_again(folder, small, before)
        ratio = small.stat().st_size / (whole / MODEL).stat().st_size
        fallen = _fallen(before, result.verdict)
        if not fallen:
            record = _record(read_json(whole / RECORD), small, result)
            place_graph(small, record, output)
    return Int8Export(result, fallen, ratio)


def _judged_alone(folder: RunFolder) -> Verdict:
    """The verdict of a run whose model alone was judged."""
    verdict = read_judged(folder).verdict
    with damage_in(folder.evaluation):
        folds = len(read_json(folder.evaluation)["by_fold"]["folds"])
    if folds:
        raise Mistake(
            Problem(
                f"the verdict of run {folder.name} is that of the models of its folds, which are "
                "not kept",
                found=f"{folds} folds",
                expected="a run with test rows of its own",
                fix="write it with 32 bits: --to onnx",
            )
        )
    if questions := read_planned(folder).questions:
        raise Mistake(
            Problem(
                f"the verdict of run {folder.name} rests on questions, which a graph is not asked",
                found=many(len(questions), "set of questions", "sets of questions"),
                expected="a run without questions in its contract",
                fix="write it with 32 bits: --to onnx",
            )
        )
    return verdict


def _quantize(whole: Path, small: Path, folder: RunFolder) -> None:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load(str(whole))
    kinds = {node.op_type for node in model.graph.node}
    if _CONVOLVES in kinds or not kinds & set(_QUANTISED):
        raise Mistake(
            Problem(
                f"the network of run {folder.name} cannot be written in 8 bits",
                found="convolutions" if _CONVOLVES in kinds else "no matrices",
                expected="a network of matrices, model.kind: mlp, tabular_resnet or gpt",
                fix="write it with 32 bits: --to onnx",
            )
        )
    # Shapes of matrices, which are turned.
    del model.graph.value_info[:]
    # It advises to preprocess graphs of older exporters.
    logging.disable(logging.WARNING)
    try:
        quantize_dynamic(
            model,
            str(small),
            op_types_to_quantize=list(_QUANTISED),
            per_channel=True,
            weight_type=QuantType.QInt8,
            # Processors without VNNI add two products in 16 bits, which 8 bits of weights overflow.
            reduce_range=True,
        )
    finally:
        logging.disable(logging.NOTSET)


def _judge_again(folder: RunFolder, file: Path, before: Verdict) -> Result:
    """Metrics and clauses of a graph on the test rows of its run."""
    why = "the exported file is judged on the rows that the run was judged on"
    ready = prepare_again(folder, StreamScreen(io.StringIO()), why)
    contract, prepared = read_planned(folder), ready.prepared
    own = read_own_bundle(folder)
    predictor = Predictor(own.features, own.target, _scorer(own, file), own.calibration)
    part = prepared.test
    scores = predictor.score(predictor.inputs_of(part, prepared.features))
    scored = Scored(
        part=part,
        target=own.target,
        scores=scores,
        decided=predictor.decide(scores),
        baselines=_baselines(folder, prepared, ready.plan.contract.data),
    )
    evaluation = evaluate(scored, contract.metric, contract.slices, contract.seed)
    is_linear = contract.model.may_be_linear
    verdict = judge(contract.metric, contract.slices, evaluation, is_linear=is_linear)
    # What a purpose demands is held by the run, in whatever format its network is written.
    verdict = verdict.with_clauses([one for one in before.clauses if one.metric == HELD])
    if before.status == "invalid":
        # What a finding changes is of the data.
        verdict = verdict.with_experiments(before.experiments)
    return Result(folder, evaluation, verdict, {})


def _baselines(folder: RunFolder, prepared: Prepared, data: Any) -> dict[str, Floats]:
    kept = {name: one.score_part(prepared.test) for name, one in read_baselines(folder).items()}
    return {**kept, **forecast_naively(prepared, data)}


def _scorer(own: Predictor, file: Path) -> _TableGraph | NetworkScorer:
    scorer = own.scorer
    assert isinstance(scorer, NetworkScorer), "it was written as a graph"
    if own.target.task == "generation":
        network = _TokenGraph(file).eval()
        return NetworkScorer(scorer.section, scorer.shape, own.target, network)
    return _TableGraph(file)


@final
class _TokenGraph(nn.Module):
    """The network of a graph of tokens."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._session = open_session(file)
        # A scorer asks where the parameters of its network lie.
        self.place = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits [B, L, V] of tokens [B, L]."""
        (name,) = [one.name for one in self._session.get_inputs()]
        (found,) = self._session.run(None, {name: tokens.numpy()})
        return torch.from_numpy(found)


@final
class _TableGraph:
    """Scores of a graph that computes them itself."""

    kind = "network"

    def __init__(self, file: Path) -> None:
        self._session = open_session(file)

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], values [N, 1] or quantiles [N, K]."""
        names = [one.name for one in self._session.get_inputs()]
        found = []
        for start in range(0, len(inputs), _ROWS):
            arrays = inputs.arrays(start, start + _ROWS)
            found.append(self._session.run(None, {name: arrays[name] for name in names})[0])
        return np.concatenate(found).astype(np.float64)

    def write(self, folder: Path) -> None:
        """A graph is in no bundle."""
        raise AssertionError(f"nothing of a graph is written to {folder}")


def _fallen(before: Verdict, after: Verdict) -> tuple[str, ...]:
    """Clauses whose status is worse than it was."""
    now = {one.name: one.status for one in after.clauses}
    return tuple(
        f"{one.name}: {one.status}, and {now[one.name]} in 8 bits"
        for one in before.clauses
        if one.name in now and _ORDER.index(now[one.name]) > _ORDER.index(one.status)
    )


def _record(record: Json, small: Path, result: Result) -> Json:
    """The record of the graph of 32 bits, with what is known of that of 8."""
    return {
        **record,
        "file": {"name": MODEL, "sha256": hash_file(small), "size_bytes": small.stat().st_size},
        "check": {
            "part": "test",
            "weights": "int8, a scale for each column",
            "metrics": result.evaluation.to_json()["metrics"],
            "verdict": result.verdict.to_json(),
        },
    }
