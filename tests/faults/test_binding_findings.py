"""A finding without which the decision would be another makes the verdict invalid, until the
contract splits otherwise or accepts it by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from command import Ran, command, inside
from faults.tiers import each
from leaks.tables import HONEST, LEAKING
from real_data import real_data
from trainwright.core.files import read_json

pytestmark = pytest.mark.row("F-65")

CONTRACT = """\
name: table
data:
  path: {path}
  target: {target}
  exclude: [{exclude}]
  split: {{kind: {split}}}
model: {{kind: boosting, max_trees: 60, learning_rate: 0.1}}
metric: {{name: {metric}, target: {value}, resamples: 100}}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path) -> Iterator[Path]:
    with inside(tmp_path):
        yield tmp_path


def written(path: str | Path, target: str = "y", **given: str) -> None:
    said = {"exclude": "", "split": "random", "metric": "rmse", "value": "dummy", **given}
    Path("table.yaml").write_text(CONTRACT.format(path=path, target=target, **said))


def made(maker: str, **given: str) -> None:
    table = {**LEAKING, **HONEST}[maker](np.random.default_rng(5))
    table.rows.write_csv("rows.csv")
    written("rows.csv", **given)


def trained(*words: str) -> tuple[Ran, Any]:
    ran = command("train", "table.yaml", "--json", *words)
    assert ran.code in (0, 3), ran.err
    return ran, json.loads(ran.out)


def outcomes(result: Any) -> dict[str, str]:
    return {
        " ".join([one["finding"], *one["columns"]]): one["outcome"] for one in result["findings"]
    }


@pytest.mark.extended
def test_memory_of_persons_is_invalid() -> None:
    made("persons", value="1.6")
    ran, result = trained()
    assert ran.code == 3
    assert result["verdict"] == "invalid"
    (found,) = result["findings"]
    assert (found["finding"], found["columns"]) == ("group_overlap", ["subject"])
    assert found["before"]["value"] < 1.6 < found["after"]["value"]
    assert found["difference"]["low"] > 0
    assert found["clauses"][0]["status"] != "met"
    assert found["write"] == "data: {split: {kind: group, column: subject}}"
    assert all(one["status"] == "met" for one in result["clauses"])
    run = Path("runs/table-1")
    assert read_json(run / "evaluation.json")["verdict"]["findings"] == result["findings"]
    assert "Verdict: invalid" in (run / "report.html").read_text()
    assert "column: subject" in (run / "report.html").read_text()

    shown = command("evaluate", "table-1")
    assert shown.code == 3
    assert shown.out.startswith("INVALID")
    assert found["write"] in shown.out


@pytest.mark.slow
def test_memory_of_persons_is_settled_by_splitting_or_accepting() -> None:
    made("persons", value="1.6")
    _, split = trained("--set", "data.split={kind: group, column: subject}")
    assert split["verdict"] in ("missed", "undecided")
    assert split["findings"] == []

    accept = "[{finding: group_overlap, columns: [subject], reason: the same ones come again}]"
    ran, accepted = trained("--set", f"data.audit.accept={accept}")
    assert (ran.code, accepted["verdict"]) == (0, "met")
    assert outcomes(accepted) == {"group_overlap subject": "accepted"}
    assert accepted["findings"][0]["reason"] == "the same ones come again"
    assert any("the same ones come again" in line for line in accepted["warnings"])
    assert "the same ones come again" in Path("runs/table-2/report.html").read_text()


@pytest.mark.extended
def test_a_loss_that_changes_nothing_is_one_warning_with_both_numbers() -> None:
    made("persons", value="100")
    ran, result = trained()
    assert (ran.code, result["verdict"]) == (0, "met")
    assert outcomes(result) == {"group_overlap subject": "measured"}
    (line,) = [one for one in result["warnings"] if "group_overlap" in one]
    assert "in random folds" in line
    assert "in folds by 'subject'" in line


