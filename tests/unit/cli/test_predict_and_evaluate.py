"""Predictions and verdicts of a run, through the command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import polars as pl
import pytest

import trainwright as tw
from command import CONTRACT, PROCESS, command, inside, tree, write_rows
from frozen_result import assert_frozen

pytestmark = pytest.mark.usefixtures("in_project")


# predict


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_predictions_are_written_as_the_name_says(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out{suffix}"
    ran = command("predict", "small-1", "rows.csv", "-o", out)
    assert (ran.code, ran.out) == (0, f"300 predictions in {out}\n")
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".jsonl": pl.read_ndjson}[suffix]
    frame = read(out)
    assert frame.columns == ["prediction", "probability_no", "probability_yes"]
    assert frame.height == 300
    assert (frame["probability_no"] + frame["probability_yes"] - 1).abs().max() < 1e-6


def test_predictions_on_stdout_are_csv() -> None:
    ran = command("predict", "small-1", "rows.csv")
    assert ran.code == 0
    assert pl.read_csv(ran.out.encode()).height == 300


def test_the_json_of_predict(tmp_path: Path) -> None:
    ran = command("predict", "small-1", "rows.csv", "-o", tmp_path / "a.csv", "--json")
    shown = json.loads(ran.out)
    assert shown == {"rows": 300, "output": str(tmp_path / "a.csv"), "unseen": {}}


def test_columns_are_kept_on_request(tmp_path: Path) -> None:
    rows = (
        pl.read_csv("rows.csv").with_row_index("id").with_columns(pl.lit("x").alias("prediction"))
    )
    rows.write_csv(tmp_path / "new.csv")
    words = ("--keep", "id", "--keep", "id", "--keep", "prediction", "-o", tmp_path / "out.csv")
    assert command("predict", "small-1", tmp_path / "new.csv", *words).code == 0
    frame = pl.read_csv(tmp_path / "out.csv")
    assert frame.columns[:3] == ["id", "input_prediction", "prediction"]
    assert frame["id"].to_list() == list(range(300))
    ran = command("predict", "small-1", tmp_path / "new.csv", "--keep", "idd")
    assert ran.code == 2
    assert "did you mean 'id'?" in ran.err
    rows.with_columns(input_prediction=pl.lit("y")).write_csv(tmp_path / "new.csv")
    both = ("--keep", "input_prediction", "--keep", "prediction")
    ran = command("predict", "small-1", tmp_path / "new.csv", *both)
    assert ran.code == 2
    assert "two kept columns" in ran.err


@pytest.mark.parametrize("to_stdout", [False, True])
def test_cells_that_a_spreadsheet_runs_are_guarded_on_request(
    to_stdout: bool, tmp_path: Path
) -> None:
    formulas = ["=1+1", "+a", "-a", "@a", "\ta", "-5.2", "a=b"]
    rows = pl.read_csv("rows.csv").head(7).with_columns(pl.Series("=id", formulas))
    rows.with_columns(pl.Series("n", range(-3, 4))).write_csv(tmp_path / "new.csv")
    out = tmp_path / "out.csv"
    words = ["predict", "small-1", tmp_path / "new.csv", "--keep", "=id", "--keep", "n"]
    words += [] if to_stdout else ["-o", out]
    for guard in ((), ("--guard-formulas",)):
        ran = command(*words, *guard)
        assert ran.code == 0, ran.err
        frame = pl.read_csv(ran.out.encode() if to_stdout else out)
        mark = "'" if guard else ""
        guarded = [f"{mark}{text}" for text in formulas[:5]]
        assert frame[f"{mark}=id"].to_list() == [*guarded, *formulas[5:]]
        assert frame["n"].to_list() == list(range(-3, 4))


def test_formulas_are_guarded_in_csv_only(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    ran = command("predict", "small-1", "rows.csv", "--guard-formulas", "-o", out)
    assert (ran.code, out.exists()) == (2, False)


def test_categories_that_no_training_row_has_are_counted(tmp_path: Path) -> None:
    rows = pl.read_csv("rows.csv")
    cities = pl.Series("city", ["Atlantis"] * 7 + rows["city"].to_list()[7:])
    ages = pl.Series("age", [None] * 9 + rows["age"].to_list()[9:])
    rows.with_columns(cities, ages).write_csv(tmp_path / "new.csv")
    ran = command("predict", "small-1", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert "'city' has in 7 of 300 rows what no training row has: a new category" in ran.err
    assert "'age' has in 9 of 300 rows what no training row has" in ran.err
    assert command("predict", "small-1", "rows.csv", "-o", tmp_path / "out.csv").err == ""


def test_columns_that_are_unknown_in_most_rows_are_refused_unless_allowed(tmp_path: Path) -> None:
    new, out = tmp_path / "new.csv", tmp_path / "out.csv"
    pl.read_csv("rows.csv").with_columns(city=pl.lit(None), age=pl.lit(None)).write_csv(new)
    for words in (("evaluate", "small-1", new), ("predict", "small-1", new, "-o", out)):
        ran = command(*words)
        assert (ran.code, ran.out, out.exists()) == (2, "", False)
        assert "found: 300 of 300 rows empty, in " in ran.err
        ran = command(*words, "--allow-unknown", "city")
        assert ran.code == 2
        assert "allow it: --allow-unknown age" in ran.err
        assert "city" not in ran.err
        assert command(*words, "--allow-unknown", "city", "--allow-unknown", "age").code in (0, 3)
    rows, predictor = pl.read_csv(new), tw.load("runs/small-1")
    with pytest.raises(tw.Mistake, match="empty or unknown in most rows"):
        predictor.predict(rows)
    allowed = predictor.allow_unknown("city", "age").predict(rows)
    assert allowed["prediction"].to_list() == pl.read_csv(out)["prediction"].to_list()


def test_rows_without_the_target_can_be_predicted(tmp_path: Path) -> None:
    pl.read_csv("rows.csv").drop("bought").write_csv(tmp_path / "new.csv")
    assert command("predict", "small-1", tmp_path / "new.csv").code == 0


def test_what_predict_refuses(tmp_path: Path) -> None:
    pl.read_csv("rows.csv").drop("age").write_csv(tmp_path / "new.csv")
    for words, said in (
        (["small-1", "rows.csv", "-o", "out.xlsx"], "a name that ends in .csv"),
        (["small-1", "absent.csv"], "there is no such file"),
        (["small-2", "rows.csv"], "there is no run here"),
        (["small-1", tmp_path / "new.csv"], "age"),
        (["small-1", "rows.csv", "-o", tmp_path / "absent" / "out.csv"], "cannot be written"),
    ):
        before = tree(Path())
        ran = command("predict", *words)
        assert ran.code == 2, ran.err
        assert said in ran.err
        assert not ran.out
        assert tree(Path()) == before


# evaluate


def test_evaluate_shows_the_verdict_again() -> None:
    ran = command("evaluate", "small-1", "--json")
    assert_frozen(json.loads(ran.out))
    assert ran.code == (0 if json.loads(ran.out)["verdict"] == "met" else 3)
    # A folder is as good as a name.
    assert command("evaluate", "runs/small-1", "--json") == ran


def test_evaluate_judges_other_rows_and_writes_nothing(tmp_path: Path) -> None:
    write_rows(tmp_path / "later.csv", rows=1000, seed=5)
    before = tree(Path())
    ran = command("evaluate", "small-1", tmp_path / "later.csv", "--json")
    result = json.loads(ran.out)
    assert_frozen(result)
    assert sum(one["rows"] for one in result["slices"].values()) == 1000
    assert result != json.loads(command("evaluate", "small-1", "--json").out)
    shown = command("evaluate", "small-1", tmp_path / "later.csv")
    assert shown.code == ran.code
    assert "\nreport " not in shown.out, "it tells of the run's own test rows"
    assert "\nreport " in command("evaluate", "small-1").out
    assert tree(Path()) == before


def test_evaluate_says_that_the_model_has_seen_the_rows(tmp_path: Path) -> None:
    (tmp_path / "again.csv").write_bytes(Path("rows.csv").read_bytes())
    write_rows(tmp_path / "later.csv", seed=1)
    for file, seen in (("again.csv", True), ("later.csv", False)):
        ran = command("evaluate", "small-1", tmp_path / file, "--json")
        warned = [text for text in json.loads(ran.out)["warnings"] if "was trained on" in text]
        assert bool(warned) is seen


@pytest.mark.extended
@pytest.mark.parametrize(
    "paths",
    [
        "train_path: train/a.csv, val_path: val/a.csv, test_path: test/a.csv",
        "train_path: train, val_path: val, test_path: test",
        "train_path: train/*.csv, val_path: val/*.csv, test_path: test/*.csv",
    ],
)
def test_evaluate_says_nothing_of_files_that_were_kept_from_the_weights(
    tmp_path: Path, paths: str
) -> None:
    with inside(tmp_path):
        for seed, file in enumerate(("train/a", "train/b", "val/a", "test/a", "test/b")):
            Path(file).parent.mkdir(exist_ok=True)
            write_rows(Path(f"{file}.csv"), seed=seed)
        Path("small.yaml").write_text(CONTRACT)
        data = f'{{{paths}, target: bought, positive: "yes"}}'
        trained = command("train", "small.yaml", "--run", "one", "--set", f"data={data}")
        assert trained.code in (0, 3), trained.err
        for file, seen in (("train/a.csv", True), ("val/a.csv", False), ("test/a.csv", False)):
            ran = command("evaluate", "one", file)
            assert ("was trained on" in ran.out + ran.err) is seen, file


def test_evaluate_needs_the_target(tmp_path: Path) -> None:
    pl.read_csv("rows.csv").drop("bought").write_csv(tmp_path / "new.csv")
    ran = command("evaluate", "small-1", tmp_path / "new.csv")
    assert ran.code == 2
    assert "bought" in ran.err


@pytest.mark.extended
def test_a_terminal_without_unicode() -> None:
    done = subprocess.run(
        [*PROCESS, "evaluate", "small-1"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert b"Traceback" not in done.stderr
