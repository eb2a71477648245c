"""Every other verb through the command, help, and output that cannot be written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import trainwright
from command import PROCESS, VERBS, command, tree
from frozen_result import assert_frozen
from trainwright.contract.reading.read_contract import read_contract

pytestmark = pytest.mark.usefixtures("in_project")


# runs


def test_runs_are_listed() -> None:
    (run,) = json.loads(command("runs", "list", "--json").out)
    known = {"name", "started", "state", "verdict"}
    assert set(run) == known | {
        *("extended", "metric", "model", "part", "price", "score", "seconds", "trials")
    }
    assert (run["name"], run["state"]) == ("small-1", "finished")
    shown = command("runs", "list")
    columns = ["state", "verdict", "model", "metric", "score", "interval", "time", "started", "run"]
    assert shown.out.splitlines()[0].split() == columns
    assert command("runs", "list", "--model", "gpt").out == "no such runs in runs\n"
    assert command("runs", "list", "--runs", "elsewhere").out == "no runs in elsewhere\n"


def test_a_comparison_needs_a_second_run() -> None:
    ran = command("runs", "compare", "small-1", "small-1")
    assert ran.code == 2
    assert "two or more different runs" in ran.err
    page = command("runs", "compare", "small-1", "absent", "-o", "page.html")
    assert page.code == 2


def test_a_run_is_shown() -> None:
    ran = command("runs", "show", "small-1")
    assert ran.code == 0
    assert "state     finished" in ran.out
    assert "roc_auc >= 0.6" in ran.out
    shown = json.loads(command("runs", "show", "small-1", "--json").out)
    assert sorted(shown) == ["extensions", "model", "record", "result", "run"]
    assert_frozen(shown["result"])
    assert command("runs", "show", "absent").code == 2


# init, schema, help, version


def test_init_writes_a_contract_that_can_be_checked(fresh: Path) -> None:
    ran = command("init", "rows.csv", "--target", "bought", "-o", "made.yaml")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "wrote made.yaml"
    assert read_contract(Path("made.yaml")).contract.data.target == "bought"
    assert command("check", "made.yaml").code == 0


def test_one_column_and_one_epoch_are_counted_as_one(fresh: Path) -> None:
    Path("one.csv").write_text("x,y\n" + "".join(f"{n / 7},{n % 9 / 3}\n" for n in range(90)))
    written = "data: {path: one.csv, target: y}\nmodel: {kind: mlp}\ntraining: {num_epochs: 1}\n"
    Path("one.yaml").write_text(written)
    ran = command("check", "one.yaml")
    assert ran.code == 0
    shown = ran.out + ran.err
    assert "90 rows · 1 numeric column\n" in shown
    assert "at most 1 epoch of " in shown


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


def test_the_module_runs_the_command() -> None:
    done = subprocess.run(
        [PROCESS[0], "-m", "trainwright", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{trainwright.__version__}\n"


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


# data cache


@pytest.mark.extended
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


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, "PASSIVE 20000"),
        ({"GOMP_SPINCOUNT": "7"}, "PASSIVE 7"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE None"),
    ],
)
def test_threads_wait_as_the_user_says_or_spin_for_a_moment(
    own: dict[str, str], expected: str
) -> None:
    program = (
        "import os, sys; sys.argv = ['trainwright', '--version']\n"
        "from trainwright.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(os.environ['OMP_WAIT_POLICY'], os.environ.get('GOMP_SPINCOUNT'))"
    )
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=inherited | own,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == expected
