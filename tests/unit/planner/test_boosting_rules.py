"""The objective of trees: what `auto` takes, and what is refused before anything is written."""

from __future__ import annotations

import io
from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.model.trees import Boosting
from trainwright.core.errors import ContractMistake
from trainwright.model.boosting.boosting_family import BoostingFamily
from trainwright.model.family import LearningTask
from trainwright.planner.plan import Plan
from trainwright.run.prepare.prepare_run import make_ready
from trainwright.run.request import Request
from trainwright.run.screen import StageTimes, StreamScreen

CONTRACT = """\
data: {path: a.csv, target: y, split: {kind: random}}
model: {kind: boosting}
"""


def _planned(folder: Path, *words: str, low: int = 0) -> Plan:
    rows = range(200)
    counts = [low + at * 7 % 31 for at in rows]
    table = {"x": [at % 17 + 0.5 for at in rows], "y": counts, "c": [f"{at % 2}" for at in rows]}
    pl.DataFrame(table).write_csv(folder / "a.csv")
    (folder / "contract.yaml").write_text(CONTRACT)
    request = Request(folder / "contract.yaml", words, folder / "runs")
    return make_ready(request, StageTimes(), StreamScreen(io.StringIO())).plan


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("task=regression",), "squared_error"),
        (("task=regression", "metric.name=mae"), "absolute_error"),
        (("task=regression", "metric.name=pinball", "metric.quantile=0.9"), "quantile"),
        (("task=regression", "metric.name=r2"), "squared_error"),
        (("task=regression", "model.objective=poisson"), "poisson"),
        (("task=classification", "data.target=c"), "log_loss"),
    ],
)
def test_the_objective_follows_the_metric(
    tmp_path: Path, words: tuple[str, ...], expected: str
) -> None:
    assert _planned(tmp_path, *words).contract.model.objective == expected


@pytest.mark.parametrize(("rows", "leaf"), [(60, 5), (700, 7), (2_000, 20), (10**6, 20)])
def test_the_leaves_follow_the_rows(rows: int, leaf: int) -> None:
    task = LearningTask("classification", "roc_auc", 2, has_texts=False, rows=rows)
    assert BoostingFamily().choices(Boosting(kind="boosting"), task)["min_data_in_leaf"][0] == leaf


@pytest.mark.parametrize("split", ["{kind: random}", "{kind: random, folds: 5}"])
def test_a_written_limit_of_leaves_is_kept(tmp_path: Path, split: str) -> None:
    for words, leaf in ((), 5), (("model.min_data_in_leaf=7",), 7):
        model = _planned(tmp_path, f"data.split={split}", *words).contract.model
        assert isinstance(model, Boosting)
        assert model.min_data_in_leaf == leaf


@pytest.mark.parametrize(
    ("words", "low", "path"),
    [
        (("task=regression", "model.objective=log_loss"), 0, "model.objective"),
        (("task=regression", "model.objective=poisson"), -5, "model.objective"),
        (("task=regression", "model.class_weights=balanced"), 0, "model.class_weights"),
        (
            ("task=classification", "data.target=c", "model.objective=quantile"),
            0,
            "model.objective",
        ),
    ],
)
def test_what_does_not_fit_the_target_is_refused(
    tmp_path: Path, words: tuple[str, ...], low: int, path: str
) -> None:
    with pytest.raises(ContractMistake) as mistake:
        _planned(tmp_path, *words, low=low)
    assert [problem.path for problem in mistake.value.problems] == [path]
    assert not (tmp_path / "runs").exists()
