"""The contract of the guide on features: trained, judged, predicted with, killed and resumed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")

import trainwright as tw
from canary import Killed
from contract_runs import bits, train
from faults.tiers import in_test
from guide import GUIDE, blocks
from real_data import real_data
from trainwright.core.errors import DataMistake
from trainwright.run.after.evaluate_rows import evaluate_rows, predict_file
from trainwright.tracking.run_folder import RunFolder

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("whole_pages")]

PAGE = GUIDE / "features.md"
WORDS = ("sunny", "rainy", "market", "closed", "holiday", "sale")


def sales(file: Path, days: int = 150) -> None:
    draw = np.random.default_rng(2)
    rows = days * 2
    day = np.arange(rows) // 2
    level = 20 + 5 * np.sin(2 * np.pi * day / 7) + 8 * (np.arange(rows) % 2)
    dates = pl.Series(day).cast(pl.Int32).cast(pl.Date).dt.offset_by("50y")
    pl.DataFrame(
        {
            "day": dates.cast(pl.String),
            "shop": ["north" if v % 2 else "south" for v in range(rows)],
            "weekday_name": dates.dt.strftime("%A"),
            "price": np.round(np.exp(draw.normal(2, 1, rows)), 2),
            "note": [" ".join(WORDS[v] for v in draw.integers(0, 6, 4)) for _ in range(rows)],
            "sold": np.round(level + draw.normal(0, 1, rows), 2),
        }
    ).write_csv(file)


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    (tmp_path / "contract.yaml").write_text(blocks(PAGE, "yaml")[0])
    sales(tmp_path / "sales.csv")
    return tmp_path / "contract.yaml"


def notes(file: Path, documents: int = 500) -> None:
    draw = np.random.default_rng(6)
    file.write_text(
        "".join(
            " ".join(WORDS[v] for v in draw.integers(0, 6, draw.integers(2, 12))) + "\n\n"
            for _ in range(documents)
        )
    )


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "contract.yaml").write_text(blocks(PAGE, "yaml")[1])
    notes(tmp_path / "notes.txt")
    return tmp_path / "contract.yaml"


@pytest.mark.parametrize(
    "model",
    in_test(
        3,
        [
            "model={kind: mlp, hidden: [16]}",
            "model={kind: linear}",
            "model={kind: boosting, max_trees: 20}",
        ],
    ),
)
def test_it_trains_judges_and_predicts_the_same_from_its_bundle(
    contract: Path, tmp_path: Path, model: str
) -> None:
    if "mlp" not in model:
        text = contract.read_text()
        contract.write_text(re.sub(r"training: .*\n", "", text))
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[model, "metric.resamples=100"])
    file = tmp_path / "sales.csv"
    frame = pl.read_csv(file)
    predicted = predict_file(RunFolder(result.folder), file).frame
    assert len(predicted) == len(frame)
    # The judged rows are the file's last; their error is the verdict's, so they were encoded alike.
    judged = evaluate_rows(RunFolder(result.folder), file)
    rows = result.evaluation.rows
    last = frame.tail(rows)["sold"].to_numpy() - predicted.tail(rows)["prediction"].to_numpy()
    assert np.sqrt((last**2).mean()) == pytest.approx(
        result.evaluation.metrics["rmse"].value, rel=1e-6
    )
    assert judged.evaluation.rows == len(frame)
    again = tw.load(result.folder / "bundle").predict(frame)
    assert again.equals(predicted)
    with pytest.raises(DataMistake, match="no row has an earlier row"):
        tw.load(result.folder / "bundle").predict(frame.tail(1))


@pytest.mark.parametrize("death", [1, 5])
def test_a_killed_run_goes_on_to_the_same_bits(contract: Path, death: int) -> None:
    steps = ("training.checkpointing.save_every_n_steps=2", "training.batch_size=32")
    whole = train(contract, "whole", *steps)
    with pytest.raises(Killed):
        train(contract, "cut", *steps, dies_at=death)
    resumed = train(contract, "cut", *steps)
    assert bits(whole) == bits(resumed)
    assert whole.ready.prepared.version == resumed.ready.prepared.version
    names = whole.ready.prepared.table.numeric_names
    assert {"sold (lag 7)", "price (std of 28)", "shop (mean)", "day (weekday sin)"} <= set(names)
    assert "note (direction 8)" not in names[:8]


@pytest.mark.extended
def test_packed_documents_come_to_their_verdict(text: Path, tmp_path: Path) -> None:
    quick = ["metric.resamples=100", "tracking.windows.every_n_steps=8"]
    result = tw.train(text, runs=tmp_path / "runs", overrides=quick)
    folder = RunFolder(result.folder)
    notes(tmp_path / "more.txt", documents=60)
    judged = evaluate_rows(folder, tmp_path / "more.txt")
    assert judged.evaluation.units == 60
    value = judged.evaluation.metrics["nats_per_token"].value
    assert value == pytest.approx(result.evaluation.metrics["nats_per_token"].value, rel=0.1)
    assert value < result.evaluation.baselines["dummy"]["nats_per_token"].value
    found = {one["kind"]: one["message"] for one in json.loads(folder.preflight.read_text())}
    assert re.search(r"documents in \d+ windows of 32: \d+.\d% padding", found["packing"])
    lines = [json.loads(line) for line in folder.windows.read_text().splitlines()]
    assert all(0 <= line["numbers"]["padding"] < 0.2 for line in lines)


def test_padded_documents_come_to_their_verdict(text: Path, tmp_path: Path) -> None:
    quick = [
        *("metric.resamples=100", "tracking.windows.every_n_steps=8"),
        *("data.windows=padded", "data.long_documents=cut", "model.context=8"),
        *("training.batch_size=4", "training.gradient_accumulation_steps=2"),
        "training.num_epochs=2",
    ]
    result = tw.train(text, runs=tmp_path / "runs", overrides=quick)
    folder = RunFolder(result.folder)
    evaluation = result.evaluation
    value = evaluation.metrics["nats_per_token"].value
    assert value < evaluation.baselines["dummy"]["nats_per_token"].value
    notes(tmp_path / "more.txt", documents=60)
    assert evaluate_rows(folder, tmp_path / "more.txt").evaluation.units == 60
    found = {one["kind"]: one for one in json.loads(folder.preflight.read_text())}["padding"]
    match = re.search(r"(\S+)% padding with (\d+) buckets, (\S+)% without", found["message"])
    assert match is not None
    padding, buckets, without = map(float, match.groups())
    assert buckets > 1
    assert padding < without
    lost = re.search(r"(\d+) documents \(\S+\) cut, (\S+)% of the tokens lost", found["message"])
    assert lost is not None
    assert (found["severity"], found["count"]) == ("warning", int(lost[1]))
    assert int(lost[1]) > 0
    plan = json.loads(folder.plan.read_text())
    (choice,) = [one for one in plan["choices"] if one["path"] == "data.padding.buckets"]
    assert choice["value"] == buckets == plan["contract"]["data"]["padding"]["buckets"]
    assert choice["measured"]["tokens_lost"] == pytest.approx(float(lost[2]) / 100, abs=5e-4)
    assert choice["measured"]["without_buckets"] > choice["measured"]["padding"]
    lines = [json.loads(line) for line in folder.windows.read_text().splitlines()]
    mean = np.mean([line["numbers"]["padding"] for line in lines])
    # Of micro-batches, of which a step has two, as the check measures it.
    assert mean == pytest.approx(padding / 100, abs=0.03)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("data.windows=across",),
        ("data.windows=padded", "data.padding.max_tokens=64"),
        ("data.windows=padded", "training.ramps.batch={start: 4, samples: 90}"),
        ("data.long_documents=cut", "model.context=8"),
        ("training.ramps.sequence={samples: 60, start: 8}",),
    ],
)
def test_a_killed_run_of_documents_goes_on_to_the_same_bits(
    text: Path, more: tuple[str, ...]
) -> None:
    steps = ("training.checkpointing.save_every_n_steps=2", "training.num_epochs=1", *more)
    whole = train(text, "whole", *steps)
    with pytest.raises(Killed):
        train(text, "cut", *steps, dies_at=3)
    resumed = train(text, "cut", *steps)
    assert bits(whole) == bits(resumed)
    assert whole.ready.prepared.version == resumed.ready.prepared.version


def test_the_script_writes_a_token_file_that_trains_to_the_same_bits(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (script,) = blocks(PAGE, "python")
    exec(script, {})
    steps = ("training.num_epochs=1", "data.vocabulary_size=4096")
    of_text = train(text, "text", *steps)
    contract = text.read_text().replace("notes.txt", "notes.tokens")
    text.write_text(contract)
    assert bits(train(text, "tokens", *steps)) == bits(of_text)


SMS = """
name: sms
task: classification
data: {path: sms.csv, target: label, positive: spam, columns: {text: {kind: text}}}
model: {kind: linear}
metric: {name: accuracy, target: 0.94, resamples: 100}
"""
ETT = """
name: ett
task: regression
data:
  path: ETTh1.csv
  target: OT
  split: {kind: time, column: date}
  features: {history: {time: date, columns: [OT], lags: [1, 24], windows: [24]}}