@pytest.mark.extended
@pytest.mark.parametrize(
    ("maker", "metric", "value", "finding"),
    each(
        3,
        [
            ("days that resemble each other", "rmse", "1.5", "future_rows"),
            ("copies of rows", "rmse", "1.5", "exact_duplicates"),
            ("copies with rounding", "rmse", "1.5", "near_duplicates"),
            ("a column written later", "rmse", "0.9", "leak"),
            ("a column written later, classes", "roc_auc", "0.95", "leak"),
        ],
        start=1,
    ),
)
def test_a_leak_that_decides_is_invalid(maker: str, metric: str, value: str, finding: str) -> None:
    made(maker, metric=metric, value=value)
    ran, result = trained()
    assert (ran.code, result["verdict"]) == (3, "invalid"), result["clauses"]
    (found,) = [one for one in result["findings"] if one["finding"] == finding]
    assert found["outcome"] == "changes_decision"
    contract = yaml.safe_load(Path("table.yaml").read_text())
    contract["data"].update(yaml.safe_load(found["write"])["data"])
    Path("table.yaml").write_text(yaml.safe_dump(contract))
    _, settled = trained()
    assert settled["verdict"] in ("missed", "undecided")
    assert finding not in " ".join(outcomes(settled))


@pytest.mark.parametrize(
    ("maker", "metric", "words"),
    [
        ("a column written later, classes", "roc_auc", ()),
        ("a column written later", "rmse", ()),
        ("a column written later", "interval_score", ("--set", "metric.quantiles=[0.1, 0.5, 0.9]")),
    ],
)
def test_a_model_that_relies_on_a_leak_is_invalid_though_others_reach_the_target(
    maker: str, metric: str, words: tuple[str, ...]
) -> None:
    made(maker, metric=metric, value="0.6" if metric == "roc_auc" else "100")
    ran, result = trained(*words)
    assert (ran.code, result["verdict"]) == (3, "invalid"), result
    (leak,) = [one for one in result["findings"] if one["finding"] == "leak"]
    assert leak["metric"] == ("mae" if words else metric)
    Path("table.yaml").write_text(
        Path("table.yaml").read_text().replace("exclude: []", f"exclude: [{leak['columns'][0]}]")
    )
    _, without = trained(*words)
    assert without["verdict"] == "met"


@pytest.mark.extended
@pytest.mark.parametrize("maker", each(4, list(HONEST)))
def test_an_honest_table_is_never_invalid(maker: str) -> None:
    classes = maker in ("the same, classes", "honest repeats of coarse values")
    classes = classes or maker == "overlapping classes"
    made(maker, metric="roc_auc" if classes else "rmse")
    table = HONEST[maker](np.random.default_rng(5))
    kind = table.split["kind"]
    words = ["--set", "data.split={kind: time, column: utc}"] if kind == "time" else []
    _, result = trained(*words)
    assert result["verdict"] != "invalid"
    assert set(outcomes(result).values()) <= {"not_measured"}
    assert not [one for one in result["warnings"] if "folds" in one]


@pytest.mark.extended
@pytest.mark.real_data
def test_parkinsons_by_subject() -> None:
    path = real_data("parkinsons-telemonitoring") / "parkinsons_updrs.csv"
    written(path, "total_UPDRS", exclude="motor_UPDRS")
    ran, result = trained()
    assert (ran.code, result["verdict"]) == (3, "invalid")
    assert outcomes(result) == {"group_overlap subject#": "changes_decision"}
    _, split = trained("--set", "data.split={kind: group, column: 'subject#'}")
    assert split["verdict"] != "invalid"


@pytest.mark.extended
@pytest.mark.real_data
def test_bike_by_time_titanic_and_california() -> None:
    path = real_data("bike-sharing") / "hour.csv"
    written(path, "cnt", exclude="casual, registered", value="55")
    _, bike = trained()
    assert bike["verdict"] == "invalid"
    assert outcomes(bike) == {"future_rows dteday": "changes_decision"}

    path = real_data("titanic") / "titanic_train.csv"
    written(path, "Survived", metric="roc_auc", split="stratified")
    _, titanic = trained()
    assert titanic["verdict"] == "met"
    assert outcomes(titanic) == {}, "tickets have no name of a unit"

    written(real_data("california-housing") / "housing.csv", "median_house_value")
    _, california = trained()
    assert (california["verdict"], california["findings"]) == ("met", [])
