"""Mixtures of texts in whole runs: resumed, with workers, limited by tokens, and
judged source by source."""

from __future__ import annotations

import io
import json
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import trainwright as tw
from canary import Killed
from contract_runs import bits, train
from guide import GUIDE, blocks
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Mistake
from trainwright.data.base.counter_rng import Positions
from trainwright.data.sampling.samplers import GroupSampler
from trainwright.doctor.preflight import preflight
from trainwright.run.after.evaluate_rows import evaluate_rows
from trainwright.run.compose.compose_feed import build_feed
from trainwright.run.compose.schedule_length import length_of
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.event_log import read_events
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

CONTRACT = """
name: mixed
data:
  kind: tokens
  path: texts.jsonl
  text: body
  validation: 0.1
  test: 0.1
  sampling: {kind: mixture, column: corpus, weights: {few: 1.0, many: 2.0}}
model: {kind: gpt, layers: 1, heads: 2, width: 8, context: 16, dropout: 0.1}
training: {num_epochs: 2, batch_size: 32, early_stopping: off,
           optimizer: {learning_rate: 0.01}, checkpointing: {save_every_n_steps: 1}}
metric: {name: nats_per_token, resamples: 100}
slices: [{column: source}]
"""
STEPS = 8
"""More than an epoch of each way of windows has, in steps of 32 rows."""
ways = pytest.mark.parametrize("windows", ["across", "packed", "padded"])


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    draw = np.random.default_rng(8)
    rows = []
    for at in range(200):
        name, letters = ("few", "ab") if at % 4 == 0 else ("many", "wxyz")
        body = "".join(draw.choice(list(letters), draw.integers(8, 17)))
        rows.append(json.dumps({"body": body, "corpus": name}))
    (tmp_path / "texts.jsonl").write_text("\n".join(rows) + "\n")
    (tmp_path / "contract.yaml").write_text(CONTRACT)
    return tmp_path / "contract.yaml"


def as_folder(contract: Path) -> None:
    """The same documents as files in a folder for each source."""
    for at, line in enumerate((contract.parent / "texts.jsonl").read_text().splitlines()):
        row = json.loads(line)
        file = contract.parent / "texts" / row["corpus"] / f"{at:03}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(row["body"])
    text = contract.read_text().replace("path: texts.jsonl\n  text: body", "path: texts")
    contract.write_text(text.replace("column: corpus, ", ""))


def ready_for(contract: Path, *overrides: str) -> Ready:
    return make_ready(Request(contract, overrides), StageTimes(), StreamScreen(io.StringIO()))


@ways
def test_a_run_goes_on_from_where_it_died_to_the_same_bits(windows: str, contract: Path) -> None:
    short = (f"data.windows={windows}", f"training.stop.max_steps={STEPS}")
    whole = train(contract, "whole", *short)
    assert (whole.ended.progress.step, whole.ended.progress.epoch) == (STEPS, 1)
    for death in (1, 4, 5, STEPS - 1):
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", *short, dies_at=death)
        again = train(contract, f"cut-{death}", *short)
        assert bits(again) == bits(whole)
        assert again.signals["loss"] == whole.signals["loss"]


@pytest.mark.extended
@ways
def test_workers_files_and_micro_batches_change_nothing(windows: str, contract: Path) -> None:
    # What is dropped out depends on the batches; all else does not.
    told = (f"data.windows={windows}", f"training.stop.max_steps={STEPS}", "model.dropout=0.0")
    of_column = train(contract, "column", *told)
    with_workers = train(contract, "workers", *told, "data.num_workers=2")
    as_folder(contract)
    of_folder = train(contract, "folder", *told)
    assert bits(with_workers) == bits(of_column) == bits(of_folder)
    halves = ("training.batch_size=16", "training.gradient_accumulation_steps=2")
    in_halves = train(contract, "halves", *told, *halves)
    assert in_halves.signals["loss"] == pytest.approx(of_column.signals["loss"], rel=1e-4)


@ways
def test_the_plan_knows_how_many_rows_there_are(windows: str, contract: Path) -> None:
    ready = ready_for(contract, f"data.windows={windows}")
    feed = build_feed(ready.plan.contract, ready.prepared, torch.device("cpu"))
    assert ready.plan.estimate.train_rows == feed.rows
    (drawn,) = (np.bincount(feed.order.at(0, 0, feed.rows), minlength=feed.rows),)
    assert drawn.sum() == feed.rows
    assert drawn.max() > 1


def test_a_limit_of_tokens_counts_those_that_are_drawn(contract: Path) -> None:
    padded = "data.windows=padded"
    ready = ready_for(contract, padded)
    feed = build_feed(ready.plan.contract, ready.prepared, torch.device("cpu"))
    counted = list(accumulate(feed.next_step().targets for _ in range(STEPS + 1)))
    for at in (0, STEPS - 1):
        for tokens, steps in ((counted[at], at + 1), (counted[at] + 1, at + 2)):
            limit = f"training.stop.max_tokens={tokens}"
            run = train(contract, f"{tokens}-tokens", padded, limit)
            assert run.ended.progress.step == steps


