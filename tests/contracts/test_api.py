"""`tw.train` and `tw.load` on a small contract."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import trainwright as tw
from trainwright.core.errors import Mistake

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
