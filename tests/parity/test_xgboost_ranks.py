"""XGBoost on several ranks grows the trees of one process: ranks are threads here, each with a
communicator of its own, as XGBoost's own tests have them."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from deadlines import within
from trainwright.core.errors import PeerLost
from trainwright.model.library_family import LibraryJob, RowShare
from trainwright.model.tree_growth import Watching
from trainwright.model.xgboost.xgboost_fit import XGBoostScorer, fit_xgboost
from trainwright.model.xgboost.xgboost_ranks import start_tracker
from trainwright.run.library_fit import job_of
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

ROWS = 4003
EVERY_ROW = ("model.bagging_fraction=1",)
CONTRACT = """
data: {path: rows.csv, target: TARGET, exclude: [EXCLUDED]}
model: {kind: xgboost, max_trees: 40, max_depth: 4, learning_rate: 0.2, early_stopping_rounds: 8}
"""
TARGETS = ("number", "count", "answer", "grade", "other")
CASES = {
    "numbers": ("number", "metric.name=rmse"),
    "relative errors": ("number", "model.objective=squared_error", "metric.name=mape"),
    "counts": ("count", "metric.name=poisson_deviance"),
    "two classes": ("answer", "metric.name=log_loss"),
    "balanced classes": ("answer", "metric.name=log_loss", "model.class_weights=balanced"),
    "several classes": ("grade", "metric.name=log_loss"),
    "weighted rows": ("number", "metric.name=rmse", "data.weight=weight"),
    "constraints": ("number", "metric.name=rmse", "model.monotone={first: increasing}"),
    "several numbers": ("[number, other]", "metric.name=rmse"),
    "queries": ("grade", "metric={name: ndcg, k: 5}", "task=ranking", "data.query=query"),
}


@pytest.fixture(autouse=True)
def restore_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank silences what XGBoost prints, which is of the process, not of its thread."""
    monkeypatch.setattr(sys, "stdout", sys.stdout)


def write_rows(file: Path) -> None:
    """Rows in the order of their target, so that each rank has others: with missing numbers, and
    few enough values for bins of their own."""
    draw = np.random.default_rng(8)
    first, second, third = draw.normal(size=(3, ROWS)).round(1)
    kind = draw.integers(0, 7, ROWS)
    number = first + second**2 - (kind == 3) + draw.normal(size=ROWS) * 0.3
    order = np.argsort(number + draw.normal(size=ROWS))
    frame = pl.DataFrame(
        {
            "first": first,
            "second": pl.Series(second).set(pl.Series(draw.random(ROWS) < 0.05), None),
            "third": third,
            "kind": [f"k{code}" for code in kind],
            "weight": 0.5 + 2 * draw.random(ROWS),
            "query": [f"q{code:03}" for code in np.sort(draw.zipf(1.4, ROWS) % 200)],
            "number": number,
            "other": 10 * second - first,
            "count": np.floor(np.exp(np.clip(number, -2, 3))),
            "answer": np.where(number > 1.5, "yes", "no"),
            "grade": np.digitize(number, [0, 1, 2]),
        }
    )
    frame[order].write_csv(file)


def job(folder: Path, target: str, *settings: str) -> tuple[Any, LibraryJob]:
    """The section and the job of a contract."""
    write_rows(folder / "rows.csv")
    used = {word for setting in settings for word in setting.split("=")}
    used |= set(target.strip("[]").split(", "))
    spare = ", ".join(name for name in (*TARGETS, "weight", "query") if name not in used)
    text = CONTRACT.replace("TARGET", target).replace("EXCLUDED", spare)
    (folder / "c.yaml").write_text(text)
    request = Request(folder / "c.yaml", settings, folder / "runs")
    ready = make_ready(request, StageTimes(), StreamScreen(io.StringIO()))
    contract = ready.plan.contract
    return contract.model, replace(job_of(contract, ready.prepared), threads=1)


def on_ranks(
    section: Any, job: LibraryJob, ranks: int, watching: Sequence[Watching] = ()
) -> list[XGBoostScorer]:
    """The model of each rank."""
    watching = watching or [Watching()] * ranks

    def fit(rank: int) -> XGBoostScorer:
        share = RowShare(rank, ranks, tracker)
        return fit_xgboost(section, replace(job, share=share), watching[rank])

    with start_tracker(ranks, "localhost") as tracker, ThreadPoolExecutor(ranks) as pool:
        futures = [pool.submit(fit, rank) for rank in range(ranks)]
        return [future.result(timeout=within(60)) for future in futures]


def trees(model: XGBoostScorer) -> list[Any]:
    """Features, thresholds and categories of the splits of each tree."""
    text = json.loads(bytes(model.booster.save_raw("json")))
    names = ("split_indices", "left_children", "default_left", "categories")
    found = []
    for tree in text["learner"]["gradient_booster"]["model"]["trees"]:
        is_leaf = np.array(tree["left_children"]) < 0
        thresholds = np.where(is_leaf, 0, tree["split_conditions"]).tolist()
        found.append([thresholds, *(tree[name] for name in names)])
    return found


