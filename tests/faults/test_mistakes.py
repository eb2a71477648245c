"""Each mistake a person can make, through the command: what is said, how it exits, what it leaves.

A mistake names file, line, path, what was found, what was expected and the fix; it exits 2 without
a traceback, and the folder is as it was.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from command import CONTRACT, PROCESS, Ran, command, project_in, tree, with_layers
from faults.disks import small_disk
from trainwright.tracking.folder import RunFolder

NETWORK = with_layers("[8]")


@dataclass(frozen=True, slots=True)
class Case:
    """A project made wrong, and what the message must hold, one word or line after the other."""

    name: str
    spoil: Callable[[Path], None]
    says: tuple[str, ...]


def lines_of(folder: Path) -> list[str]:
    return (folder / "rows.csv").read_text().splitlines()


def rows(
    change: Callable[[list[str]], list[str]], encoding: str = "utf-8"
) -> Callable[[Path], None]:
    """Spoil by other lines in `rows.csv`."""

    def spoil(folder: Path) -> None:
        text = "\n".join(change(lines_of(folder))) + "\n"
        (folder / "rows.csv").write_bytes(text.encode(encoding))

    return spoil


def fifth(line: str) -> Callable[[list[str]], list[str]]:
    """Other content in the fifth line of the file."""
    return lambda lines: [*lines[:4], line, *lines[5:]]


def contract(text: str) -> Callable[[Path], None]:
    """Spoil by another contract."""

    def spoil(folder: Path) -> None:
        (folder / "small.yaml").write_text(text)

    return spoil


def other(old: str, new: str) -> Callable[[Path], None]:
    """Spoil by other words in the contract."""
    assert old in CONTRACT
    return contract(CONTRACT.replace(old, new))


def empty(folder: Path) -> None:
    (folder / "rows.csv").write_bytes(b"")


def parquet(cut: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Spoil by a Parquet file that is not whole."""

    def spoil(folder: Path) -> None:
        pl.read_csv(folder / "rows.csv").write_parquet(folder / "rows.parquet")
        (folder / "rows.parquet").write_bytes(cut((folder / "rows.parquet").read_bytes()))
        other("rows.csv", "rows.parquet")(folder)

    return spoil


class Canary:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, ("unpickled",)


def pickled(folder: Path) -> None:
    (folder / "rows.parquet").write_bytes(pickle.dumps(Canary()))
    other("rows.csv", "rows.parquet")(folder)


