"""Projects made wrong, each with what the message must hold."""

from __future__ import annotations

import pickle
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from command import CONTRACT, Ran, command, tree, with_layers

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


def infinite(folder: Path) -> None:
    """An infinite value in a column that the contract calls numeric."""
    rows(fifth("44,Bern,inf,no"))(folder)
    contract(CONTRACT.replace("data:\n", "data:\n  columns: {visits: {kind: numeric}}\n"))(folder)


def empty(folder: Path) -> None:
    (folder / "rows.csv").write_bytes(b"")


def parquet(cut: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Spoil by a Parquet file that is not whole."""

    def spoil(folder: Path) -> None:
        pl.read_csv(folder / "rows.csv").write_parquet(folder / "rows.parquet")
        (folder / "rows.parquet").write_bytes(cut((folder / "rows.parquet").read_bytes()))
        other("rows.csv", "rows.parquet")(folder)

    return spoil


def pickled(folder: Path) -> None:
    (folder / "rows.parquet").write_bytes(pickle.dumps({"age": [44], "bought": ["no"]}))
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
        infinite,
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
