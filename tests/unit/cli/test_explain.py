"""`explain` through the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import NETWORK, command, inside, project_in, tree, with_layers, write_project
from trainwright.core.files import read_json
from trainwright.data.columns.class_target import Classes
from trainwright.data.encoders.pixel_statistics import Pixels, Rule
from trainwright.model.baselines.dummy import fit_constant
from trainwright.predictor.bundle import write_bundle
from trainwright.predictor.predictor import Predictor
from trainwright.tracking.run_folder import RunFolder


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose run `one` is explained."""
    folder = tmp_path_factory.mktemp("explained")
    write_project(folder, rows=900)
    with inside(folder):
        assert command("train", "small.yaml", "--run", "one").code in (0, 3)
        ran = command("explain", "one")
        assert ran.code == 0, ran.err
        (folder / "said.txt").write_text(ran.out)
    return folder


@pytest.mark.extended
def test_importances_are_shown_and_kept(explained: Path) -> None:
    said = (explained / "said.txt").read_text()
    found = read_json(explained / "runs/one/explanation.json")
    assert found["part"] == "validation"
    assert found["rows"] == found["of"] == 135
    assert found["metric"] == "roc_auc"
    by_column = {one["column"]: one for one in found["importance"]}
    assert set(by_column) == {"age", "city", "visits"}
    assert not by_column["age"]["includes_zero"]
    assert by_column["visits"]["includes_zero"]
    assert "visits (not distinguishable from 0)" in said
    assert "age (not" not in said
    assert "135 of 135 validation rows · 5 permutations a column" in said
    assert [one["column"] for one in found["partial_dependence"]] == list(by_column)


@pytest.mark.extended
def test_the_report_shows_them(explained: Path) -> None:
    page = (explained / "runs/one/report.html").read_text()
    assert "What the model reads" in page
    assert "not distinguishable from 0" in page
    assert "Partial dependence" in page


def test_the_run_stays_whole_and_the_test_rows_closed(explained: Path) -> None:
    with inside(explained):
        assert command("runs", "verify", "one").code == 0
    assert len(read_json(explained / "runs/one/evaluation.json")["opened"]) == 1


def test_the_json_of_explain(explained: Path) -> None:
    with inside(explained):
        ran = command("explain", "one", "--json")
    assert ran.code == 0
    shown = json.loads(ran.out)
    before = read_json(explained / "runs/one/explanation.json")
    assert shown == before
    assert set(shown) == {
        "format", "part", "rows", "of", "units", "repeats", "metric", "value", "confidence",
        "seconds", "importance", "partial_dependence", "notes",
    }  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_contributions_of_rows(explained: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    with inside(explained):
        ran = command("explain", "one", "rows.csv", "-o", out)
        predicted = command("predict", "one", "rows.csv")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[0].startswith("row 1     prediction ")
    assert ran.out.endswith(f"900 rows of contributions in {out}\n")
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}[suffix]
    frame = read(out)
    columns = ["contribution_age", "contribution_city", "contribution_visits"]
    assert frame.columns == ["prediction", "base", *columns]
    odds = frame.select(pl.sum_horizontal(pl.exclude("prediction"))).to_series()
    probability = pl.read_csv(predicted.out.encode())["probability_yes"]
    assert (1 / (1 + (-odds).exp()) - probability).abs().max() < 1e-6


def test_the_path_of_contributions_is_shown_safely(explained: Path, tmp_path: Path) -> None:
    with inside(explained):
        ran = command("explain", "one", "rows.csv", "-o", tmp_path / "a\x1b[31m.csv")
    assert ran.code == 0, ran.err
    assert "\x1b" not in ran.out
    assert "in " in ran.out.splitlines()[-1]