CASES = [
    Case(
        "missing file",
        other("rows.csv", "row.csv"),
        (
            "small.yaml:4: data.path: ",
            "found: row.csv",
            "expected: ",
            "fix: did you mean 'rows.csv'",
        ),
    ),
    Case(
        "empty file",
        empty,
        ("rows.csv: data.path: ", "empty", "found: 0 bytes", "expected: ", "fix: "),
    ),
    Case(
        "header only",
        rows(lambda lines: lines[:1]),
        ("rows.csv: data.path: ", "no rows", "found: 0 rows", "expected: ", "fix: "),
    ),
    Case(
        "one row",
        rows(lambda lines: lines[:2]),
        ("rows.csv: data.path: ", "only one row", "found: 1 row\n", "expected: ", "fix: "),
    ),
    Case(
        "one class",
        rows(lambda lines: [lines[0], *(line for line in lines if line.endswith("yes"))]),
        ("rows.csv: bought: ", "same value", "found: 'yes'", "expected: ", "fix: ", "data.target"),
    ),
    Case(
        "target absent",
        other("target: bought", "target: bougth"),
        (
            "rows.csv: data.target: ",
            "found: bougth",
            "expected: one of: age, city, visits, bought",
            "fix: did you mean 'bought'",
        ),
    ),
    Case(
        "target missing in a row",
        rows(fifth("44,Bern,3.0,")),
        ("rows.csv:5: bought: ", "missing in 1 of 300", "found: line 5", "expected: ", "fix: "),
    ),
    Case(
        "target missing in every row",
        rows(lambda lines: [lines[0], *(line.rpartition(",")[0] + "," for line in lines[1:])]),
        ("rows.csv: bought: ", "missing in every row", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "infinity",
        rows(fifth("44,Bern,inf,no")),
        ("rows.csv:5: visits: ", "infinite", "found: 1 ", "line 5", "expected: ", "fix: "),
    ),
    Case(
        "duplicate column names",
        rows(lambda lines: ["age,age,visits,bought", *lines[1:]]),
        ("rows.csv:1: data.path: ", "more than once", "found: 'age'", "expected: ", "fix: "),
    ),
    Case(
        "not UTF-8",
        rows(fifth("44,Zürich,3.0,no"), "latin-1"),
        (
            "rows.csv:5: data.path: ",
            "UTF-8",
            "found: byte 0xfc",
            "expected: UTF-8",
            "fix: set data.reading.encoding to cp1252",
        ),
    ),
    Case(
        "broken quotes",
        rows(fifth('44,"Bern,3.0,no')),
        ("rows.csv:5: data.path: ", "does not end", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "nothing but a byte order mark",
        rows(lambda lines: [], "utf-8-sig"),
        ("rows.csv", "data.path: ", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "a blank first line",
        rows(lambda lines: ["", *lines]),
        ("rows.csv:1: data.path: ", "no column names", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "a broken quote in the header",
        rows(lambda lines: ['"age,city,visits,bought', *lines[1:]]),
        ("rows.csv:1: data.path: ", "does not end", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "nothing but the target",
        rows(lambda lines: [line.rpartition(",")[2] for line in lines]),
        ("rows.csv: data.columns: ", "no column is left", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "a slice that cannot be computed",
        other("column: city,", "name: young, where: 'age <',"),
        ("small.yaml:14: slices.0.where: ", "found: age <", "expected: ", "fix: "),
    ),
    Case(
        "truncated Parquet",
        parquet(lambda data: data[: len(data) // 2]),
        ("rows.parquet: data.path: ", "cut short", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "Parquet with a hole",
        parquet(lambda data: data[: len(data) // 2] + data[-8:]),
        ("rows.parquet: data.path: ", "damaged", "found: ", "expected: ", "fix: "),
    ),
    Case(
        "a pickle named .parquet",
        pickled,
        ("rows.parquet: data.path: ", "found: Python pickle", "expected: Parquet", "fix: "),
    ),
    Case(
        "unknown key",
        other("max_trees", "max_tree"),
        (
            "small.yaml:9: model.max_tree: ",
            "unknown key",
            "expected: ",
            "fix: did you mean max_trees",
        ),
    ),
    Case(
        "wrong type",
        other("max_trees: 5", "max_trees: five"),
        ("small.yaml:9: model.max_trees: ", "found: five", "expected: a whole number", "fix: "),
    ),
    Case(
        "negative learning rate",
        other("max_trees: 5", "learning_rate: -0.1"),
        (
            "small.yaml:9: model.learning_rate: ",
            "found: -0.1",
            "expected: a number above 0",
            "fix: ",
        ),
    ),
    Case(
        "batch size 0",
        contract(NETWORK + "training: {batch_size: 0}\n"),
        ("small.yaml:15: training.batch_size: ", "found: 0", "expected: ", "at least 1", "fix: "),
    ),
    Case(
        "contradictory settings",
        contract(
            NETWORK + "training:\n  batch_size: 32\n  gradient_accumulation_steps: 4\n"
            "  effective_batch_size: 64\n"
        ),
        (
            "small.yaml:18: training.effective_batch_size: ",
            "training.batch_size 32",
            "training.gradient_accumulation_steps 4",
            "found: 64",
            "expected: 128",
            "fix: ",
        ),
    ),
]


def mistaken(*arguments: str | Path) -> Ran:
    """A command that must be refused as a mistake, in the working folder, leaving it as it was."""
    before = tree(Path())
    ran = command(*arguments)
    assert ran.code == 2, ran.err
    assert not ran.out
    assert "Traceback" not in ran.err
    assert tree(Path()) == before
    return ran


def process(*words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, in the working folder."""
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


@pytest.mark.row("F-34")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("verb", ["train", "check"])
def test_a_mistake(project: Path, case: Case, verb: str) -> None:
    case.spoil(project)
    ran = mistaken(verb, "small.yaml")
    at = 0
    for said in case.says:
        assert said in ran.err[at:], f"{said!r} is not said, or not in its place:\n{ran.err}"
        at = ran.err.index(said, at) + len(said)


def test_mistakes_are_told_all_at_once(project: Path) -> None:
    contract(NETWORK + "training: {batch_size: 0, optimizer: {learning_rate: -1}, epochs: 3}\n")(
        project
    )
    ran = mistaken("train", "small.yaml")
    for path in ("training.batch_size", "training.optimizer.learning_rate", "training.epochs"):
        assert f": {path}: " in ran.err


def test_an_override_is_to_blame(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--set", "model.max_trees=0")
    assert "--set model.max_trees=0: model.max_trees: " in ran.err


def test_a_column_without_values_is_left_out_with_its_reason(project: Path) -> None:
    rows(lambda lines: [f"{lines[0]},void", *(f"{line}," for line in lines[1:])])(project)
    ran = command("train", "small.yaml", "--dry-run")
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if line.startswith("left out")]
    assert "void (" in line
    assert "no training row has a value" in line


def test_nan_counts_as_missing(project: Path) -> None:
    rows(fifth("44,Bern,nan,no"))(project)
    ran = command("train", "small.yaml", "--dry-run", "--json")
    assert ran.code == 0
    assert "3 feature columns" in ran.err or "2 numeric, 1 categorical" in ran.err


def test_a_real_process_has_no_traceback_either(project: Path) -> None:
    empty(project)
    before = tree(project)
    done = process(*PROCESS, "train", "small.yaml")
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.startswith("rows.csv: data.path: the file is empty")
    assert "Traceback" not in done.stderr
    assert tree(project) == before


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "frobnicate"])
def test_missing_arguments_exit_2(project: Path, verb: str) -> None:
    ran = mistaken(verb)
    assert "Usage: trainwright" in ran.err


def test_no_contract(project: Path) -> None:
    ran = mistaken("train", "smal.yaml")
    assert ran.err.startswith("smal.yaml: there is no such contract")


# Where the run is to be written.


def test_a_folder_for_runs_below_a_file(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--runs", "rows.csv/runs")
    assert "the folder for runs cannot be written" in ran.err
    for said in ("found: rows.csv", "expected: ", "fix: "):
        assert said in ran.err


@pytest.mark.row("F-18")
def test_a_folder_for_runs_that_may_not_be_written(project: Path) -> None:
    # Root may write everywhere, unless it gives up that right.
    plain = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    (project / "runs").mkdir(mode=0o555)
    if plain and subprocess.run([*plain, "test", "!", "-w", "runs"], check=False).returncode:
        pytest.skip("root cannot give up its right to write everywhere here")
    before = tree(project)
    done = process(*plain, *PROCESS, "train", "small.yaml")
    assert tree(project) == before
    assert done.returncode == 2, done.stderr
    assert "the folder for runs cannot be written" in done.stderr
    assert "found: runs: Permission denied" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_existing_name_is_refused(project: Path) -> None:
    RunFolder.create(project / "runs", "first")
    ran = mistaken("train", "small.yaml", "--run", "first")
    assert "a run named first is there already" in ran.err
    assert "--resume" in ran.err


@pytest.mark.row("F-47")
def test_an_unsafe_name_is_refused(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--run", "../first")
    assert "not a safe name" in ran.err


@pytest.mark.row("F-41")
def test_a_run_in_use(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "busy").code in (0, 3)
    with RunFolder.open(project / "runs" / "busy").lock():
        before = tree(project)
        done = process(*PROCESS, "train", "small.yaml", "--run", "busy", "--resume")
        assert tree(project) == before
    assert done.returncode == 15
    assert f"in use by process {os.getpid()} " in done.stderr
    assert "Traceback" not in done.stderr


# A full disk.


def assert_nothing_half_written(run: Path) -> None:
    for path in run.rglob("*.json"):
        assert path.read_text().endswith("}\n") or path.read_text().endswith("]\n"), path
    assert not [path for path in run.rglob("*") if path.name.startswith(".tmp-")]


@pytest.mark.row("F-16")
@pytest.mark.root
@pytest.mark.parametrize("kib", [8, 32, 64, 120])
def test_a_full_disk(project: Path, kib: int) -> None:
    with small_disk(project / "disk", kib) as disk:
        ran = command("train", "small.yaml", "--runs", disk)
        assert ran.code == 13, ran.err
        assert "No space left on device" in ran.err
        assert "Traceback" not in ran.err
        assert not ran.out
        assert_nothing_half_written(disk)


@pytest.mark.row("F-16")
@pytest.mark.parametrize("kib", [1, 8])
def test_a_limit_on_the_size_of_files(project: Path, kib: int) -> None:
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({kib * 1024}, {kib * 1024}))\n"
        "from trainwright.cli.main import main\n"
        "sys.argv = ['trainwright', 'train', 'small.yaml']\n"
        "main()\n"
    )
    done = process(sys.executable, "-c", script)
    assert done.returncode == 13, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert_nothing_half_written(project / "runs")
