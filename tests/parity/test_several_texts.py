"""Encoders of texts with several targets: the loss and the training of transformers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import nn  # noqa: E402

from canary import Killed  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from made_texts import sentences, write_base, write_text_project  # noqa: E402
from trainwright.data.base.token_inputs import TextInputs  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.screen import StreamScreen  # noqa: E402
from trainwright.run.train import train as train_whole  # noqa: E402

pytestmark = pytest.mark.torch

LABELS = ("data.target=tags", 'data.labels={separator: ";", empty: none}', "metric.name=f1_micro")
FEW = ("metric.resamples=100", "data.quality.look=quick")
NUMBERS = ("data.target=[length, weight]", "metric.name=r2", "data.exclude=[tags]")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))


def project(folder: Path) -> Path:
    """Sentences with what they say as labels, and two numbers of them."""
    contract = write_text_project(folder)
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    write_base(folder / "still", **still)
    lines = sentences(120)
    tags = [
        ";".join(["good"] * is_good + ["long"] * (len(line.split()) > 5) + ["odd"] * (at % 5 == 0))
        for at, (line, is_good) in enumerate(lines)
    ]
    rows = {
        "line": [line for line, _ in lines],
        "tags": tags,
        "length": [len(line) for line, _ in lines],
        "weight": [1000.0 * is_good + at % 7 for at, (_, is_good) in enumerate(lines)],
    }
    pl.DataFrame(rows).write_csv(folder / "rows.csv")
    return contract


def settings(what: tuple[str, ...]) -> tuple[str, ...]:
    others = ("data.exclude=[length, weight]",) if what is LABELS else ()
    task = "multilabel" if what is LABELS else "regression"
    return (
        f"task={task}",
        "model.architecture=still",
        "training.num_epochs=2",
        *FEW,
        *what,
        *others,
    )


def losses_by_hand(base: Path, run: Run, problem: str) -> list[float]:
    """The losses of transformers' own model and loss, trained on the same batches."""
    target = torch.tensor(run.ready.prepared.train.target, dtype=torch.float64)
    if problem == "regression":
        target = (target - target.mean(dim=0)) / target.std(dim=0, correction=0)
    torch.manual_seed(run.ready.plan.contract.seed)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=target.shape[1], problem_type=problem, dtype=torch.float32
    ).train()
    inputs = TextInputs.of_kind(run.ready.prepared.train.inputs)
    found, order = [], run.job.feed.order  # type: ignore[attr-defined]
    for step in range(3):
        rows = order.at(0, 16 * step, 16 * (step + 1))
        texts = [
            torch.from_numpy(
                inputs.tokens[inputs.starts[row] :][: inputs.lengths[row]].astype(np.int64)
            )
            for row in rows
        ]
        ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=inputs.pad)
        mask = nn.utils.rnn.pad_sequence([torch.ones_like(one) for one in texts], batch_first=True)
        labels = target[torch.from_numpy(rows)].float()
        found.append(model(ids, mask, labels=labels).loss.item())
    return found


@pytest.mark.parametrize("what", [LABELS, NUMBERS], ids=["labels", "numbers"])
def test_the_loss_is_that_of_transformers(what: tuple[str, ...], tmp_path: Path) -> None:
    contract = project(tmp_path)
    # Weights that do not move, so that every step has the loss of the same model.
    still = ("training.optimizer={name: sgd, learning_rate: 1e-30}", "training.num_epochs=1")
    run = train(contract, "run", *settings(what), *still)
    problem = "multi_label_classification" if what is LABELS else "regression"
    expected = losses_by_hand(tmp_path / "still", run, problem)
    np.testing.assert_allclose(run.signals["loss"][:3], expected, rtol=1e-5)


@pytest.mark.extended
def test_a_bundle_of_labels_is_read_by_transformers(tmp_path: Path) -> None:
    contract = project(tmp_path)
    request = Request(contract, settings(LABELS), tmp_path / "runs", "one")
    result = train_whole(request, StreamScreen(io.StringIO()))
    bundle = result.folder.bundle
    config = json.loads((bundle / "config.json").read_text(encoding="utf-8"))
    assert config["problem_type"] == "multi_label_classification"
    assert config["id2label"] == {"0": "good", "1": "long", "2": "odd"}
    lines = [line for line, _ in sentences(5, seed=5)]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(bundle).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(bundle)(
        lines, padding=True, return_tensors="pt"
    )
    with torch.no_grad():
        chances = model(tokens["input_ids"], tokens["attention_mask"]).logits.sigmoid()
    ours = read_bundle(bundle).predict_frame(pl.DataFrame({"line": lines}))
    names = [f"probability_{name}" for name in ("good", "long", "odd")]
    np.testing.assert_allclose(ours.select(names).to_numpy(), chances.numpy(), atol=1e-6)
    assert {one.name for one in result.evaluation.targets} == {"good", "long", "odd"}


def test_a_cut_changes_no_bit(tmp_path: Path) -> None:
    contract = project(tmp_path)
    changed = (*settings(LABELS), "training.checkpointing.save_every_n_steps=2")
    whole = train(contract, "whole", *changed)
    with pytest.raises(Killed):
        train(contract, "cut", *changed, dies_at=5)
    assert bits(train(contract, "cut", *changed)) == bits(whole)