def test_rows_as_json(explained: Path) -> None:
    with inside(explained):
        ran = command("explain", "one", "rows.csv", "--json")
    shown = json.loads(ran.out)
    assert (shown["rows"], shown["output"]) == (900, "")
    assert len(shown["first"]) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "out.csv"), "no rows are named"),
        (("--set", "data.reading.encoding=cp1252"), "no rows are named"),
        (("rows.csv", "-o", "out.xls"), "contributions cannot be written so"),
        (("rows.csv", "-o", "nowhere/out.csv"), "the output cannot be written"),
        (("absent.csv",), "absent.csv"),
    ],
    ids=str,
)
def test_mistakes_write_nothing(explained: Path, words: tuple[str, ...], said: str) -> None:
    before = tree(explained)
    with inside(explained):
        ran = command("explain", "one", *words)
    assert ran.code == 2
    assert said in ran.err
    assert tree(explained) == before


def test_other_data_is_refused(tmp_path: Path) -> None:
    for _ in project_in(tmp_path):
        command("train", "small.yaml", "--run", "one")
        with (tmp_path / "rows.csv").open("a") as stream:
            stream.write("33,Oslo,9.5,yes\n")
        ran = command("explain", "one")
        assert ran.code == 11
        assert "has changed since it was trained" in ran.err
        assert not (tmp_path / "runs/one/explanation.json").exists()


@pytest.mark.extended
def test_an_edited_contract_does_not_matter(tmp_path: Path) -> None:
    """The run is explained by the contract that it was given."""
    for _ in project_in(tmp_path):
        command("train", "small.yaml", "--run", "one")
        (tmp_path / "small.yaml").write_text("not a contract: [")
        assert command("explain", "one").code == 0


def test_with_folds_rows_are_those_that_the_model_of_the_run_was_not_trained_on(
    tmp_path: Path,
) -> None:
    for _ in project_in(tmp_path):
        split = "data.split={kind: stratified, folds: 3}"
        ran = command("train", "small.yaml", "--run", "one", "--set", split)
        assert ran.code in (0, 3), ran.err
        assert command("explain", "one").code == 0
        found = read_json(tmp_path / "runs/one/explanation.json")
        split_facts = read_json(tmp_path / "runs/one/data/split.json")
        assert 0 < found["of"] == split_facts["rows"]["validation"]


def test_images_have_no_columns(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", "pictures")
    rule = Rule((4, 4), "grey", "stretch", "bilinear", 100)
    features = Pixels(1, 4, 4, (127.0,), (60.0,), rule)
    target = Classes("y", ("a", "b"), 1)
    shares = fit_constant(np.array([0, 1, 1]), 2)
    write_bundle(Predictor(features, target, shares), folder.bundle, {})
    with inside(tmp_path):
        ran = command("explain", "pictures")
    assert ran.code == 2
    assert "only a model of a table" in ran.err


@pytest.mark.extended
def test_contributions_of_xgboost(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    for _ in project_in(tmp_path):
        ran = command("train", "small.yaml", "--run", "one", "--set", "model.kind=xgboost")
        assert ran.code in (0, 3), ran.err
        ran = command("explain", "one", "rows.csv", "-o", "out.csv")
        assert ran.code == 0, ran.err
        odds = (
            pl.read_csv("out.csv").select(pl.sum_horizontal(pl.exclude("prediction"))).to_series()
        )
        predicted = command("predict", "one", "rows.csv")
        probability = pl.read_csv(predicted.out.encode())["probability_yes"]
        assert (1 / (1 + (-odds).exp()) - probability).abs().max() < 1e-4


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_has_importances_and_no_contributions(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert "mlp" in with_layers("[4]")
    for _ in project_in(tmp_path, NETWORK):
        command("train", "small.yaml", "--run", "one")
        ran = command("explain", "one")
        assert ran.code == 0, ran.err
        assert "SHAP" not in ran.out
        found = read_json(tmp_path / "runs/one/explanation.json")
        assert {one["mean_contribution"] for one in found["importance"]} == {None}
        ran = command("explain", "one", "rows.csv")
        assert ran.code == 2
        assert "those of trees" in ran.err
