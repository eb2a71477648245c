"""Rankings through a contract against LightGBM and XGBoost called by hand on the same rows."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from faults.tiers import in_test
from trainwright.contract.document import Contract
from trainwright.data.types import Prepared
from trainwright.model.boosting.lightgbm_dataset import matrix_of, truncation_of
from trainwright.model.families import library_family
from trainwright.model.library_family import TreeFamily, tree_matrix
from trainwright.model.tree_growth import NOTHING_GROWN, Grown, Watching
from trainwright.run.library_fit import job_of
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

QUERIES = 90


def write_rows(file: Path, *, grades: tuple[float, ...] = (0, 1, 2, 3)) -> None:
    """Rows in no order of their queries; the relevance follows two numbers and a category."""
    draw = np.random.default_rng(8)
    query = draw.permutation(np.repeat(np.arange(QUERIES), draw.integers(2, 14, QUERIES)))
    first, second = draw.normal(size=(2, len(query)))
    kind = draw.integers(0, 6, len(query))
    signal = first + np.abs(second) + (kind == 3) + draw.normal(0, 0.4, len(query))
    cuts = np.quantile(signal, np.linspace(0, 1, len(grades) + 1)[1:-1])
    relevance = np.array(grades)[np.digitize(signal, cuts)]
    pl.DataFrame(
        {
            "query": [f"q{one:03d}" for one in query],
            "first": first.round(4),
            "second": second.round(4),
            "kind": [f"k{one}" for one in kind],
            "relevance": relevance,
        }
    ).write_csv(file)


def ready(folder: Path, *settings: str, grades: tuple[float, ...] = (0, 1, 2, 3)) -> Any:
    write_rows(folder / "rows.csv", grades=grades)
    (folder / "c.yaml").write_text(
        "task: ranking\ndata: {path: rows.csv, target: relevance, query: query}\n"
        "model: {kind: boosting, max_trees: 40, early_stopping_rounds: 8, num_leaves: 7, "
        "min_data_in_leaf: 20}\n"
        "metric: {name: ndcg, k: 5}\n"
    )
    request = Request(folder / "c.yaml", settings, folder / "runs")
    return make_ready(request, StageTimes(), StreamScreen(io.StringIO()))


def job(folder: Path, *settings: str, grades: tuple[float, ...] = (0, 1, 2, 3)) -> Any:
    found = ready(folder, *settings, grades=grades)
    contract: Contract = found.plan.contract
    return contract, found.prepared, job_of(contract, found.prepared)


def by_query(prepared: Prepared, part: str) -> tuple[Any, npt.NDArray[Any], npt.NDArray[Any]]:
    """Rows of a part sorted by their query, by hand: inputs, relevance, rows of each query."""
    rows = {"train": prepared.train, "validation": prepared.validation}[part]
    names = rows.frame["query"].to_numpy()
    order = np.argsort(names, kind="stable")
    sizes = np.unique(names, return_counts=True)[1]
    return rows.inputs.take(order), rows.target[order], sizes


def structure(text: str) -> str:
    """The trees of a text of LightGBM."""
    return text[text.index("Tree=0") : text.index("end of trees")]


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
@pytest.mark.parametrize("grades", in_test(2, [((0, 1, 2, 3),), ((1, 2, 3, 4, 5),)], start=1))
def test_it_grows_the_trees_of_lightgbm_alone(
    objective: str, grades: tuple[float, ...], tmp_path: Path
) -> None:
    contract, prepared, rows = job(tmp_path, f"model.objective={objective}", grades=grades)
    fitted = library_family(contract.model).fit(contract.model, rows)
    inputs, relevance, sizes = by_query(prepared, "train")
    data = lightgbm.Dataset(
        matrix_of(inputs), label=relevance, group=sizes, categorical_feature=[2]
    )
    by_hand = lightgbm.train(
        {
            "objective": objective,
            "learning_rate": 0.05,
            "num_leaves": 7,
            "min_data_in_leaf": 20,
            "feature_fraction": 0.8,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "lambda_l2": 1.0,
            "seed": 0,
            "data_random_seed": 0,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        },
        data,
        num_boost_round=fitted.trees,
    )
    ours: Any = fitted.scorer
    assert 1 < fitted.trees <= 40
    assert structure(ours.booster.model_to_string()) == structure(by_hand.model_to_string())


def test_the_metric_is_that_of_lightgbm_without_ties_and_with_queries_without_an_order_as_1(
    tmp_path: Path,
) -> None:
    contract, prepared, rows = job(tmp_path)
    family = library_family(contract.model)
    assert isinstance(family, TreeFamily)
    assert family.watched(contract.model, rows) == "1-ndcg"
    inputs, relevance, sizes = by_query(prepared, "validation")
    scores = np.random.default_rng(1).permutation(len(relevance)).astype(np.float64)
    ends = sizes.cumsum()
    each = [relevance[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    informing = sum(len(set(one)) > 1 for one in each)
    expected = (rows.ranking.validation.value(scores) * informing + len(each) - informing) / len(
        each
    )
    values: dict[str, Any] = {}
    lightgbm.train(
        {
            "objective": "lambdarank",
            "metric": "ndcg",
            "eval_at": [5],
            "min_data_in_leaf": 10**6,
            "verbosity": -1,
        },
        lightgbm.Dataset(matrix_of(inputs), label=relevance, group=sizes, init_score=scores),
        num_boost_round=1,
        valid_sets=[
            lightgbm.Dataset(matrix_of(inputs), label=relevance, group=sizes, init_score=scores)
        ],
        valid_names=["rows"],
        callbacks=[lightgbm.record_evaluation(values)],
    )
    assert values["rows"]["ndcg@5"][-1] == pytest.approx(expected, abs=1e-6)


def test_relevances_need_not_be_whole_numbers(tmp_path: Path) -> None:
    """Halves with a linear gain grow the trees of twice as many points: only ratios of gains
    count."""
    settings = ("metric.gain=linear",)
    (tmp_path / "half").mkdir()
    contract, _, halves = job(tmp_path / "half", *settings, grades=(0, 0.5, 1.5))
    family = library_family(contract.model)
    first: Any = family.fit(contract.model, halves).scorer
    contract, _, whole = job(tmp_path, *settings, grades=(0, 1, 3))
    second: Any = family.fit(contract.model, whole).scorer
    assert structure(first.booster.model_to_string()) == structure(second.booster.model_to_string())


def test_trees_of_an_interrupted_ranking_go_on_to_the_same_bytes(tmp_path: Path) -> None:
    contract, _, rows = job(tmp_path)
    family = library_family(contract.model)
    assert isinstance(family, TreeFamily)

    class Every:
        def __init__(self) -> None:
            self.kept: list[Grown] = []

        def is_due(self) -> bool:
            return True

        def keep(self, grow: Any) -> None:
            values = json.loads(json.dumps(grow().to_json(), allow_nan=False))
            self.kept.append(family.read_grown(values, 1))

    keeper = Every()
    whole: Any = family.grow(contract.model, rows, Watching(keeper=keeper), NOTHING_GROWN).scorer
    for at in (2, len(keeper.kept) // 2, len(keeper.kept) - 1):
        again: Any = family.grow(contract.model, rows, Watching(), keeper.kept[at]).scorer
        assert again.booster.model_to_string() == whole.booster.model_to_string()
        assert again.curve == whole.curve


@pytest.mark.parametrize("gain", ["exponential", "linear"])
def test_it_grows_the_trees_of_xgboost_alone(gain: str, tmp_path: Path) -> None:
    xgboost = pytest.importorskip("xgboost")
    model = "{kind: xgboost, max_trees: 40, early_stopping_rounds: 8, max_depth: 3}"
    contract, prepared, rows = job(tmp_path, f"model={model}", f"metric.gain={gain}")
    fitted = library_family(contract.model).fit(contract.model, rows)
    inputs, relevance, sizes = by_query(prepared, "train")
    data = xgboost.DMatrix(
        tree_matrix(inputs),
        label=relevance,
        qid=np.repeat(np.arange(len(sizes)), sizes),
        feature_types=["q", "q", "c"],
        enable_categorical=True,
    )
    by_hand = xgboost.train(
        {
            "objective": "rank:ndcg",
            "ndcg_exp_gain": gain == "exponential",
            "tree_method": "hist",
            "learning_rate": 0.05,
            "max_depth": 3,
            "min_child_weight": 1.0,
            "colsample_bytree": 0.8,
            "subsample": 0.8,
            "reg_lambda": 1.0,
            "seed": 0,
            "nthread": 1,
        },
        data,
        num_boost_round=fitted.trees,
    )
    ours: Any = fitted.scorer
    assert ours.booster.get_dump() == by_hand.get_dump()


def test_settings_name_the_ranks_that_count(tmp_path: Path) -> None:
    _, _, few = job(tmp_path)
    assert truncation_of(few.ranking) == 30
    _, _, many = job(tmp_path, "metric.k=50")
    assert truncation_of(many.ranking) == 53
