"""`tw.train` and `tw.load` on a small contract."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import trainwright as tw
from trainwright.api import TrainedRun
from trainwright.core.errors import Mistake

pytestmark = pytest.mark.usefixtures("whole_pages")

CONTRACT = """
data: {path: rows.csv, target: bought}
model: {kind: linear}
metric: {name: roc_auc, target: 0.6}
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    draw = random.Random(0)
    lines = ["age,city,bought"]
    for _ in range(400):
        age, city = draw.randint(18, 80), draw.choice(["Rome", "Oslo"])
        lines.append(f"{age},{city},{'yes' if age + draw.gauss(0, 12) > 50 else 'no'}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = tmp_path / "contract.yaml"
    path.write_text(CONTRACT, encoding="utf-8")
    return path


def test_train_gives_the_judged_run_and_load_its_model(
    contract: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tw.train(str(contract), overrides=["metric.resamples=100"], runs=tmp_path / "runs")
    assert run.verdict.status == "met"
    assert run.folder == tmp_path / "runs" / run.name
    assert run.report.is_file()
    assert run.to_json()["run"] == run.name
    assert run.predictor is run.predictor
    rows = {"age": [20, 79], "city": ["Rome", "Oslo"]}
    loaded = tw.load(run.folder / "bundle").predict(rows)
    assert loaded["prediction"].to_list() == ["no", "yes"]
    assert loaded.equals(run.predictor.predict(rows))
    said = capsys.readouterr()
    assert said.out == ""
    assert "rows.csv" in said.err


def test_a_mistake_writes_nothing(contract: Path, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="price"):
        tw.train(contract, overrides=["data.target=price"], runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


SECTIONS = {
    "data": {"path": "frame://people", "target": "bought"},
    "model": {"kind": "linear"},
    "metric": {"name": "roc_auc", "target": 0.6, "resamples": 100},
}


def people(rows: int = 300) -> dict[str, list[object]]:
    draw = random.Random(1)
    ages = [draw.randint(18, 80) for _ in range(rows)]
    bought = [int(age + draw.gauss(0, 12) > 50) for age in ages]
    return {"age": [*ages], "city": [draw.choice(["Rome", "Oslo"]) for _ in ages], "bought": bought}


@pytest.mark.extended
def test_a_contract_may_be_a_mapping_or_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frames = {"people": people()}
    run = tw.train(SECTIONS, frames=frames)
    assert run.name == "run-1"
    document = tw.read_contract(run.folder / "contract.yaml")
    assert tw.train(document, frames=frames).to_json()["metrics"] == run.to_json()["metrics"]
    contract = document.contract
    again = tw.train(contract, frames=frames)
    assert again.to_json()["metrics"] == run.to_json()["metrics"]
    held = tw.train(contract, frames=frames, name=again.name, resume=True)
    assert held.verdict == again.verdict


def test_a_mapping_is_checked_like_a_file(tmp_path: Path) -> None:
    wrong = {**SECTIONS, "model": {"kind": "linaer"}}
    with pytest.raises(tw.Mistake, match="linear"):
        tw.train(wrong, runs=tmp_path / "runs")
    with pytest.raises(tw.Mistake, match="YAML cannot"):
        tw.train({**SECTIONS, "name": object()}, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    folder = tmp_path_factory.mktemp("api")
    return tw.train(SECTIONS, frames={"people": people()}, runs=folder / "runs")


@pytest.mark.extended
def test_load_takes_the_folder_of_a_run(trained: TrainedRun, tmp_path: Path) -> None:
    rows = {"age": [20, 79], "city": ["Rome", "Oslo"]}
    expected = trained.predictor.predict(rows)
    assert tw.load(trained.folder).predict(rows).equals(expected)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "data").mkdir()
    with pytest.raises(tw.Mistake, match="no model yet"):
        tw.load(tmp_path)


def test_predictions_are_a_frame_of_the_library_that_the_rows_came_from(
    trained: TrainedRun,
) -> None:
    rows = {"age": [20, 79], "city": ["Rome", None]}
    expected = trained.predictor.predict(pl.DataFrame(rows))
    assert expected["prediction"].dtype == pl.Int64
    assert expected["prediction"].to_list() == [0, 1]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows, index=[7, 9])
    answer = trained.predictor.predict(frame)
    assert isinstance(answer, pandas.DataFrame)
    assert answer.index.tolist() == [7, 9]
    assert pl.DataFrame(answer.to_dict("list")).equals(expected)
    arrow = pytest.importorskip("pyarrow")
    table = trained.predictor.predict(arrow.table(rows))
    assert isinstance(table, arrow.Table)
    assert pl.DataFrame(table).equals(expected)


def test_a_run_fits_the_prompt_and_the_cell_of_a_notebook(trained: TrainedRun) -> None:
    shown = repr(trained)
    assert shown.startswith(f"run {trained.name}: MET")
    assert "roc_auc" in shown
    assert len(shown.splitlines()) < 20
    page = trained._repr_html_()
    assert "<table>" in page
    assert len(page) < 4000


def test_texts_in_a_cell_are_escaped(trained: TrainedRun) -> None:
    warned = replace(trained.result.evaluation, warnings=("<mark>bold</mark>",))
    page = replace(trained, result=replace(trained.result, evaluation=warned))._repr_html_()
    assert "<mark>" not in page
    assert "&lt;mark&gt;" in page
