"""Contracts about classes with an order: what is trained, kept, judged and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score

import trainwright as tw
from contract_runs import bits, train
from trainwright.core.errors import Mistake
from trainwright.core.files import read_json, write_json
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.target import target_from_json

ORDER = ("poor", "fair", "good", "best")
TRAINED = ("boosting", "linear", "forest")
NETWORKS = ("mlp",)


def rows_in_order(rows: int = 600, seed: int = 0) -> pl.DataFrame:
    """Classes that are ranges of a noisy score."""
    draw = np.random.default_rng(seed)
    x, city = draw.normal(size=rows), draw.choice(["Bern", "Oslo", "Rome"], rows)
    score = x + 0.8 * (city == "Oslo") + draw.logistic(0, 0.4, rows)
    classes = np.array(ORDER)[np.digitize(score, [-0.7, 0.3, 1.3])]
    return pl.DataFrame({"x": x, "city": city, "mark": classes})


def contract_of(kind: str, folder: Path, **data: Any) -> dict[str, Any]:
    if not (folder / "rows.csv").exists():
        rows_in_order().write_csv(folder / "rows.csv")
    given = {"path": str(folder / "rows.csv"), "target": "mark", "order": list(ORDER), **data}
    contract: dict[str, Any] = {
        "data": given,
        "model": {"kind": kind, **({"max_trees": 30} if kind == "boosting" else {})},
        "metric": {"target": "dummy", "resamples": 100},
    }
    if kind in NETWORKS:
        contract["training"] = {"num_epochs": 6, "batch_size": 32}
    return contract


def cases() -> list[Any]:
    libraries = [pytest.param(kind, id=kind) for kind in TRAINED]
    return [*libraries, *(pytest.param(kind, marks=pytest.mark.torch) for kind in NETWORKS)]


@pytest.mark.extended
@pytest.mark.parametrize("kind", cases())
def test_classes_are_judged_by_their_ranks(kind: str, tmp_path: Path) -> None:
    if kind in NETWORKS:
        pytest.importorskip("torch")
    run = tw.train(contract_of(kind, tmp_path), runs=tmp_path).folder
    plan = read_json(run / "plan.json")["contract"]
    assert plan["metric"]["name"] == "quadratic_kappa"
    if kind in NETWORKS:
        assert plan["training"]["loss"]["name"] == "ordinal"
    stored = read_json(run / "evaluation.json")["evaluation"]
    test = pl.read_parquet(run / "predictions.parquet")
    ranks = {name: rank for rank, name in enumerate(ORDER)}
    truth, chosen = (test[name].replace_strict(ranks) for name in ("target", "prediction"))
    kappa = cohen_kappa_score(truth, chosen, weights="quadratic")
    measured = stored["metrics"]["quadratic_kappa"]
    assert measured["value"] == pytest.approx(kappa)
    assert 0.25 < measured["low"] < measured["value"] < measured["high"] < 1
    assert stored["metrics"]["mae_of_ranks"]["value"] == pytest.approx(
        (truth - chosen).abs().mean()
    )
    assert stored["curves"]["labels"] == list(ORDER)
    answer = tw.load(run).predict(rows_in_order(20, 1).drop("mark"))
    assert answer.columns == ["prediction", *(f"probability_{name}" for name in ORDER)]


def test_numbers_may_be_the_classes(tmp_path: Path) -> None:
    ranks = {name: rank + 1 for rank, name in enumerate(ORDER)}
    rows = rows_in_order().with_columns(pl.col("mark").replace_strict(ranks))
    rows.write_csv(tmp_path / "rows.csv")
    contract = contract_of("linear", tmp_path, order=[1, 2, 3, 4])
    prepared = tw.prepare(contract).ready.prepared
    assert prepared.target.classes == ("1", "2", "3", "4")
    assert prepared.target.is_ordered


@pytest.mark.torch
def test_a_network_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from canary import Killed

    path = tmp_path / "contract.json"
    contract = contract_of("mlp", tmp_path)
    contract["training"] = {"num_epochs": 2, "batch_size": 64}
    contract["training"]["checkpointing"] = {"save_every_n_steps": 3}
    write_json(path, contract)
    whole = train(path, "whole")
    with pytest.raises(Killed):
        train(path, "cut", dies_at=8)
    assert bits(train(path, "cut")) == bits(whole)


def test_an_order_is_read_back() -> None:
    target = Classes("mark", ORDER, -1, ordered=True)
    again = target_from_json(target.to_json())
    assert again == target
    assert not Classes("mark", ORDER, -1).is_same(again)
    assert "ordered" not in Classes("mark", ORDER, -1).to_json()


def _refused(contract: dict[str, Any]) -> str:
    with pytest.raises(Mistake) as caught:
        tw.prepare(contract)
    return str(caught.value)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["poor", "good", "best"], "it lacks 'fair'"),
        ([*ORDER, "great"], "no training row has 'great'"),
        (["poor", "poor"], "an order names at least two classes, each once"),
    ],
)
def test_an_order_names_each_class(order: list[str], said: str, tmp_path: Path) -> None:
    assert said in _refused(contract_of("linear", tmp_path, order=order))


def test_ranks_need_an_order(tmp_path: Path) -> None:
    contract = contract_of("mlp", tmp_path, order=[])
    contract["metric"]["name"] = "mae_of_ranks"
    contract["training"]["loss"] = {"name": "ordinal"}
    said = _refused(contract)
    assert "mae_of_ranks is of classes with an order" in said
    assert "the ordinal loss is of classes with an order" in said
