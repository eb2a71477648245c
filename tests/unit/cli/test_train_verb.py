"""`trainwright train` and what it leaves, through the command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import CONTRACT, PROCESS, command, tree
from frozen_result import assert_frozen

pytestmark = pytest.mark.usefixtures("in_project")


# train


def test_the_json_of_train_is_frozen(fresh: Path) -> None:
    ran = command("train", "small.yaml", "--json")
    result = json.loads(ran.out)
    assert_frozen(result)
    assert result["run"] == "small-1"
    assert result["report"] == "runs/small-1/report.html"
    assert [clause["name"] for clause in result["clauses"]] == [
        "roc_auc >= 0.6",
        "roc_auc >= 0.1 on city=Bern",
        "roc_auc >= 0.1 on city=Oslo",
        "roc_auc >= 0.1 on city=Rome",
    ]
    assert set(result["slices"]) == {"city=Bern", "city=Oslo", "city=Rome"}
    assert "data      rows.csv" in ran.err


@pytest.mark.parametrize(
    ("target", "code", "verdict"), [("0.1", 0, "met"), ("1", 3, "missed"), ("0.8", 3, "undecided")]
)
def test_the_verdict_is_the_exit_code(fresh: Path, target: str, code: int, verdict: str) -> None:
    Path("small.yaml").write_text(CONTRACT.partition("slices:")[0])
    ran = command("train", "small.yaml", "--json", "--set", f"metric.target={target}")
    assert (ran.code, json.loads(ran.out)["verdict"]) == (code, verdict)


@pytest.mark.extended
def test_runs_are_numbered_unless_they_are_named(fresh: Path) -> None:
    for words, name in (
        ([], "small-1"),
        (["--run", "other"], "other"),
        ([], "small-2"),
        (["--set", "name=tiny"], "tiny-1"),
    ):
        ran = command("train", "small.yaml", "--json", *words)
        assert ran.code in (0, 3), (ran.code, ran.err)
        assert json.loads(ran.out)["run"] == name
        assert Path("runs", name, "report.html").is_file()


def test_an_override_replaces_a_value(fresh: Path) -> None:
    ran = command("train", "small.yaml", "--set", "model.max_trees=2", "--set", "seed=9")
    assert "at most 2 trees" in ran.err
    plan = json.loads(Path("runs/small-1/plan.json").read_text())
    assert (plan["contract"]["model"]["max_trees"], plan["contract"]["seed"]) == (2, 9)
    assert plan["overrides"] == ["model.max_trees=2", "seed=9"]
    # The contract is kept as it was written.
    assert Path("runs/small-1/contract.yaml").read_text() == CONTRACT


@pytest.mark.parametrize("words", [["train", "--dry-run"], ["check"]])
def test_looking_first_writes_nothing(fresh: Path, words: list[str]) -> None:
    before = tree(fresh)
    ran = command(*words, "small.yaml")
    assert ran.code == 0
    assert "disk · " not in ran.out
    assert "leak · " not in ran.out
    assert ran.out.splitlines()[-1].endswith("trainwright train small.yaml")
    asked = command(*words, "small.yaml", "--json")
    assert sorted(json.loads(asked.out)) == ["audit", "findings", "plan", "sample", "split"]
    assert tree(fresh) == before


def test_the_report_draws_the_held_out_rows(project: Path) -> None:
    page = Path("runs/small-1/report.html").read_text()
    lines = re.findall(r'<polyline points="([^"]*)"/></svg>\n<p class="ends">', page)
    assert lines
    for line in lines:
        points = [tuple(map(float, point.split(","))) for point in line.split()]
        assert {len(point) for point in points} == {2}


def test_the_folder_of_a_run_is_complete(project: Path) -> None:
    run = Path("runs/small-1")
    for name in (
        "contract.yaml",
        "plan.json",
        "record.json",
        "preflight.json",
        "data/manifest.json",
        "data/split.json",
        "bundle/bundle.json",
        "baselines/linear/bundle.json",
        "evaluation.json",
        "report.html",
    ):
        assert (run / name).is_file(), name
    assert not [path for path in run.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]
    record = json.loads((run / "record.json").read_text())
    assert record["ending"]["state"] == "finished"
    assert record["command"][:3] == ["trainwright", "train", "small.yaml"]


def test_results_and_progress_do_not_mix(fresh: Path) -> None:
    ran = command("train", "small.yaml")
    labels = [line.split()[0] for line in ran.err.splitlines()]
    assert labels[:4] == ["data", "target", "split", "plan"]
    assert labels[-2:] == ["trained", "time"]
    lines = ran.out.splitlines()
    assert lines[0].startswith("scores    roc_auc · model 0.")
    assert [line.split("  ")[0] for line in lines[-4:-1]] == ["verdict", "report", "next"]
    assert lines[-3] == "report    runs/small-1/report.html"
    assert lines[-2].startswith("next      trainwright predict small-1 rows.csv")
    assert lines[-1] == "          trainwright runs list"
    assert max(len(line) for line in (*ran.err.splitlines(), *lines)) <= 180
    assert "\x1b" not in ran.out + ran.err


@pytest.mark.extended
def test_the_next_commands_can_be_run(fresh: Path) -> None:
    Path("nested").mkdir()
    ran = command("train", "small.yaml", "--runs", "nested/my runs")
    first, second = (line[10:] for line in ran.out.splitlines()[-2:])
    for line in (first, second):
        words = line.replace("trainwright", " ".join(f"'{word}'" for word in PROCESS), 1)
        done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert Path("predictions.csv").is_file()


def test_the_advice_on_a_doubtful_column_is_yaml(tmp_path: Path) -> None:
    """Forms of dates begin with a mark that begins no plain value."""
    draws = np.random.default_rng(0)
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 10, 26), "1d", eager=True)
    forms = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y")
    written = [day.strftime(forms[at % 3]) for at, day in enumerate(days)]
    frame = {"sent": written, "a": draws.normal(size=300), "b": draws.normal(size=300)}
    pl.DataFrame(frame).write_csv(tmp_path / "rows.csv")
    contract = tmp_path / "mixed.yaml"
    contract.write_text(
        "data: {path: rows.csv, target: b}\nmodel: {kind: linear}\nmetric: {name: rmse}\n"
    )
    checked = command("check", str(contract))
    (line,) = [one for one in checked.err.splitlines() if "to decide it, write" in one]
    path, _, value = line.partition("to decide it, write ")[2].partition(": ")
    again = command("check", str(contract), "--set", f"{path}={value}")
    assert again.code == 0, again.err
    assert "to decide it" not in again.err


def test_trees_that_cannot_split_say_so(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    pl.DataFrame({"a": draws.normal(size=40), "b": draws.normal(size=40)}).write_csv(
        tmp_path / "rows.csv"
    )
    contract = tmp_path / "few.yaml"
    contract.write_text(
        "data: {path: rows.csv, target: b}\n"
        "model: {kind: boosting, max_trees: 5}\nmetric: {name: rmse, resamples: 100}\n"
    )
    words = ("train", str(contract), "--runs", str(tmp_path / "runs"))
    assert "the trees have no split" in command(*words, "--set", "model.min_data_in_leaf=20").out
    ran = command(*words, "--set", "model.min_data_in_leaf=3")
    assert ran.code in (0, 3)
    assert "no split" not in ran.out
