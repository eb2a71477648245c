"""`data.weight`: how much each row counts in the training, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command, inside, stopped_at
from guide import GUIDE, blocks
from trainwright.contract.sections.model import sections
from trainwright.core.errors import Mistake
from trainwright.core.files import hash_file, read_json

KINDS = [
    kind
    for kind, one in sections().items()
    if one.traits.weighs_rows and "table" in one.traits.reads
]
SMALL: dict[str, dict[str, Any]] = {
    "boosting": {"max_trees": 20},
    "xgboost": {"max_trees": 20},
    "catboost": {"max_trees": 20},
    "forest": {"trees": 20},
}


def write_rows(folder: Path, rows: int = 400) -> pl.DataFrame:
    """Training rows of which most have the label that contradicts the rule `b` where x > 0, and
    count a hundredth; validation and test rows that follow it and have no weight."""
    draw = np.random.default_rng(0)

    def made(count: int, flipped: np.ndarray) -> pl.DataFrame:
        x, z = draw.normal(size=count), draw.normal(size=count)
        return pl.DataFrame({"x": x, "z": z, "label": np.where((x > 0) ^ flipped, "b", "a")})

    flipped = draw.random(rows) < 0.6
    train = made(rows, flipped).with_columns(weight=np.where(flipped, 0.01, 1.0))
    train.write_csv(folder / "rows.csv")
    for name in ("val", "test"):
        made(100, np.zeros(100, bool)).write_csv(folder / f"{name}.csv")
    return train


def contract_of(folder: Path, kind: str, **data: Any) -> dict[str, Any]:
    return {
        "task": "classification",
        "data": {
            "train_path": str(folder / "rows.csv"),
            "val_path": str(folder / "val.csv"),
            "test_path": str(folder / "test.csv"),
            "target": "label",
            "positive": "b",
            "weight": "weight",
            **data,
        },
        "model": {"kind": kind, **SMALL.get(kind, {})},
        "metric": {"name": "accuracy", "target": "dummy", "resamples": 100},
        **({} if kind in SMALL or kind == "linear" else {"training": {"num_epochs": 12}}),
    }


@pytest.mark.extended
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "pretrained"])
def test_a_model_learns_from_the_rows_that_count(kind: str, tmp_path: Path) -> None:
    if kind not in SMALL and kind != "linear":
        pytest.importorskip("torch")
    write_rows(tmp_path)
    contract = contract_of(tmp_path, kind)
    asked = pl.DataFrame({"x": [-1.0, -0.6, 0.6, 1.0], "z": [0.0] * 4})
    weighed = tw.train(contract, runs=tmp_path, name="weighed")
    found = tw.load(weighed.folder).predict(asked)["prediction"].to_list()
    assert found == ["a", "a", "b", "b"], "the column of weights is not asked for"
    del contract["data"]["weight"]
    contract["data"]["columns"] = {"weight": {"kind": "ignored"}}
    alike = tw.load(tw.train(contract, runs=tmp_path, name="alike").folder)
    assert alike.predict(asked)["prediction"].to_list() != found


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["boosting", "xgboost", "catboost", "forest", "linear"])
def test_the_unit_of_the_weights_does_not_matter(kind: str, tmp_path: Path) -> None:
    """Shares of a population, head counts and huge numbers: one model."""
    frame, asked = write_rows(tmp_path), pl.DataFrame({"x": [-1.0, -0.2, 0.6], "z": [0.0] * 3})
    found = []
    for power in (0, -30, 500):
        frame.with_columns(pl.col("weight") * 2.0**power).write_csv(tmp_path / "rows.csv")
        run = tw.train(contract_of(tmp_path, kind), runs=tmp_path, name=f"unit{power}")
        found.append(tw.load(run.folder).predict(asked)["probability_b"].to_list())
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) > 1


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0, -2.0], "without a weight of 0 or above"),
        ([1.0, None], "without a weight of 0 or above"),
        ([0.0, 0.0], "no training row of the class 'a' has a weight above 0"),
    ],
)
def test_weights_that_mean_nothing_are_refused(
    weights: list[float | None], said: str, tmp_path: Path
) -> None:
    frame = write_rows(tmp_path)
    cells = [weights[at % 2] for at in range(frame.height)]
    frame.with_columns(weight=pl.Series(cells)).write_csv(tmp_path / "rows.csv")
    (tmp_path / "c.yaml").write_text(json.dumps(contract_of(tmp_path, "boosting")))
    with inside(tmp_path):
        ran = command("train", "c.yaml")
    assert ran.code == 2
    assert said in ran.err
    assert "data.weight" in ran.err
    assert "fix" in ran.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"kind": "neighbours"}}, "counts all rows alike"),
        ({"data": {"weight": "label"}}, "is no weight"),
        ({"data": {"weight": "heft"}}, "heft"),
        (
            {
                "model": {"kind": "mlp"},
                "data": {"sampling": {"kind": "weighted", "column": "weight"}},
            },
            "would count twice",
        ),
    ],
)
def test_what_cannot_be_weighed_is_refused(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    write_rows(tmp_path)
    contract = contract_of(tmp_path, "boosting")
    contract["data"] |= change.get("data", {})
    contract["model"] = change.get("model", contract["model"])
    with pytest.raises(Mistake, match=said) as caught:
        tw.train(contract, runs=tmp_path)
    assert any(problem.path == "data.weight" and problem.fix for problem in caught.value.problems)


def test_folds_weigh_their_training_rows_and_judge_all_alike(tmp_path: Path) -> None:
    write_rows(tmp_path)
    contract = contract_of(tmp_path, "linear")
    del contract["data"]["val_path"], contract["data"]["test_path"]
    contract["data"]["split"] = {"kind": "stratified", "folds": 3}
    trained = tw.train(contract, runs=tmp_path)
    assert len(read_json(trained.folder / "evaluation.json")["by_fold"]["folds"]) == 3
    accuracy = trained.evaluation.metrics["accuracy"].value
    assert 0.35 < accuracy < 0.5, "six rows in ten contradict what the others teach"


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["boosting", "mlp"])
def test_rows_in_files_have_their_weights(kind: str, tmp_path: Path) -> None:
    if kind == "mlp":
        pytest.importorskip("torch")
    write_rows(tmp_path)
    asked = pl.DataFrame({"x": np.linspace(-2, 2, 9), "z": [0.0] * 9})
    found = []
    for place in ("memory", "files"):
        contract = contract_of(tmp_path, kind, reading={"rows_in": place})
        run = tw.train(contract, runs=tmp_path, name=place)
        found.append(tw.load(run.folder).predict(asked)["probability_b"].to_numpy())
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.extended
def test_a_network_that_is_stopped_ends_with_the_same_weights(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_rows(tmp_path)
    (tmp_path / "c.yaml").write_text(json.dumps(contract_of(tmp_path, "mlp")))
    with inside(tmp_path):
        assert command("train", "c.yaml", "--run", "whole").code in (0, 3)
        assert stopped_at(5, "train", "c.yaml", "--run", "cut").code == 75
        assert command("train", "c.yaml", "--run", "cut", "--resume").code in (0, 3)
        weights = [
            hash_file(Path("runs", run, "bundle/network.safetensors")) for run in ("whole", "cut")
        ]
    assert weights[0] == weights[1]


@pytest.mark.extended
def test_the_page_shows_the_example_and_it_trains(tmp_path: Path) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "weights" / "contract.yaml"
    assert blocks(GUIDE / "weights.md", "yaml") == [example.read_text(encoding="utf-8")]
    trained = tw.train(example, overrides=["metric.resamples=100"], runs=tmp_path)
    assert trained.verdict.status in ("met", "missed", "undecided")
    shown = read_json(trained.folder / "plan.json")["contract"]["data"]["weight"]
    assert shown == "stands_for"


@pytest.mark.extended
def test_a_network_steps_by_the_weighted_mean_whatever_the_cut(tmp_path: Path) -> None:
    """Eight rows at once and in four micro-batches make the same update: the loss of a step is the
    sum of weight x loss, with weights of mean 1 over the training rows, by its number of rows."""
    pytest.importorskip("torch")
    write_rows(tmp_path)
    found = []
    for size, cuts in ((8, 1), (2, 4)):
        contract = contract_of(tmp_path, "mlp")
        contract["model"]["dropout"] = 0.0
        contract["training"] = {
            "optimizer": {"name": "sgd", "learning_rate": 0.05},
            "num_epochs": 2,
            "batch_size": size,
            "gradient_accumulation_steps": cuts,
            "early_stopping": "off",
        }
        run = tw.train(contract, runs=tmp_path, name=f"cut{cuts}")
        asked = pl.DataFrame({"x": np.linspace(-2, 2, 9), "z": [0.0] * 9})
        found.append(tw.load(run.folder).predict(asked)["probability_b"].to_numpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
