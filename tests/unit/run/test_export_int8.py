"""Networks of runs as ONNX in 8 bits, judged again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

import polars as pl  # noqa: E402

import trainwright as tw  # noqa: E402
from command import NETWORK, command, inside, write_project  # noqa: E402
from made_decoders import write_decoder_project  # noqa: E402
from stopped_runs import run_of  # noqa: E402
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.evaluation.verdict import Verdict  # noqa: E402
from trainwright.run.after import export_int8  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402

pytestmark = pytest.mark.torch

INT8 = ("--to", "onnx-int8", "-o", "small")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("int8")
    longer = NETWORK.replace("[16, 8]", "[256, 128]").replace("num_epochs: 4", "num_epochs: 15")
    contract = write_project(root, longer, rows=1200)
    assert command("train", contract, "--runs", root / "runs", "--run", "net").code in (0, 3)
    return root


@pytest.mark.extended
def test_a_network_of_a_table_is_judged_again_and_smaller(project: Path) -> None:
    judged = read_json(project / "runs" / "net" / "evaluation.json")
    with inside(project):
        ran = command("weights", "export", "net", *INT8)
        again = command("weights", "export", "net", *INT8)
    assert ran.code == (0 if judged["verdict"]["status"] == "met" else 3), ran.err
    assert again.code == 2
    record = json.loads((project / "small" / "export.json").read_text())
    file = project / "small" / "model.onnx"
    assert record["file"]["sha256"] == hash_file(file)
    assert record["check"]["verdict"]["status"] == judged["verdict"]["status"]
    weights = sum(one.stat().st_size for one in (project / "runs/net/bundle").glob("*.safetensors"))
    assert file.stat().st_size < 0.5 * weights
    # It is another function, and a near one; what is recorded is of it.
    frame, predictor = pl.read_csv(project / "rows.csv").head(50), tw.load(project / "runs/net")
    arrays = predictor.encode(frame)
    session = runtime.InferenceSession(str(file))
    (found,) = session.run(None, {name: arrays[name] for name in record["inputs"]})
    expected = predictor.predict(frame).select(pl.selectors.starts_with("probability_")).to_numpy()
    assert 1e-6 < np.abs(found - expected).max() < 0.1
    name = judged["verdict"]["clauses"][0]["metric"]
    kept, now = judged["evaluation"]["metrics"][name], record["check"]["metrics"][name]
    assert now["value"] == pytest.approx(kept["value"], abs=0.1)


@pytest.mark.extended
def test_a_verdict_that_falls_writes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = read_json(project / "runs" / "net" / "evaluation.json")
    assert judged["verdict"]["status"] == "met"

    class Constant:
        kind = "network"

        def __init__(self, file: Path) -> None:
            assert file.is_file()

        def score(self, inputs: object) -> np.ndarray:
            return np.full((len(inputs), 2), 0.5)  # type: ignore[arg-type]

    monkeypatch.setattr(export_int8, "_TableGraph", Constant)
    with inside(project):
        ran = command("weights", "export", "net", "--to", "onnx-int8", "-o", "fallen")
    assert ran.code == 3
    assert "the verdict falls in 8 bits: nothing is written" in ran.err
    assert "met, and " in ran.err
    assert not (project / "fallen").exists()


@pytest.mark.extended
def test_a_decoder_is_judged_by_its_graph(tmp_path: Path) -> None:
    contract = write_decoder_project(tmp_path)
    run = run_of(contract, "tale", "training.optimizer.learning_rate=0.01")
    judged = read_json(run / "evaluation.json")
    with inside(tmp_path):
        ran = command("weights", "export", "tale", *INT8)
    assert ran.code == (0 if judged["verdict"]["status"] == "met" else 3), ran.err
    record = json.loads((tmp_path / "small" / "export.json").read_text())
    kept = judged["evaluation"]["metrics"]["perplexity"]["value"]
    now = record["check"]["metrics"]["perplexity"]["value"]
    assert now != kept
    assert now == pytest.approx(kept, rel=0.1)


def test_convolutions_are_refused(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "images", [], [])
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "whole.onnx"))
    with pytest.raises(Mistake, match="cannot be written in 8 bits"):
        export_int8._quantize(
            tmp_path / "whole.onnx", tmp_path / "small.onnx", RunFolder(tmp_path / "run")
        )


def test_a_verdict_that_rests_on_questions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "asked")
    folder.evaluation.parent.mkdir(parents=True)
    folder.evaluation.write_text('{"by_fold": {"folds": []}}')
    verdict = Verdict("met", ())
    monkeypatch.setattr(export_int8, "read_judged", lambda _: SimpleNamespace(verdict=verdict))
    planned = SimpleNamespace(questions=())
    monkeypatch.setattr(export_int8, "read_planned", lambda _: planned)
    assert export_int8._judged_alone(folder) is verdict
    planned.questions = ("one", "two")
    with pytest.raises(Mistake, match="rests on questions") as caught:
        export_int8._judged_alone(folder)
    assert caught.value.problems[0].found == "2 sets of questions"


@pytest.mark.extended
def test_folds_are_refused(project: Path, tmp_path: Path) -> None:
    folded = ("--set", "data.split={kind: stratified, folds: 2, validation: 0.2}")
    contract = project / "small.yaml"
    ran = command("train", contract, "--runs", project / "runs", "--run", "folded", *folded)
    assert ran.code in (0, 3), ran.err
    with inside(project):
        ran = command("weights", "export", "folded", "--to", "onnx-int8", "-o", tmp_path / "out")
    assert ran.code == 2
    assert "models of its folds" in ran.err
    assert not (tmp_path / "out").exists()
    assert "fix: write it with 32 bits: --to onnx" in ran.err
    with inside(project):
        ran = command("weights", "export", "folded", "--to", "onnx", "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
