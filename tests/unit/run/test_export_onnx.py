"""Networks of runs as ONNX, run by onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

import polars as pl  # noqa: E402
import torch  # noqa: E402

import trainwright as tw  # noqa: E402
from command import NETWORK, command, write_project  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.contract.sections.model.table_networks import TabularResNet  # noqa: E402
from trainwright.core.files import hash_file  # noqa: E402
from trainwright.data.columns.class_target import Classes, NextToken  # noqa: E402
from trainwright.data.columns.number_target import Numbers  # noqa: E402
from trainwright.model.build_network import build_network  # noqa: E402
from trainwright.model.input_shape import ImageShape, TableShape, TokenShape  # noqa: E402
from trainwright.predictor.calibration import Calibration  # noqa: E402
from trainwright.run.after import export_onnx as export  # noqa: E402

pytestmark = pytest.mark.torch

CLASSES = Classes("y", ("a", "b", "c"), -1)
NUMBERS = Numbers("y", 5.0, 2.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("onnx")
    contract = write_project(root, NETWORK)
    assert command("train", contract, "--runs", root / "runs", "--run", "net").code in (0, 3)
    return root / "runs" / "net"


@pytest.mark.extended
def test_a_run_is_exported_and_gives_what_the_predictor_gives(run: Path, tmp_path: Path) -> None:
    output = tmp_path / "graph\x1b[31m"
    ran = command("weights", "export", run, "--to", "onnx", "-o", output)
    assert ran.code == 0, ran.err
    assert "equal to the predictor on" in ran.out
    assert "\x1b" not in ran.out
    assert sorted(path.name for path in output.iterdir()) == ["export.json", "model.onnx"]
    record = json.loads((output / "export.json").read_text())
    assert record["file"]["sha256"] == hash_file(output / "model.onnx")
    assert record["bundle"] == json.loads((run / "bundle" / "bundle.json").read_text())["files"]
    assert 0 <= record["check"]["largest_difference"] <= record["check"]["tolerance"] == 1e-4
    assert record["check"]["rows"] > 20
    predictor = tw.load(run)
    assert record["calibration"] is None
    assert record["classes"] == list(predictor.target.classes)
    session = runtime.InferenceSession(str(output / "model.onnx"))
    frame = pl.read_csv(run.parent.parent / "rows.csv").head(7)
    for rows in (frame, frame[:1]):
        arrays = predictor.encode(rows)
        feed = {name: arrays[name] for name in record["inputs"]}
        (found,) = session.run([record["output"]], feed)
        expected = predictor.predict(rows).select(pl.selectors.starts_with("probability_"))
        np.testing.assert_allclose(found, expected.to_numpy(), atol=1e-5)
    again = command("weights", "export", run, "--to", "onnx", "-o", output)
    assert again.code == 2
    assert "there already" in again.err


@pytest.mark.extended
def test_a_calibrated_network_is_exported_with_its_map(tmp_path: Path) -> None:
    contract = write_project(tmp_path, NETWORK)
    words = ("--set", "training.calibration=platt", "--set", "training.threshold=0.4")
    ran = command("train", contract, "--runs", tmp_path / "runs", "--run", "net", *words)
    assert ran.code in (0, 3), ran.err
    output = tmp_path / "graph"
    ran = command("weights", "export", tmp_path / "runs" / "net", "--to", "onnx", "-o", output)
    assert ran.code == 0, ran.err
    record = json.loads((output / "export.json").read_text())
    predictor = tw.load(tmp_path / "runs" / "net")
    fitted = Calibration.from_json(record["calibration"])
    assert fitted == predictor.calibration
    assert (fitted.method, fitted.threshold) == ("platt", 0.4)
    frame = pl.read_csv(tmp_path / "rows.csv").head(7)
    arrays = predictor.encode(frame)
    session = runtime.InferenceSession(str(output / "model.onnx"))
    (found,) = session.run(None, {name: arrays[name] for name in record["inputs"]})
    expected = predictor.predict(frame).select(pl.selectors.starts_with("probability_"))
    assert np.abs(found - expected.to_numpy()).max() > 1e-3
    np.testing.assert_allclose(fitted.apply(found), expected.to_numpy(), atol=1e-5)


@pytest.mark.extended
@pytest.mark.parametrize(
    "metric",
    [{"name": "poisson_deviance"}, {"name": "pinball", "quantiles": [0.1, 0.5, 0.9]}],
    ids=["rates", "quantiles"],
)
def test_rates_and_quantiles_are_those_of_the_predictor(
    metric: dict[str, object], tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=200)
    rows = pl.DataFrame({"x": x, "count": draw.poisson(np.exp(1 + x))})
    rows.write_csv(tmp_path / "rows.csv")
    contract = {
        "task": "regression",
        "data": {"path": str(tmp_path / "rows.csv"), "target": "count"},
        "model": {"kind": "mlp", "hidden": [8]},
        "training": {"num_epochs": 2, "batch_size": 32},
        "metric": {"target": "dummy", "resamples": 100, **metric},
    }
    run, output = tw.train(contract, runs=tmp_path / "runs", name="net").folder, tmp_path / "graph"
    ran = command("weights", "export", run, "--to", "onnx", "-o", output)
    assert ran.code == 0, ran.err
    predictor = tw.load(run)
    arrays = predictor.encode(rows.drop("count").head(9))
    session = runtime.InferenceSession(str(output / "model.onnx"))
    (found,) = session.run(None, {one.name: arrays[one.name] for one in session.get_inputs()})
    expected = predictor.predict(rows.drop("count").head(9))
    columns = expected.columns[1:] or ["prediction"]
    np.testing.assert_allclose(found, expected.select(columns).to_numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.extended
def test_what_differs_is_not_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = export._Scoring.forward

    def shifted(self: Any, *arguments: torch.Tensor) -> torch.Tensor:
        return forward(self, *arguments) + 2e-4

    monkeypatch.setattr(export._Scoring, "forward", shifted)
    ran = command("weights", "export", run, "--to", "onnx", "-o", tmp_path / "graph")
    assert ran.code == 2
    assert "nothing is written" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.extended
def test_a_network_that_is_too_large_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_MOST_BYTES", 100)
    ran = command("weights", "export", run, "--to", "onnx", "-o", tmp_path / "graph")
    assert ran.code == 2
    assert "a graph holds at most 100" in ran.err
    assert list(tmp_path.iterdir()) == []


def test_changed_rows_are_refused(tmp_path: Path) -> None:
    contract = write_project(tmp_path, NETWORK)
    assert command("train", contract, "--runs", tmp_path / "runs", "--run", "net").code in (0, 3)
    rows = tmp_path / "rows.csv"
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines, lines[-1]]) + "\n")
    run = tmp_path / "runs" / "net"
    ran = command("weights", "export", run, "--to", "onnx", "-o", tmp_path / "graph")
    assert ran.code not in (0, 2)
    assert "Put the files back" in ran.err
    assert not (tmp_path / "graph").exists()


@pytest.mark.extended
def test_an_edited_contract_does_not_matter(tmp_path: Path) -> None:
    contract = write_project(tmp_path, NETWORK)
    assert command("train", contract, "--runs", tmp_path / "runs", "--run", "net").code in (0, 3)
    contract.write_text("not a contract: [")
    run = tmp_path / "runs" / "net"
    ran = command("weights", "export", run, "--to", "onnx", "-o", tmp_path / "graph")
    assert ran.code == 0, ran.err


@pytest.mark.extended
def test_the_graph_of_a_text_is_checked_on_its_windows(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    (tmp_path / "t.txt").write_text("".join(draw.choice(list("abcde fgh"), size=4000)))
    (tmp_path / "contract.yaml").write_text(
        "data: {kind: tokens, path: t.txt}\ntraining: {num_epochs: 1}\n"
        "model: {kind: gpt, layers: 1, heads: 2, width: 16, context: 16}\n"
    )
    words = (tmp_path / "contract.yaml", "--runs", tmp_path / "runs", "--run", "text")
    assert command("train", *words).code in (0, 3)
    run, output = tmp_path / "runs" / "text", tmp_path / "graph"
    ran = command("weights", "export", run, "--to", "onnx", "-o", output)
    assert ran.code == 0, ran.err
    record = json.loads((output / "export.json").read_text())
    assert record["inputs"] == {"tokens": {"type": "tensor(int64)", "shape": ["batch", "length"]}}
    assert record["check"]["rows"] > 10


def test_another_model_is_refused_with_those_that_can(tmp_path: Path) -> None:
    contract = write_project(tmp_path)
    assert command("train", contract, "--runs", tmp_path / "runs", "--run", "one").code in (0, 3)
    run, output = tmp_path / "runs" / "one", tmp_path / "graph"
    ran = command("weights", "export", run, "--to", "onnx", "-o", output)
    assert ran.code == 2
    assert "one of: mlp, tabular_resnet, resnet, gpt" in ran.err
    assert not output.exists()
    both = command("weights", "export", run, "--to", "onnx", "--step", "3", "-o", output)
    assert both.code == 2


def test_a_missing_package_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "trainwright.core.lazy_imports.find_spec",
        lambda name: None if name == "onnxscript" else name,
    )
    ran = command("weights", "export", run, "--to", "onnx")
    assert ran.code != 0
    assert "pip install 'trainwright[torch,onnx]'" in ran.err


@pytest.mark.extended
@pytest.mark.parametrize("name", ["tabular_resnet", "resnet", "gpt"])
def test_every_network_is_exported_with_a_free_batch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    draw = np.random.default_rng(0)
    section: Any
    shape: Any
    match name:
        case "tabular_resnet":
            section, target = TabularResNet(kind="tabular_resnet"), NUMBERS
            shape = TableShape(3, (4, 2), 1)
            arrays = {
                "numeric": draw.normal(size=(9, 3)).astype(np.float32),
                "categories": draw.integers(0, 2, size=(9, 2)),
            }
        case "resnet":
            section, target = ResNet(kind="resnet"), CLASSES
            shape = ImageShape((1, 12, 12), (30.0,), (50.0,), 3)
            arrays = {"pixels": draw.integers(0, 256, size=(9, 1, 12, 12)).astype(np.uint8)}
        case _:
            section = Gpt(kind="gpt", width=16, heads=2, layers=2, context=12)
            shape, target = TokenShape(20), NextToken(20)
            arrays = {"tokens": draw.integers(0, 20, size=(9, 12))}
    network = build_network(section, shape).eval()
    file = tmp_path / "model.onnx"
    inputs = export.write_graph(network, shape, target, section.context_length, file)
    assert set(inputs) <= set(arrays)
    assert all(one["shape"][0] == "batch" for one in inputs.values())
    batches = []
    for rows, length in ((1, 12), (2, 5), (9, 12)):
        some = {key: value[:rows] for key, value in arrays.items()}
        if "tokens" in some:
            some = {"tokens": some["tokens"][:, :length]}
        with torch.no_grad():
            out = network(*(torch.from_numpy(value) for value in some.values())).numpy()
        if target is NUMBERS:
            out = out * 2.0 + 5.0
        if target is CLASSES:
            out = np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
        batches.append((some, out))
    rows, difference = export.compare_with_graph(file, batches)
    assert rows == 12
    assert difference < 1e-5