model: {kind: boosting, max_trees: 150, learning_rate: 0.1}
metric: {name: rmse, target: 1.2, resamples: 100}
"""


@pytest.mark.extended
def test_the_messages_of_sms_spam_are_told_apart_by_their_terms(tmp_path: Path) -> None:
    """Word counts and logistic regression reach an accuracy of 0.967 (README of the set)."""
    source = real_data("sms-spam") / "SMSSpamCollection.tsv"
    rows = [line.split("\t", 1) for line in source.read_text(encoding="utf-8").split("\n") if line]
    labels, texts = zip(*rows, strict=True)
    pl.DataFrame({"label": labels, "text": texts}).write_csv(tmp_path / "sms.csv")
    (tmp_path / "contract.yaml").write_text(SMS)
    result = tw.train(tmp_path / "contract.yaml", runs=tmp_path / "runs")
    assert result.evaluation.metrics["accuracy"].value > 0.955


@pytest.mark.extended
def test_the_past_tells_the_temperature_of_etth1(tmp_path: Path) -> None:
    """Without it the error is ten times as large: the load of the moment says little."""
    shutil.copy(real_data("etth1") / "ETTh1.csv", tmp_path)
    (tmp_path / "contract.yaml").write_text(ETT)
    result = tw.train(tmp_path / "contract.yaml", runs=tmp_path / "runs")
    assert result.evaluation.metrics["rmse"].value < 1.0