def test_a_limit_that_no_epoch_reaches_is_looked_for_in_the_run_alone(
    contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = ("data.windows=padded", "training.stop.max_tokens=1000000000000000")
    ready = ready_for(contract, *far)
    plan = ready.plan.contract
    feed = build_feed(plan, ready.prepared, torch.device("cpu"))
    epochs, at, seen = settled(plan.training.num_epochs), GroupSampler.at, []

    def watched(draws: GroupSampler, epoch: int, start: int, stop: int) -> Positions:
        assert epoch < epochs
        seen.append(epoch)
        return at(draws, epoch, start, stop)

    monkeypatch.setattr(GroupSampler, "at", watched)
    length = length_of(plan, feed)
    assert seen == list(range(epochs))
    assert length.most_steps == length.epoch_ends[-1]


def test_the_padding_that_is_foretold_is_that_of_the_order_of_the_run(contract: Path) -> None:
    rows = map(json.loads, (contract.parent / "texts.jsonl").read_text().splitlines())
    longer = [row | {"body": row["body"] * (6 if row["corpus"] == "few" else 1)} for row in rows]
    (contract.parent / "texts.jsonl").write_text("\n".join(map(json.dumps, longer)))
    ready = ready_for(contract, "data.windows=padded", "model.context=100")
    feed = build_feed(ready.plan.contract, ready.prepared, torch.device("cpu"))
    epoch = [feed.next_step() for _ in range(feed.steps_per_epoch)]
    places, targets = (sum(getattr(step, of) for step in epoch) for of in ("places", "targets"))
    (found,) = (
        one
        for one in preflight(ready.plan, ready.raw.facts, ready.prepared, (), (), contract.parent)
        if one.kind == "padding"
    )
    assert f": {1 - targets / places:.1%} padding, 0 documents" in found.message


@pytest.mark.extended
@pytest.mark.parametrize("windows", ["across", "padded"])
def test_each_source_has_its_own_loss(windows: str, contract: Path, tmp_path: Path) -> None:
    as_folder(contract)
    overrides = [f"data.windows={windows}", "training.num_epochs=4"]
    run = tw.train(contract, overrides=overrides, runs=tmp_path / "runs")
    evaluation = run.evaluation
    scores = {one.name: one.interval.value for one in evaluation.slices}
    assert set(scores) == {"source=few", "source=many"}
    assert scores["source=few"] < scores["source=many"]
    events = read_events(run.folder / "events.jsonl")
    validated = [one["values"] for one in events if one["event"] == "validated"][-1]
    of_sources = [validated[f"val_loss/{name}"] for name in ("few", "many")]
    assert of_sources[0] < validated["val_loss"] < of_sources[1]
    low, high = sorted(scores.values())
    assert low < evaluation.metrics["nats_per_token"].value < high
    folder = RunFolder.open(run.folder)
    again = evaluate_rows(folder, tmp_path / "texts").evaluation
    assert {one.name for one in again.slices} == set(scores)
    (seen,) = [text for text in again.warnings if "was trained on" in text]
    assert "and 195 more" in seen
    (tmp_path / "new.txt").write_text("abbaab" * 60)
    other = evaluate_rows(folder, tmp_path / "new.txt").evaluation
    assert [one.name for one in other.slices] == ["source=new.txt"]
    assert not any("was trained on" in text for text in other.warnings)


def test_what_the_guide_shows_trains(contract: Path) -> None:
    (shown,) = (text for text in blocks(GUIDE / "sampling.md", "yaml") if "tokens" in text)
    as_folder(contract)
    for old, new in (("few", "books"), ("many", "web")):
        (contract.parent / "texts" / old).rename(contract.parent / "texts" / new)
    contract.write_text(shown)
    run = train(
        contract, "shown", "training.num_epochs=1", "data.validation=0.15", "data.test=0.15"
    )
    assert len(run.signals["loss"]) >= 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("data.sampling.weights.other=1.0",), "weights are not those of the sources"),
        (('data.sampling.column=""',), "needs the column that names their source"),
        (('data.text=""',), "files of texts have no columns"),
        (("data.windows=padded", "data.padding.buckets=4"), "not drawn from buckets"),
        (("data.shuffle=false",), "do not come as they lie"),
        (("model.context=500",), "text of 'few' is shorter than two windows"),
    ],
)
def test_what_cannot_be_is_told_at_once(
    settings: tuple[str, ...], said: str, contract: Path
) -> None:
    with pytest.raises(Mistake, match=said):
        train(contract, "run", *settings)
    assert not (contract.parent / "runs").exists()
