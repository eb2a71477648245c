"""Every verb through the command, on one small trained run that the tests share."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import trainwright
from command import (
    CONTRACT,
    PROCESS,
    VERBS,
    command,
    inside,
    project_in,
    tree,
    write_project,
    write_rows,
)
from trainwright.contract.reading import read_contract

RESULT = ["baselines", "clauses", "metrics", "report", "run", "slices", "verdict", "warnings"]
CLAUSE = ["high", "low", "metric", "name", "slice", "status", "target", "value"]
INTERVAL = ["high", "low", "value"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, contract and one finished run, `small-1`."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    with inside(folder):
        ran = command("train", "small.yaml")
        assert ran.code in (0, 3), ran.err
    return folder


@pytest.fixture(autouse=True)
def in_project(project: Path) -> Iterator[None]:
    with inside(project):
        yield


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Path]:
    """A project of its own, without a run."""
    yield from project_in(tmp_path)


def assert_frozen(result: Any) -> None:
    """The keys that programs rely on."""
    assert sorted(result) == RESULT
    for clause in result["clauses"]:
        assert sorted(clause) == CLAUSE
    for score in result["metrics"].values():
        assert sorted(score) == INTERVAL
    assert sorted(result["baselines"]) == ["dummy", "linear"]
    for scores in result["baselines"].values():
        for score in scores.values():
            assert sorted(score) == INTERVAL
    for name, one in result["slices"].items():
        assert sorted(one) == ["roc_auc", "rows"], name
        assert sorted(one["roc_auc"]) == INTERVAL
    assert result["verdict"] in ("met", "missed", "undecided")


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


def test_runs_are_numbered_unless_they_are_named(fresh: Path) -> None:
    for words, name in (
        ([], "small-1"),
        (["--run", "other"], "other"),
        ([], "small-2"),
        (["--set", "name=tiny"], "tiny-1"),
    ):
        ran = command("train", "small.yaml", "--json", *words)
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
    assert "disk · " in ran.out
    assert "leak · " not in ran.out
    assert ran.out.splitlines()[-1].endswith("trainwright train small.yaml")
    asked = command(*words, "small.yaml", "--json")
    assert sorted(json.loads(asked.out)) == ["audit", "findings", "plan", "split"]
    assert tree(fresh) == before


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
    assert max(len(line) for line in (*ran.err.splitlines(), *lines)) <= 160
    assert "\x1b" not in ran.out + ran.err


def test_the_next_commands_can_be_run(fresh: Path) -> None:
    Path("nested").mkdir()
    ran = command("train", "small.yaml", "--runs", "nested/my runs")
    first, second = (line[10:] for line in ran.out.splitlines()[-2:])
    for line in (first, second):
        words = line.replace("trainwright", " ".join(f"'{word}'" for word in PROCESS), 1)
        done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert Path("predictions.csv").is_file()


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
    assert json.loads(ran.out) == {"rows": 300, "output": str(tmp_path / "a.csv")}


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
    assert command("evaluate", "small-1", tmp_path / "later.csv").code == ran.code
    assert tree(Path()) == before


def test_evaluate_needs_the_target(tmp_path: Path) -> None:
    pl.read_csv("rows.csv").drop("bought").write_csv(tmp_path / "new.csv")
    ran = command("evaluate", "small-1", tmp_path / "new.csv")
    assert ran.code == 2
    assert "bought" in ran.err


# runs


def test_runs_are_listed() -> None:
    (run,) = json.loads(command("runs", "list", "--json").out)
    assert sorted(run) == ["name", "started", "state", "verdict"]
    assert (run["name"], run["state"]) == ("small-1", "finished")
    shown = command("runs", "list")
    assert shown.out.splitlines()[0].split() == ["run", "state", "verdict", "started"]
    assert command("runs", "list", "--runs", "elsewhere").out == "no runs in elsewhere\n"


def test_a_run_is_shown() -> None:
    ran = command("runs", "show", "small-1")
    assert ran.code == 0
    assert "state     finished" in ran.out
    assert "roc_auc >= 0.6" in ran.out
    shown = json.loads(command("runs", "show", "small-1", "--json").out)
    assert sorted(shown) == ["record", "result", "run"]
    assert_frozen(shown["result"])
    assert command("runs", "show", "absent").code == 2


# init, schema, help, version


def test_init_writes_a_contract_that_can_be_checked(fresh: Path) -> None:
    ran = command("init", "rows.csv", "--target", "bought", "-o", "made.yaml")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "wrote made.yaml"
    assert read_contract(Path("made.yaml")).contract.data.target == "bought"
    assert command("check", "made.yaml").code == 0


def test_init_does_not_write_over_a_contract(fresh: Path) -> None:
    Path("contract.yaml").write_text("mine")
    ran = command("init", "rows.csv", "--target", "bought")
    assert ran.code == 2
    assert "--force" in ran.err
    assert Path("contract.yaml").read_text() == "mine"
    ran = command("init", "rows.csv", "--target", "bought", "--force", "--json")
    assert json.loads(ran.out) == {"contract": "contract.yaml"}
    assert "target: bought" in Path("contract.yaml").read_text()


def test_init_on_stdout(fresh: Path) -> None:
    before = tree(fresh)
    ran = command("init", "rows.csv", "--target", "bought", "-o", "-")
    assert ran.code == 0
    assert "  path: rows.csv" in ran.out.splitlines()
    assert tree(fresh) == before


def test_what_init_refuses(fresh: Path) -> None:
    before = tree(fresh)
    for words, said in (
        (["rows.csv", "--target", "bougth"], "did you mean 'bought'"),
        (["row.csv", "--target", "bought"], "did you mean 'rows.csv'"),
        (["rows.csv", "--target", "bought", "-o", "absent/a.yaml"], "cannot be written"),
    ):
        ran = command("init", *words)
        assert ran.code == 2, ran.err
        assert said in ran.err
    assert tree(fresh) == before


def test_the_schema_is_json() -> None:
    schema = json.loads(command("schema").out)
    assert {"data", "model", "metric", "slices"} <= set(schema["properties"])


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_help_of(verb: tuple[str, ...]) -> None:
    ran = command(*verb, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: trainwright {' '.join(verb)}")
    assert not ran.err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "sys.argv = ['trainwright', 'train', '--help']\n"
        "from trainwright.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'polars', 'sklearn', 'lightgbm', 'matplotlib'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([PROCESS[0], "-c", script], capture_output=True, text=True, check=False)
    assert not done.stderr.strip()


def test_the_version() -> None:
    ran = command("--version")
    assert (ran.code, ran.out) == (0, f"{trainwright.__version__}\n")


def test_no_verb_shows_help() -> None:
    ran = command()
    assert ran.code in (0, 2)
    assert "Usage: trainwright" in ran.out + ran.err


# Output that cannot be written.


def test_a_reader_that_stops_early_is_no_error() -> None:
    whole = " ".join(f"'{word}'" for word in PROCESS)
    done = subprocess.run(
        f"{whole} schema | head -n 1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stdout
    assert "Traceback" not in done.stderr


def test_a_terminal_without_unicode() -> None:
    done = subprocess.run(
        [*PROCESS, "evaluate", "small-1"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.returncode in (0, 3), done.stderr
    assert b"Traceback" not in done.stderr


# data cache


def test_the_cache_is_listed_and_cleared(
    fresh: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    assert "0 B" in command("data", "cache", "list").out
    assert not (tmp_path / "kept").exists()
    assert command("check", "small.yaml").code == 0
    listed = json.loads(command("data", "cache", "list", "--json").out)
    entry, found = sorted(listed["entries"], key=lambda one: one["name"], reverse=True)
    assert sorted(entry) == ["kept", "key", "name", "size_bytes"]
    assert (entry["name"], found["name"]) == ("rows.csv", "findings in small")
    assert entry["key"][:12] in command("data", "cache", "list").out
    for key in ("", "zz"):
        assert command("data", "cache", "clear", key).code == 2
    removed = json.loads(command("data", "cache", "clear", entry["key"][:6], "--json").out)
    assert removed["removed"] == [entry]
    assert command("check", "small.yaml").code == 0
    assert "2 of 2" in command("data", "cache", "clear").out
    assert json.loads(command("data", "cache", "list", "--json").out)["entries"] == []


def test_init_asks_which_column(fresh: Path) -> None:
    ran = command("init", "rows.csv", "-o", "asked.yaml")
    assert ran.code == 2
    assert "bought" in ran.err
    assert "--text COLUMN" in ran.err
    assert not Path("asked.yaml").exists()