def base_scores(model: XGBoostScorer) -> list[float]:
    """What the trees start from."""
    head = json.loads(bytes(model.booster.save_raw("json")))["learner"]["learner_model_param"]
    return [float(number) for number in head["base_score"].strip("[]").split(",")]


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("case", CASES)
def test_ranks_grow_the_trees_of_one_process_where_each_value_has_a_bin(
    case: str, ranks: int, tmp_path: Path
) -> None:
    section, rows = job(tmp_path, *CASES[case], *EVERY_ROW)
    alone = fit_xgboost(section, rows)
    half = len(rows.train) // 2
    assert rows.train.target[:half].mean() < rows.train.target[half:].mean()
    models = on_ranks(section, rows, ranks)
    assert all(model.record == models[0].record for model in models)
    assert base_scores(models[0]) == pytest.approx(base_scores(alone), rel=1e-6, abs=1e-6)
    assert models[0].record.kept == alone.record.kept > 9
    assert trees(models[0]) == trees(alone)
    for point, of_alone in zip(models[0].record.curve, alone.record.curve, strict=True):
        assert point.train == pytest.approx(of_alone.train, rel=1e-5)
        assert point.validation == pytest.approx(of_alone.validation, rel=1e-5)
    inputs = rows.validation.inputs
    np.testing.assert_allclose(models[0].score(inputs), alone.score(inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "tolerance"), [("numbers", 0.03), ("two classes", 0.015), ("queries", 0.04)]
)
def test_ranks_that_draw_rows_reach_the_value_of_one_process(
    case: str, tolerance: float, tmp_path: Path
) -> None:
    """Each rank draws among its own rows, so the trees are others. The tolerance is four times the
    deviation of one process over 12 seeds."""
    section, rows = job(tmp_path, *CASES[case], "model.max_trees=100", "model.learning_rate=0.1")
    alone = fit_xgboost(section, rows)
    best = min(point.validation for point in alone.record.curve)
    for ranks in (2, 3):
        model, *_ = on_ranks(section, rows, ranks)
        assert trees(model) != trees(alone)
        assert base_scores(model) == pytest.approx(base_scores(alone), rel=1e-6, abs=1e-6)
        value = min(point.validation for point in model.record.curve)
        assert value == pytest.approx(best, abs=tolerance)


def test_shares_are_whole_queries_and_cover_all_rows() -> None:
    draw = np.random.default_rng(3)
    for ranks in (1, 2, 3, 7):
        for sizes in (draw.integers(1, 30, 40), np.array([500, 1, 1]), np.zeros(0, np.int64)):
            rows = int(sizes.sum()) or 101
            parts = [RowShare(rank, ranks).divide(rows, sizes) for rank in range(ranks)]
            assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
            assert parts[-1].stop == rows
            if len(sizes):
                assert {part.stop for part in parts} <= set(np.cumsum(sizes).tolist())
            else:
                assert {part.stop - part.start for part in parts} <= {
                    rows // ranks,
                    rows // ranks + 1,
                }


def test_a_rank_may_have_no_rows(tmp_path: Path) -> None:
    section, rows = job(tmp_path, *CASES["queries"], *EVERY_ROW)
    few = replace(rows, ranking=replace(rows.ranking, validation=one_query(rows)))
    alone = fit_xgboost(section, few)
    models = on_ranks(section, few, 3)
    assert models[0].record.kept == alone.record.kept
    assert trees(models[0]) == trees(alone)


def one_query(rows: LibraryJob) -> Any:
    """All validation rows as a single query."""
    queries = rows.ranking.validation
    return replace(queries, sizes=np.array([len(queries.order)]))


def test_the_first_rank_alone_ends_the_growth(tmp_path: Path) -> None:
    section, rows = job(tmp_path, *CASES["numbers"])
    seen: list[list[int]] = [[], []]

    def watching(rank: int, last: int) -> Watching:
        return Watching(
            lambda trees, _value: seen[rank].append(trees), lambda: len(seen[rank]) >= last
        )

    models = on_ranks(section, rows, 2, [watching(0, 5), watching(1, 3)])
    assert seen == [[1, 2, 3, 4, 5]] * 2
    assert models[0].record == models[1].record


def test_an_error_of_one_rank_reaches_the_others(tmp_path: Path) -> None:
    section, rows = job(tmp_path, *CASES["numbers"])

    def fail(trees: int, _value: float) -> None:
        if trees == 4:
            raise KeyError("its own")

    with pytest.raises((KeyError, PeerLost)) as caught:
        on_ranks(section, rows, 3, [Watching(), Watching(fail), Watching()])
    assert isinstance(caught.value, PeerLost)
    assert "another rank has died" in str(caught.value)
    with pytest.raises(KeyError, match="its own"):
        on_ranks(section, rows, 3, [Watching(fail), Watching(), Watching()])
