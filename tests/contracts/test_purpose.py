"""`purpose`: what a run must hold is read back from its folder, and decides the verdict."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trainwright as tw
from command import CONTRACT, Ran, command, inside, write_project
from page_runs import run_page
from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import NotAvailable
from trainwright.core.files import read_json
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.judging.judge_purpose import HELD, judge_purpose
from trainwright.tracking.run_folder import RunFolder

QUICK = ("metric.resamples=100", "data.quality.look=quick", "slices=[]", "metric.target=0.01")
PRODUCTION = ("purpose=production", "serving={latency_ms: 5000, megabytes: 50}")
RESEARCH = ("purpose=research", "training.seeds=2")
PARTS = "data.split={kind: column, column: part}"
BENCHMARK = ("purpose=benchmark", "training.seeds=2", PARTS)


def trains(run: str, *settings: str) -> Ran:
    words = [word for setting in (*QUICK, *settings) for word in ("--set", setting)]
    return command("train", "small.yaml", "--run", run, *words)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the runs `use`, `science`, `contest`, and of an unstated purpose `plain`."""
    folder = tmp_path_factory.mktemp("purposes")
    write_project(folder, CONTRACT)
    rows = pl.read_csv(folder / "rows.csv").with_row_index("at")
    part = pl.when(pl.col("at") % 4 == 0).then(pl.lit("test"))
    part = part.when(pl.col("at") % 4 == 1).then(pl.lit("validation")).otherwise(pl.lit("train"))
    rows.with_columns(part.alias("part")).drop("at").write_csv(folder / "rows.csv")
    with inside(folder):
        kept = {
            "plain": ("data.exclude=[part]",),
            "use": ("data.exclude=[part]", "training.calibration=platt", *PRODUCTION),
            "science": ("data.exclude=[part]", *RESEARCH),
            "contest": BENCHMARK,
        }
        for run, settings in kept.items():
            ran = trains(run, *settings)
            assert ran.code == 0, ran.err
        yield folder


def clauses(run: str) -> dict[str, str]:
    return {
        one["name"]: one["status"]
        for one in read_json(Path("runs", run, "evaluation.json"))["verdict"]["clauses"]
        if one["metric"] == HELD
    }


@pytest.mark.parametrize(
    ("run", "demands"),
    [
        ("plain", []),
        (
            "use",
            [
                "production: a whole bundle",
                "production: an input signature",
                "production: a training profile",
                "production: a calibration (platt)",
            ],
        ),
        (
            "science",
            ["research: predictions of every test row", "research: everything that was tried"],
        ),
        (
            "contest",
            ["benchmark: predictions of every test row", "benchmark: models of 2 seeds"],
        ),
    ],
)
def test_each_demand_is_a_clause(project: Path, run: str, demands: list[str]) -> None:
    assert clauses(run) == dict.fromkeys(demands, "met")


def test_a_model_for_production_has_a_card(project: Path) -> None:
    card = Path("runs/use/model_card.md").read_text(encoding="utf-8")
    assert card == command("card", "use").out
    assert "production: an input signature" in card
    assert not Path("runs/plain/model_card.md").exists()


def again(run: str, copy: Path) -> tuple[Verdict, Any]:
    """The verdict of the copy of a run, with its purpose judged anew."""
    folder, judged = RunFolder(copy), read_judged(RunFolder(Path("runs", run)))
    own = Verdict("met", tuple(one for one in judged.verdict.clauses if one.metric != HELD))
    plan = read_json(folder.plan)
    contract = read_contract(Path("small.yaml"), [*QUICK, *plan["overrides"]]).contract
    predictor = read_bundle(Path("runs", run, "bundle"))
    rows = judged.evaluation.rows
    return judge_purpose(contract, predictor, folder, rows, (own, judged.evaluation))


@pytest.mark.parametrize(
    ("run", "lost", "missed"),
    [
        ("use", "bundle/profile.json", "an input signature and a training profile"),
        ("use", "bundle/features.json", "a whole bundle"),
        ("science", "predictions.parquet", "predictions of every test row"),
        ("science", "baselines/linear/bundle.json", "everything that was tried"),
        ("science", "seeds/01/bundle/target.json", "everything that was tried"),
        ("contest", "seeds/01/bundle/bundle.json", "models of 2 seeds"),
    ],
)
def test_what_is_lost_is_a_missed_clause(
    project: Path, tmp_path: Path, run: str, lost: str, missed: str
) -> None:
    copy = tmp_path / run
    shutil.copytree(Path("runs", run), copy)
    # Written once the run is finished, after its purpose was judged.
    RunFolder(copy).checksums.unlink()
    whole, _ = again(run, copy)
    assert whole.status == "met"
    (copy / lost).unlink()
    verdict, evaluation = again(run, copy)
    assert verdict.status == "missed"
    wrong = [one.name for one in verdict.clauses if one.status == "missed"]
    assert any(name.endswith(missed) for name in wrong)
    assert any(missed in warning for warning in evaluation.warnings)


def test_fewer_judged_rows_than_the_test_part_has_are_missed(project: Path) -> None:
    judged = read_judged(RunFolder(Path("runs/contest")))
    contract = read_contract(Path("small.yaml"), [*QUICK, *BENCHMARK]).contract
    predictor, folder = read_bundle(Path("runs/contest/bundle")), RunFolder(Path("runs/contest"))
    rows = judged.evaluation.rows + 1
    given = (judged.verdict, judged.evaluation)
    verdict, evaluation = judge_purpose(contract, predictor, folder, rows, given)
    assert verdict.status == "missed"
    assert f"of {rows} rows" in evaluation.warnings[-1]


@pytest.mark.extended
def test_a_calibration_that_cannot_be_fitted_changes_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, CONTRACT)
    rows = pl.read_csv("rows.csv").with_row_index("at")
    validates = (pl.col("at") % 8 == 0) & (pl.col("bought") == "no")
    part = pl.when(validates).then(pl.lit("validation"))
    part = part.when(pl.col("at") % 8 > 4).then(pl.lit("test")).otherwise(pl.lit("train"))
    rows.with_columns(part.alias("part")).drop("at").write_csv("rows.csv")
    ran = trains("one", PARTS, "training.calibration=platt", *PRODUCTION)
    assert ran.code == 3, ran.err
    assert "not calibrated" in ran.err + ran.out
    assert clauses("one")["production: a calibration (platt)"] == "missed"
    plain = trains("two", PARTS, "training.calibration=platt", "metric.target=dummy")
    assert plain.code == 0, plain.err


def test_a_model_of_the_callers_own_has_no_bundle(project: Path) -> None:
    data = tw.prepare("small.yaml", overrides=[*QUICK, "purpose=research", "data.exclude=[part]"])
    with pytest.raises(NotAvailable, match="purpose"):
        tw.judge(lambda rows: [[0.5, 0.5]] * len(rows), data)


@pytest.mark.extended
def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page("purpose.md", "# What a model is for", monkeypatch)
