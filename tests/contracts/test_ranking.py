"""The contract of the guide on rankings: trained, judged, predicted with, resumed, refused."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml
from sklearn.metrics import ndcg_score

import trainwright as tw
from canary import Killed
from command import command
from contract_runs import bits, train
from guide import GUIDE, blocks
from trainwright.core.errors import DataMistake, Mistake
from trainwright.data.subsample import sampled_judged
from trainwright.evaluation.curves.plot_data import RankingCurves
from trainwright.planner.budget_allotment import Allotment
from trainwright.run.after.evaluate_rows import evaluate_rows, predict_file
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.run.measured_choices import Beforehand
from trainwright.run.prepare.prepare_run import Ready
from trainwright.tracking.run_folder import RunFolder

PAGE = GUIDE / "ranking.md"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ranking"
FEW = "model.max_trees=12"


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    for name in ("contract.yaml", "searches.csv"):
        shutil.copy(EXAMPLE / name, tmp_path / name)
    return tmp_path / "contract.yaml"


def test_the_page_shows_the_example() -> None:
    assert blocks(PAGE, "yaml")[0] == (EXAMPLE / "contract.yaml").read_text(encoding="utf-8")


def by_hand(frame: pl.DataFrame) -> float:
    """NDCG at 5 by scikit-learn, over the queries that can be ordered."""
    found = []
    for _, rows in frame.group_by("search"):
        relevance = rows["relevance"].cast(pl.Float64).to_numpy()
        if len(set(relevance)) > 1:
            gains = (2.0**relevance - 1)[None]
            found.append(ndcg_score(gains, rows["prediction"].to_numpy()[None], k=5))
    return float(np.mean(found))


def test_it_trains_judges_and_ranks(contract: Path, tmp_path: Path) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[FEW, "metric.resamples=100"])
    folder, file = RunFolder(result.folder), tmp_path / "searches.csv"
    predicted = predict_file(folder, file, keep=["search", "relevance"]).frame
    assert predicted.columns == ["search", "relevance", "prediction", "rank"]
    for _, rows in predicted.group_by("search"):
        ordered = rows.sort("rank")
        assert ordered["rank"].to_list() == list(range(1, rows.height + 1))
        assert ordered["prediction"].is_sorted(descending=True)
    judged = read_predictions(folder)
    of_test = predicted[judged.rows.tolist()]
    value = result.evaluation.metrics["ndcg"]
    assert value.value == pytest.approx(by_hand(of_test), abs=1e-9)
    assert result.evaluation.units == of_test["search"].n_unique()
    assert value.low < value.value < value.high
    random = result.evaluation.baselines["dummy"]["ndcg"].value
    assert random < result.evaluation.baselines["linear"]["ndcg"].value < value.value
    again = tw.load(result.folder / "bundle").predict(pl.read_csv(file))
    assert again.equals(predicted.drop("search", "relevance"))
    without = tw.load(result.folder / "bundle").predict(pl.read_csv(file).drop("search"))
    assert without.columns == ["prediction"]


def test_the_queries_of_the_parts_are_apart(contract: Path) -> None:
    ready = tw.prepare(contract).ready
    parts = (ready.prepared.train, ready.prepared.validation, ready.prepared.test)
    names = [set(part.frame["search"]) for part in parts]
    assert sum(map(len, names)) == len(set().union(*names)) == 300
    assert "search" not in ready.prepared.table.numeric_names
    assert not any("search" in one for one in ready.prepared.features.categorical_names)
    assert ready.plan.contract.data.split.kind == "group"


def test_queries_without_an_order_are_counted_and_told(contract: Path, tmp_path: Path) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[FEW, "metric.resamples=100"])
    judged = evaluate_rows(RunFolder(result.folder), tmp_path / "searches.csv")
    (said,) = [one for one in judged.evaluation.warnings if "nothing to order" in one]
    assert said.startswith("8 of 300 queries")
    curves = judged.evaluation.curves
    assert isinstance(curves, RankingCurves)
    assert curves.left_out == 8
    assert sum(curves.counts) == 292
    values = [one.value for one in curves.worst]
    assert values == sorted(values)
    names = pl.read_csv(tmp_path / "searches.csv")["search"]
    assert all((names == one.query).sum() == one.rows for one in curves.worst)
    page = command("report", str(result.folder))
    assert page.code == 0, page.err
    assert "Histogram of ndcg over the queries" in (result.folder / "report.html").read_text()


@pytest.mark.extended
def test_a_slice_by_a_column_of_the_query(contract: Path, tmp_path: Path) -> None:
    file = tmp_path / "searches.csv"
    frame = pl.read_csv(file)
    half = pl.col("search").str.slice(1).cast(pl.Int64) % 2
    frame.with_columns(
        pl.when(half == 0).then(pl.lit("a")).otherwise(pl.lit("b")).alias("shop")
    ).write_csv(file)
    contract.write_text(contract.read_text() + "slices:\n  - {column: shop, floor: 0.1}\n")
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[FEW, "metric.resamples=100"])
    slices = {one.name: one for one in result.evaluation.slices}
    assert set(slices) == {"shop=a", "shop=b"}
    folder = RunFolder(result.folder)
    predicted = predict_file(folder, file, keep=["search", "relevance", "shop"]).frame
    of_test = predicted[read_predictions(folder).rows.tolist()]
    for name, one in slices.items():
        own = of_test.filter(pl.col("shop") == name[-1])
        assert one.interval.value == pytest.approx(by_hand(own), abs=1e-9)


@pytest.mark.extended
def test_folds_keep_queries_together(contract: Path, tmp_path: Path) -> None:
    split = "data.split={kind: group, column: search, folds: 3}"
    result = tw.train(
        contract, runs=tmp_path / "runs", overrides=[FEW, split, "metric.resamples=100"]
    )
    frame = pl.read_parquet(RunFolder(result.folder).predictions)
    assert frame.height == 2339
    assert frame.group_by("query").agg(pl.col("fold").n_unique())["fold"].max() == 1
    assert result.evaluation.units == 300


def test_a_function_is_judged(contract: Path, tmp_path: Path) -> None:
    data = tw.prepare(contract, overrides=["metric.resamples=100"])
    result = tw.judge(lambda rows: rows["match"].to_numpy(), data, runs=tmp_path / "runs")
    assert result.evaluation.metrics["ndcg"].value > 0.6
    with pytest.raises(Mistake, match="cannot be judged"):
        tw.judge(lambda rows: np.full(len(rows), np.nan), data, runs=tmp_path / "runs")


@pytest.mark.torch
@pytest.mark.parametrize("death", [1, 5])
def test_a_killed_network_goes_on_to_the_same_bits(contract: Path, death: int) -> None:
    settings = (
        "model={kind: mlp, hidden: [8]}",
        "training={num_epochs: 2, batch_size: 32, checkpointing: {save_every_n_steps: 2}}",
    )
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=death)
    resumed = train(contract, "cut", *settings)
    assert bits(whole) == bits(resumed)


@pytest.mark.extended
@pytest.mark.torch
@pytest.mark.parametrize("kind", ["mlp, hidden: [16]", "ft_transformer", "tabular_resnet"])
@pytest.mark.parametrize("loss", ["listnet", "ranknet"])
def test_networks_learn_an_order(kind: str, loss: str, contract: Path, tmp_path: Path) -> None:
    overrides = [
        f"model={{kind: {kind}}}",
        f"training={{num_epochs: 1, loss: {{name: {loss}}}}}",
        "metric.resamples=100",
    ]
    result = tw.train(contract, runs=tmp_path / "runs", overrides=overrides)
    random = result.evaluation.baselines["dummy"]["ndcg"].value
    assert result.evaluation.metrics["ndcg"].value > random + 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.col("relevance") - 1, "no relevance"),
        (pl.lit(2).alias("relevance"), "same value in every row|different relevance"),
        (pl.col("relevance") * 20, "a gain of 2\\^relevance"),
        (pl.lit(None, pl.String).alias("search"), "query"),
    ],
)
def test_rows_that_cannot_be_ranked(contract: Path, change: pl.Expr, message: str) -> None:
    file = contract.parent / "searches.csv"
    pl.read_csv(file).with_columns(change).write_csv(file)
    with pytest.raises(Mistake, match=message) as raised:
        tw.prepare(contract)
    assert all(problem.fix for problem in raised.value.problems)


def test_queries_in_two_files_are_a_leak(contract: Path) -> None:
    file = contract.parent / "searches.csv"
    frame = pl.read_csv(file)
    frame[:2000].write_csv(file)
    frame[1996:].write_csv(contract.parent / "test.csv")
    data = "train_path: searches.csv, test_path: test.csv, target: relevance, query: search"
    overrides = [f"data={{{data}}}"]
    with pytest.raises(DataMistake, match="more than one of the given files"):
        tw.prepare(contract, overrides=overrides)


def test_the_time_of_queries_divides_them_whole(contract: Path) -> None:
    file = contract.parent / "searches.csv"
    day = pl.col("search").str.slice(1).cast(pl.Int64).alias("day")
    pl.read_csv(file).with_columns(day).write_csv(file)
    split = "data.split={kind: time, column: day}"
    prepared = tw.prepare(contract, overrides=[split]).ready.prepared
    assert prepared.train.frame["day"].max() < prepared.test.frame["day"].min()
    blocks_of = prepared.test.frame.with_columns(pl.Series("unit", prepared.test.units))
    assert blocks_of.group_by("search").agg(pl.col("unit").n_unique())["unit"].max() == 1
    assert 1 < blocks_of["unit"].n_unique() < blocks_of["search"].n_unique()
    torn = pl.read_csv(file).with_row_index("at").with_columns(pl.col("at").alias("day"))
    torn.sample(fraction=1.0, shuffle=True, seed=1).with_columns(
        pl.Series("day", range(torn.height))
    ).write_csv(file)
    with pytest.raises(DataMistake, match="more than one part"):
        tw.prepare(contract, overrides=[split])


def test_a_sample_of_validation_rows_holds_whole_queries(contract: Path) -> None:
    prepared = tw.prepare(contract).ready.prepared
    part, target = prepared.validation, prepared.target
    some = sampled_judged(part, target, 60, seed=1)
    assert 40 < len(some) <= 60
    names = set(some.frame["search"])
    assert len(some) == part.frame["search"].is_in(names).sum()
    assert (
        len(sampled_judged(part, target, 1, seed=1))
        == part.frame.filter(
            pl.col("search") == sampled_judged(part, target, 1, seed=1).frame["search"][0]
        ).height
    )
    assert sampled_judged(part, target, "all", seed=1) is part


@pytest.mark.extended
def test_a_ranking_by_time_has_no_naive_forecasts(contract: Path, tmp_path: Path) -> None:
    file = tmp_path / "searches.csv"
    rows = pl.read_csv(file)
    days = pl.Series("day", rows["search"].rank("dense").cast(pl.Int64) // 4)
    rows.with_columns(days).write_csv(file)
    settings = [FEW, "metric.resamples=100", "data.split={kind: time, column: day}"]
    result = tw.train(contract, runs=tmp_path / "runs", overrides=settings)
    assert set(result.evaluation.baselines) == {"dummy", "linear"}


def test_the_memory_of_a_network_counts_the_rows_of_its_queries(contract: Path) -> None:
    from trainwright.contract.reading.read_contract import ContractText
    from trainwright.run.prepare.prepare_run import make_ready
    from trainwright.run.request import Request
    from trainwright.run.screen import StageTimes, StreamScreen

    values = yaml.safe_load(contract.read_text())
    values |= {"model": {"kind": "mlp", "hidden": [8]}, "training": {"num_epochs": 1}}
    told = io.StringIO()
    request = Request(ContractText.of(values, contract.parent))
    ready = make_ready(request, StageTimes(), StreamScreen(told))
    frame, plan = ready.prepared.train.frame, ready.plan
    assert plan.memory is not None
    longest = int(frame["search"].value_counts()["count"].max())
    values["data"] |= {"exclude": ["search"]}
    del values["data"]["query"], values["metric"]
    values["task"] = "regression"
    request = Request(ContractText.of(values, contract.parent))
    plain = make_ready(request, StageTimes(), StreamScreen(told)).plan
    assert plain.memory is not None
    sizes = [one.contract.training.batch_size for one in (plan, plain)]
    of_sample = [
        one.activations / size for one, size in zip((plan.memory, plain.memory), sizes, strict=True)
    ]
    assert longest > 5
    assert of_sample[0] == pytest.approx(longest * of_sample[1])
    (chosen,) = (one for one in plan.choices if one.path == "training.batch_size")
    assert "queries of a step" in chosen.reason


def test_a_budget_judges_whole_queries(
    contract: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(ready: Ready, *_: object) -> tuple[Ready, Beforehand]:
        return replace(ready, plan=replace(ready.plan, allotment=Allotment(test_rows=60))), (
            Beforehand()
        )

    monkeypatch.setattr("trainwright.run.train.allot_budget", few)
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[FEW, "metric.resamples=100"])
    rows = read_predictions(RunFolder(result.folder)).rows
    searches = pl.read_csv(tmp_path / "searches.csv")["search"]
    judged = searches[rows.tolist()].value_counts()
    whole = searches.value_counts(name="all").join(judged, on="search")
    assert 0 < len(rows) <= 60
    assert whole["count"].to_list() == whole["all"].to_list()
