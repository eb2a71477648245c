"""The quickstart against the same models trained by hand, with the libraries alone."""

from __future__ import annotations

import copy
import io
import math
from dataclasses import dataclass
from pathlib import Path

import lightgbm
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from trainwright.data.base.inputs import Floats, Part
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import Result
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.run.train import train

CONTRACT = Path(__file__).resolve().parents[2] / "examples" / "income" / "contract.yaml"
SAME = 0.002

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Judged:
    ready: Ready
    result: Result

    @property
    def roc_auc(self) -> float:
        return self.result.evaluation.metrics["roc_auc"].value


def judged(runs: Path, *overrides: str) -> Judged:
    request = Request(CONTRACT, overrides, runs)
    screen = StreamScreen(io.StringIO())
    return Judged(make_ready(request, StageTimes(), screen), train(request, screen))


def area(part: Part, scores: Floats) -> float:
    return float(roc_auc_score(part.target, scores))


def test_boosted_trees_reach_what_lightgbm_reaches_by_hand(tmp_path: Path) -> None:
    ours = judged(tmp_path)
    prepared = ours.ready.prepared

    def matrix(part: Part) -> Floats:
        return np.hstack([part.inputs.numeric, part.inputs.categories]).astype(np.float64)

    numbers = len(prepared.features.numeric_names)
    columns = list(range(numbers, numbers + len(prepared.features.categorical_names)))
    options = {"categorical_feature": columns, "free_raw_data": False}
    rows = lightgbm.Dataset(matrix(prepared.train), prepared.train.target, **options)
    held = lightgbm.Dataset(
        matrix(prepared.validation), prepared.validation.target, reference=rows, **options
    )
    booster = lightgbm.train(
        {
            "objective": "binary",
            "metric": "auc",
            "learning_rate": 0.05,
            "num_leaves": 31,
            "verbosity": -1,
        },
        rows,
        2000,
        valid_sets=[held],
        callbacks=[lightgbm.early_stopping(100, verbose=False)],
    )
    by_hand = area(prepared.test, np.asarray(booster.predict(matrix(prepared.test))))
    assert ours.roc_auc >= 0.925
    assert abs(ours.roc_auc - by_hand) <= SAME


def test_the_network_reaches_what_torch_reaches_by_hand(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from torch import nn
    from torch.nn import functional

    from trainwright.model.build_network import build_network
    from trainwright.model.input_shape import TableShape

    # Fewer epochs than `auto` takes: both sides train as long.
    ours = judged(tmp_path, "model.kind=tabular_resnet", "training.num_epochs=6")
    prepared, contract = ours.ready.prepared, ours.ready.plan.contract
    training = contract.training
    torch.manual_seed(1)  # another seed than ours: other weights, other order, other dropout
    features = prepared.features
    model = build_network(
        contract.model, TableShape(len(features.numeric_names), features.cardinalities, 2)
    )
    decayed = [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
    decayed += [p for name, p in model.named_parameters() if name.endswith("frequencies")]
    others = [p for p in model.parameters() if all(p is not d for d in decayed)]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
        lr=1e-3,
        fused=True,
    )
    x, c, y = (
        torch.tensor(array)
        for array in (
            prepared.train.inputs.numeric,
            prepared.train.inputs.categories,
            prepared.train.target,
        )
    )
    steps = training.num_epochs * math.ceil(len(y) / training.batch_size)
    warmup = math.ceil(0.05 * steps)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        share = (step - warmup) / (steps - 1 - warmup)
        return 0.01 + 0.99 * (1 + math.cos(math.pi * share)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)

    def scores(part: Part) -> Floats:
        model.eval()
        with torch.no_grad():
            logits = model(torch.tensor(part.inputs.numeric), torch.tensor(part.inputs.categories))
        model.train()
        chances: Floats = torch.softmax(logits, 1)[:, 1].numpy()
        return chances

    best, best_weights, waited = 0.0, copy.deepcopy(model.state_dict()), 0
    for _ in range(training.num_epochs):
        for rows in torch.randperm(len(y)).split(training.batch_size):
            loss = functional.cross_entropy(model(x[rows], c[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        value = area(prepared.validation, scores(prepared.validation))
        waited += 1
        if value > best:
            best, best_weights, waited = value, copy.deepcopy(model.state_dict()), 0
        if waited == 5:
            break
    model.load_state_dict(best_weights)
    by_hand = area(prepared.test, scores(prepared.test))
    assert ours.roc_auc >= 0.910
    assert abs(ours.roc_auc - by_hand) <= SAME
