"""Real data sets: a contract made by `init`, trained without an edit, and the shipped example."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command import command, inside
from faults.tiers import only
from frozen_result import CLAUSE
from real_data import real_data
from trainwright.contract.reading.read_contract import read_contract

pytestmark = pytest.mark.usefixtures("whole_pages")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "income" / "contract.yaml"


def excluded(contract: Path) -> set[str]:
    """The columns that a written contract keeps away from the model."""
    return set(read_contract(contract).contract.data.exclude)


FEW_TREES = ("model.max_trees=40", "metric.resamples=100")
FEW_OF_AUTO = ("model={kind: boosting, max_trees: 40}", "metric.resamples=100")

sized = pytest.mark.parametrize(
    "settings",
    [pytest.param((), marks=pytest.mark.slow, id="as-proposed"), pytest.param(FEW_TREES, id="few")],
)
"""The contract as it is written, and with few trees; `telco` is trained as written always."""
sized_auto = pytest.mark.parametrize(
    "settings",
    [
        pytest.param((), marks=pytest.mark.slow, id="as-proposed"),
        pytest.param(FEW_OF_AUTO, id="few"),
    ],
)
"""The same for few rows, of which `init` lets two kinds of models compete."""


def trained_as_proposed(
    folder: Path, rows: Path, target: str, settings: Sequence[str] = ()
) -> tuple[Any, Any]:
    """The JSON result and the split report of a run of the contract that `init` writes."""
    added = [word for setting in settings for word in ("--set", setting)]
    with inside(folder):
        proposed = command("init", rows, "--target", target)
        assert proposed.code == 0, proposed.err
        ran = command("train", "contract.yaml", "--json", "--run", "one", *added)
        assert ran.code in (0, 3), ran.err
        result = json.loads(ran.out)
        assert (ran.code == 0) == (result["verdict"] == "met")
        split = json.loads(Path("runs/one/data/split.json").read_text())
        assert_sane(result)
        assert_divided(split)
    return result, split


def assert_sane(result: Any) -> None:
    assert Path(result["report"]).stat().st_size > 20_000
    assert {"dummy", "linear"} <= set(result["baselines"])
    for clause in result["clauses"]:
        assert sorted(clause) == CLAUSE
        assert clause["status"] in ("met", "missed", "undecided")
    for score in result["metrics"].values():
        assert score["low"] is None or score["low"] <= score["value"] <= score["high"]


def assert_divided(split: Any) -> None:
    assert split["groups_on_two_sides"] == 0
    assert split["future_rows_in_training"] == 0
    assert all(split["rows"][part] > 0 for part in ("train", "validation", "test"))


@pytest.mark.real_data
@pytest.mark.slow
def test_california_housing(tmp_path: Path) -> None:
    rows = real_data("california-housing") / "housing.csv"
    result, split = trained_as_proposed(tmp_path, rows, "median_house_value")
    assert split["kind"] == "random"
    assert sum(split["rows"].values()) == 20_640
    assert result["metrics"]["r2"]["value"] > 0.8


@pytest.mark.extended
@pytest.mark.real_data
@sized
def test_bike_sharing_is_judged_on_the_future(tmp_path: Path, settings: Sequence[str]) -> None:
    rows = real_data("bike-sharing") / "hour.csv"
    if settings:
        # Every fifth hour, numbered anew: each hour of the day stays among them.
        every = pl.read_csv(rows).gather_every(5)
        every.with_columns(instant=pl.int_range(1, pl.len() + 1)).write_csv(tmp_path / "hour.csv")
        rows = tmp_path / "hour.csv"
    result, split = trained_as_proposed(tmp_path, rows, "cnt", settings)
    assert split["kind"] == "time"
    ranges = split["time_ranges"]
    assert ranges["train"][1] < ranges["validation"][0]
    assert ranges["validation"][1] < ranges["test"][0]
    # Their sum is the target.
    assert {"casual", "registered", "instant"} <= excluded(tmp_path / "contract.yaml")
    assert result["metrics"]["r2"]["value"] > (0.6 if settings else 0.8)


@pytest.mark.extended
@pytest.mark.real_data
@sized
def test_parkinsons_is_judged_on_other_people(tmp_path: Path, settings: Sequence[str]) -> None:
    rows = real_data("parkinsons-telemonitoring") / "parkinsons_updrs.csv"
    result, split = trained_as_proposed(tmp_path, rows, "total_UPDRS", settings)
    assert split["kind"] == "group"
    assert sum(split["groups"].values()) == 42
    # The other score of the same examination.
    assert "motor_UPDRS" in excluded(tmp_path / "contract.yaml")
    # Voices of people that were never heard say little: an honest split shows no miracle.
    assert result["metrics"]["r2"]["value"] < 0.5


@pytest.mark.extended
@pytest.mark.real_data
@sized_auto
def test_titanic(tmp_path: Path, settings: Sequence[str]) -> None:
    folder = real_data("titanic")
    rows = folder / "titanic_train.csv"
    result, split = trained_as_proposed(tmp_path, rows, "Survived", settings)
    assert split["kind"] == "stratified"
    assert result["metrics"]["roc_auc"]["value"] > 0.8
    with inside(tmp_path):
        ran = command("predict", "one", folder / "titanic_test_unlabelled.csv", "-o", "out.csv")
        assert ran.code == 0, ran.err
        predicted = pl.read_csv("out.csv")
    assert predicted.columns == ["prediction", "probability_0", "probability_1"]
    assert predicted.height == 418


@pytest.mark.extended
@pytest.mark.real_data
def test_telco_churn(tmp_path: Path) -> None:
    rows = real_data("telco-churn") / "Telco-Customer-Churn.csv"
    result, split = trained_as_proposed(tmp_path, rows, "Churn")
    assert split["kind"] == "stratified"
    assert "customerID" in excluded(tmp_path / "contract.yaml")
    assert result["metrics"]["roc_auc"]["value"] > 0.8


@pytest.mark.extended
@pytest.mark.real_data
@sized_auto
def test_penguins_of_three_species(tmp_path: Path, settings: Sequence[str]) -> None:
    rows = real_data("penguins") / "penguins.csv"
    result, split = trained_as_proposed(tmp_path, rows, "species", settings)
    assert len(split["class_shares"]["train"]) == 3
    assert result["clauses"][0]["metric"] == "f1_macro"
    assert result["metrics"]["f1_macro"]["value"] > 0.9


# The example that is shipped.

FEW = {
    "boosting": ("model.max_trees=5",),
    "linear": ("model.kind=linear",),
    "mlp": ("model.kind=mlp", "training.num_epochs=1"),
    "tabular_resnet": ("model.kind=tabular_resnet", "training.num_epochs=1", "model.width=16"),
}


def few(kind: str) -> list[str]:
    return [word for value in FEW[kind] for word in ("--set", value)]


@pytest.mark.extended
@pytest.mark.parametrize("kind", only(("boosting", "mlp"), FEW))
def test_the_example_is_valid_and_planned(tmp_path: Path, kind: str) -> None:
    if kind in ("mlp", "tabular_resnet"):
        pytest.importorskip("torch")
    with inside(tmp_path):
        ran = command("train", EXAMPLE, "--dry-run", *few(kind))
        assert ran.code == 0, ran.err
        assert "27,677 / 4,884 / 16,281" in ran.err
        assert not list(tmp_path.iterdir())


@pytest.mark.extended
@pytest.mark.parametrize(
    "kind",
    [
        "boosting",
        pytest.param("linear", marks=pytest.mark.slow),
        pytest.param("mlp", marks=[pytest.mark.torch, pytest.mark.slow]),
        pytest.param("tabular_resnet", marks=pytest.mark.torch),
    ],
)
def test_the_example_trains_a_little(tmp_path: Path, kind: str) -> None:
    if kind in ("mlp", "tabular_resnet"):
        pytest.importorskip("torch")
    with inside(tmp_path):
        ran = command("train", EXAMPLE, "--json", *few(kind))
        assert ran.code in (0, 3), ran.err
        result = json.loads(ran.out)
    assert result["run"] == "income-1"
    # The metric and the floors of three slices, two of them with several values.
    assert len(result["clauses"]) > 4
    assert result["metrics"]["roc_auc"]["value"] > 0.8
