"""Classes in several spellings are one class, and classes that are honest stay apart."""

from __future__ import annotations

import weakref
from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.row_storage import SLICE_ROWS
from trainwright.data.columns import resolve_doubts
from trainwright.data.columns.resolve_doubts import find_class_spellings, with_doubts
from trainwright.data.read_table import read_table
from trainwright.planner.init.first_contract import propose_contract

TWELVE = ["yes", "Yes", "YES", "yes ", "yes.", "yEs", "no", "No", "NO", "no ", "no.", "nO"]


def section(folder: Path, labels: list[str], **column: Column) -> TableData:
    rows = pl.DataFrame({"x": [str(at % 17) for at in range(len(labels))], "y": labels})
    rows.write_csv(folder / "rows.csv")
    return TableData(path="rows.csv", target="y", columns=column)


def test_spellings_without_a_majority_are_two_classes(tmp_path: Path) -> None:
    asked = section(tmp_path, TWELVE * 20)
    raw = read_table(asked, tmp_path)
    assert len(raw.facts.target.classes) == 2
    assert sorted(raw.facts.target.classes.values()) == [120, 120]
    (doubt,) = raw.facts.doubts
    assert doubt.column == "y"
    assert doubt.reason.startswith("2 classes in 10 spellings")
    again = read_table(with_doubts(asked, raw.facts.doubts), tmp_path)
    assert again.facts.doubts == ()
    assert again.facts.target.classes == raw.facts.target.classes


def test_the_commonest_spelling_stays(tmp_path: Path) -> None:
    raw = read_table(section(tmp_path, ["Yes"] * 60 + ["yes"] * 9 + ["no"] * 50), tmp_path)
    assert raw.facts.target.classes == {"Yes": 69, "no": 50}


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["TRUE", "true", "True", "1", "FALSE", "false", "0", "FALSE"], {"TRUE": 80, "FALSE": 80}),
        (["yes", "Y", "yes", "no", "N", "n"], {"yes": 60, "no": 60}),
        (["1", "1", "1", "true", "0", "0", "0", "f"], {"1": 80, "0": 80}),
        (["yes", "yes", "1", "no", "no", "no"], {"yes": 60, "no": 60}),
        (["t", "no", "0", "T"], {"T": 40, "0": 40}),
    ],
)
def test_yes_and_no_are_two_classes(
    labels: list[str], classes: dict[str, int], tmp_path: Path
) -> None:
    asked = section(tmp_path, labels * 20)
    raw = read_table(asked, tmp_path)
    assert raw.facts.target.classes == classes
    again = read_table(with_doubts(asked, raw.facts.doubts), tmp_path)
    assert (again.facts.doubts, again.facts.target.classes) == ((), classes)
    proposed = propose_contract(str(tmp_path / "rows.csv"), "y", tmp_path)
    (line,) = (one for one in proposed.splitlines() if one.startswith('    "y": {'))
    assert "values: {" in line
    assert "  # 2 classes in " in line


@pytest.mark.parametrize(
    "column",
    [
        Column(kind="categorical"),
        Column(allowed=tuple(one for one in TWELVE if one.strip() == one)),
        Column(values={"yes.": "yes"}),
    ],
)
def test_classes_that_the_contract_names_are_as_it_says(tmp_path: Path, column: Column) -> None:
    raw = read_table(section(tmp_path, TWELVE * 20, y=column), tmp_path)
    assert len(raw.facts.target.classes) >= 9
    assert raw.facts.doubts == ()


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "A", "b", "B"],
        ["resume", "résumé", "other"],
        ["<=50K", ">50K"],
        ["0", "1"],
        ["+1", "-1"],
        ["C++", "C"],
        ["true", "false"],
        ["1", "no"],
        ["0", "1", "2", "true"],
        ["yes", "1", "no", "unknown"],
        ["no", "n", "f"],
        ["y", "n", "1", "0", "x"],
    ],
)
def test_honest_classes_stay_apart(labels: list[str]) -> None:
    assert find_class_spellings(Cells(pl.Series("y", labels * 30))) is None


def test_labels_of_many_rows_are_counted_a_slice_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows in files may be more than memory holds."""
    labels: list[weakref.ref[pl.Series]] = []
    read = resolve_doubts.to_labels

    def watched(cells: pl.Series) -> pl.Series:
        assert sum(one() is not None for one in labels) <= 1
        found = read(cells)
        labels.append(weakref.ref(found))
        return found

    monkeypatch.setattr(resolve_doubts, "to_labels", watched)
    cells = Cells(pl.Series("y", ["yes", "Yes", "yes", "no"] * SLICE_ROWS))
    doubt = find_class_spellings(cells)
    assert len(labels) == 4
    assert doubt is not None
    assert doubt.settings.values == {"Yes": "yes"}
