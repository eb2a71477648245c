"""`training.teacher`: a model that learns from a trained one."""

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
from made_data import make_images
from trainwright.contract.sections.model import sections
from trainwright.core.errors import Mistake
from trainwright.core.files import hash_file, read_json

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "distillation"
SMALL: dict[str, dict[str, Any]] = {
    "boosting": {"max_trees": 20},
    "xgboost": {"max_trees": 20},
    "catboost": {"max_trees": 20},
    "forest": {"trees": 20},
}
KINDS = [
    kind
    for kind, one in sections().items()
    if one.traits.weighs_rows and "table" in one.traits.reads and kind != "pretrained"
]


def write_rows(folder: Path) -> None:
    """Rows of the rule `b` where x > 0: `right.csv` says so, `wrong.csv` says it of a coin."""
    draw = np.random.default_rng(0)
    x, coin = draw.normal(size=600), draw.random(600) < 0.5
    ids = [f"r{at}" for at in range(600)]
    right = pl.DataFrame({"id": ids, "x": x, "hidden": -x, "label": np.where(x > 0, "b", "a")})
    right.write_csv(folder / "right.csv")
    right.with_columns(label=np.where(coin, "b", "a")).write_csv(folder / "wrong.csv")


def contract_of(folder: Path, rows: str, kind: str, **more: Any) -> dict[str, Any]:
    network = {} if kind in SMALL or kind == "linear" else {"num_epochs": 12}
    training = {**network, **more.pop("training", {})}
    data = {"path": str(folder / rows), "target": "label", "positive": "b", "exclude": ["id"]}
    split = {"kind": "random", "key": "id"}
    return {
        "task": "classification",
        "data": {**data, "split": split, **more.pop("data", {})},
        "model": {"kind": kind, **SMALL.get(kind, {})},
        "metric": {"name": "accuracy", "target": "dummy", "resamples": 100},
        **({"training": training} if training else {}),
        **more,
    }


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with rows and a teacher of the rule, `runs/teacher`."""
    folder = tmp_path_factory.mktemp("taught")
    write_rows(folder)
    contract = contract_of(folder, "right.csv", "boosting", data={"exclude": ["id", "x"]})
    tw.train(contract, runs=folder / "runs", name="teacher")
    return folder


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_a_student_learns_what_its_teacher_knows(kind: str, taught: Path, tmp_path: Path) -> None:
    """Of labels that a coin has thrown nothing can be learned; the teacher, which reads a column
    that the student does not have, knows the rule."""
    if kind not in SMALL and kind != "linear":
        pytest.importorskip("torch")
    teacher = {"bundle": str(taught / "runs/teacher"), "weight": 0.9}
    contract = contract_of(taught, "wrong.csv", kind, training={"teacher": teacher})
    contract["data"]["exclude"] = ["id", "hidden"]
    run = tw.train(contract, runs=tmp_path)
    asked = pl.DataFrame({"x": [-1.5, -0.8, 0.8, 1.5]})
    assert tw.load(run.folder).predict(asked)["prediction"].to_list() == ["a", "a", "b", "b"]
    described = read_json(run.folder / "data/manifest.json")["teacher"]
    manifest = taught / "runs/teacher/bundle/bundle.json"
    assert described["sha256"] == hash_file(manifest)


@pytest.mark.extended
def test_a_number_is_learned_from_a_teacher(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.uniform(-2, 2, 500)
    rows = pl.DataFrame({"x": x, "y": 3 * x + 50})
    rows.write_csv(tmp_path / "right.csv")
    rows.with_columns(y=pl.Series(draw.permutation(3 * x + 50))).write_csv(tmp_path / "wrong.csv")
    base: dict[str, Any] = {
        "task": "regression",
        "data": {"path": str(tmp_path / "right.csv"), "target": "y"},
        "model": {"kind": "boosting", "max_trees": 60},
        "metric": {"name": "rmse", "target": "dummy", "resamples": 100},
    }
    tw.train(base, runs=tmp_path, name="teacher")
    base["data"]["path"] = str(tmp_path / "wrong.csv")
    for model in ("linear", "forest"):
        base["model"] = {"kind": model, **SMALL.get(model, {})}
        base["training"] = {"teacher": {"bundle": str(tmp_path / "teacher/bundle"), "weight": 1.0}}
        run = tw.train(base, runs=tmp_path, name=model)
        values = tw.load(run.folder).predict(pl.DataFrame({"x": [-1.0, 1.0]}))["prediction"]
        np.testing.assert_allclose(values.to_numpy(), [47, 53], atol=0.8)


@pytest.mark.extended
def test_a_network_is_taught_the_same_whatever_interrupts_it(taught: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    teacher = {"bundle": str(taught / "runs/teacher"), "temperature": 2.0}
    contract = contract_of(taught, "right.csv", "mlp", training={"teacher": teacher})
    (tmp_path / "c.yaml").write_text(json.dumps(contract))
    with inside(tmp_path):
        assert command("train", "c.yaml", "--run", "whole").code in (0, 3)
        assert stopped_at(5, "train", "c.yaml", "--run", "cut").code == 75
        assert command("train", "c.yaml", "--run", "cut", "--resume").code in (0, 3)
        weights = [
            hash_file(Path("runs", run, "bundle/network.safetensors")) for run in ("whole", "cut")
        ]
    assert weights[0] == weights[1]


@pytest.mark.extended
def test_another_teacher_is_other_data(taught: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    name = str(tmp_path / "runs/teacher")
    first = contract_of(taught, "right.csv", "linear")
    contract = contract_of(taught, "right.csv", "mlp", training={"teacher": {"bundle": name}})
    (tmp_path / "c.yaml").write_text(json.dumps(contract))
    with inside(tmp_path):
        tw.train(first, runs=tmp_path / "runs", name="teacher")
        assert stopped_at(5, "train", "c.yaml", "--run", "cut").code == 75
        Path("runs/teacher").rename("runs/before")
        tw.train({**first, "seed": 9, "name": "other"}, runs=tmp_path / "runs", name="teacher")
        ran = command("train", "c.yaml", "--run", "cut", "--resume")
    assert ran.code not in (0, 3)
    assert f"the teacher {name}" in ran.err


def test_a_teacher_that_saw_test_rows_is_refused(taught: Path, tmp_path: Path) -> None:
    name = str(taught / "runs/teacher")
    contract = contract_of(taught, "right.csv", "linear", training={"teacher": {"bundle": name}})
    (tmp_path / "same.yaml").write_text(json.dumps(contract))
    (tmp_path / "other.yaml").write_text(json.dumps({**contract, "split_seed": 7}))
    with inside(tmp_path):
        assert command("train", "same.yaml").code in (0, 3)
        ran = command("train", "other.yaml", "--run", "other")
        assert ran.code == 2
        assert not Path("runs/other").exists()
    assert "the teacher was trained on test rows" in ran.err
    assert "train the teacher on this split of the rows" in ran.err


def test_what_is_not_known_of_a_bundle_is_said(taught: Path, tmp_path: Path) -> None:
    name = str(taught / "runs/teacher/bundle")
    contract = contract_of(taught, "right.csv", "linear", training={"teacher": {"bundle": name}})
    (tmp_path / "c.yaml").write_text(json.dumps(contract))
    with inside(tmp_path):
        ran = command("train", "c.yaml", "--run", "said")
    assert ran.code in (0, 3)
    assert "whether the teacher was trained on test rows is not known" in ran.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"training": {"teacher": {"bundle": "nowhere"}}}, "the teacher cannot be used"),
        ({"model": {"kind": "neighbours"}}, "cannot learn from a teacher"),
        ({"training": {"refit": True}}, "training.refit trains on others"),
        ({"data": {"split": {"kind": "stratified", "folds": 3}}}, "data.split.folds trains"),
        ({"training": {"temperature": 2.0}}, "only a network has logits"),
        ({"data": {"target": "id2"}}, "the teacher predicts something else"),
        ({"data": {"exclude": ["id", "hidden"], "columns": {}}, "rows": "less.csv"}, "hidden"),
    ],
)
def test_what_no_teacher_can_teach_is_refused(
    change: dict[str, Any], said: str, taught: Path, tmp_path: Path
) -> None:
    frame = pl.read_csv(taught / "right.csv")
    frame.drop("hidden").write_csv(taught / "less.csv")
    frame.with_columns(id2=pl.Series([f"c{at % 3}" for at in range(600)])).write_csv(
        taught / "more.csv"
    )
    asked = dict(change.get("training", {}))
    teacher = {"bundle": str(taught / "runs/teacher"), **asked.pop("teacher", {})}
    if "temperature" in asked:
        teacher["temperature"] = asked.pop("temperature")
    rows = change.get("rows", "more.csv")
    training = {"teacher": teacher, **asked}
    contract = contract_of(taught, rows, "linear", training=training, data=change.get("data", {}))
    if "target" in change.get("data", {}):
        del contract["data"]["positive"]
        contract["metric"] = {"name": "accuracy", "target": "dummy"}
    contract["model"] = change.get("model", contract["model"])
    with pytest.raises(Mistake, match=said) as caught:
        tw.train(contract, runs=tmp_path)
    assert all(problem.fix for problem in caught.value.problems)
    assert not list(tmp_path.iterdir())


@pytest.mark.extended
def test_images_are_taught(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    make_images(tmp_path / "digits")
    contract: dict[str, Any] = {
        "data": {"kind": "images", "path": str(tmp_path / "digits")},
        "task": "classification",
        "model": {"kind": "boosting", "max_trees": 10},
        "metric": {"name": "accuracy", "target": "dummy", "resamples": 100},
    }
    tw.train(contract, runs=tmp_path, name="teacher")
    contract["model"] = {"kind": "resnet", "width": 4, "blocks": [1]}
    contract["training"] = {
        "num_epochs": 1,
        "teacher": {"bundle": str(tmp_path / "teacher"), "temperature": 3.0},
    }
    run = tw.train(contract, runs=tmp_path, name="student")
    assert read_json(run.folder / "data/manifest.json")["teacher"]["note"] == ""
    contract["data"]["augment"] = {"mixup": 0.2}
    with pytest.raises(Mistake, match="blended"):
        tw.train(contract, runs=tmp_path, name="blended")


@pytest.mark.extended
def test_the_page_shows_the_example_and_it_trains(tmp_path: Path) -> None:
    first = blocks(GUIDE / "distillation.md", "yaml")[0]
    assert first == (EXAMPLES / "student.yaml").read_text(encoding="utf-8").split("\n", 1)[1]
    quick = ["metric.resamples=100", "data.quality.look=quick"]
    few = [*quick, "model.max_trees=20"]
    tw.train(EXAMPLES / "teacher.yaml", overrides=few, runs=tmp_path, name="income-teacher")
    bundle = f"training.teacher.bundle={tmp_path / 'income-teacher'}"
    few = [*quick, "model.trees=10", bundle]
    student = tw.train(EXAMPLES / "student.yaml", overrides=few, runs=tmp_path)
    alone = [*quick, "model.trees=10", "training.teacher=none"]
    untaught = tw.train(EXAMPLES / "student.yaml", overrides=alone, runs=tmp_path)
    gain = [run.evaluation.metrics["roc_auc"].value for run in (student, untaught)]
    assert gain[0] > gain[1] + 0.01
