"""`init` ends with a contract that can be trained, whatever the table looks like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from doubtful_columns import doubtful_columns
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import ContractMistake, DataMistake
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.planner.init.first_contract import propose_contract
from trainwright.planner.init.yaml_lines import with_settings
from trainwright.planner.plan_facts import read_device
from trainwright.planner.resolve.resolve_auto import decide

ROWS = 400
GENERATOR = np.random.default_rng(0)
X = GENERATOR.normal(size=ROWS).round(3)
LABELS = ["yes" if one > 0 else "no" for one in X + GENERATOR.normal(size=ROWS) * 0.5]
CSV = pl.DataFrame({"x": X, "z": GENERATOR.integers(0, 9, ROWS), "y": LABELS}).write_csv()


def prepared(folder: Path, text: str) -> tuple[Contract, Prepared]:
    """What is trained on, by the contract as it was written."""
    (folder / "contract.yaml").write_text(text)
    document = read_contract(folder / "contract.yaml")
    section = document.contract.data
    assert isinstance(section, TableData)
    raw = read_table(section, folder)
    assert raw.facts.doubts == (), "a contract that was proposed leaves nothing open"
    decided, _ = decide(document.contract, raw.facts, read_device(False))
    data, task = decided.data, decided.task
    assert isinstance(data, TableData)
    assert task in ("classification", "regression")
    return document.contract, prepare_table(raw, data, task, 0)  # type: ignore[arg-type]


def ready(folder: Path, target: str = "y", overrides: Sequence[str] = ()) -> tuple[Contract, str]:
    """The contract of `rows.csv`, which can be trained on without an edit."""
    text = propose_contract(str(folder / "rows.csv"), target, folder, overrides=overrides)
    contract, found = prepared(folder, text)
    assert len(found.train) > 0
    return contract, text


@pytest.mark.parametrize("name", doubtful_columns())
def test_every_doubtful_column_has_its_line(tmp_path: Path, name: str) -> None:
    cells = list(doubtful_columns()[name].cells)
    rows = len(cells)
    frame = pl.DataFrame({name: cells, "x": X[:rows], "y": LABELS[:rows]})
    frame.write_csv(tmp_path / "rows.csv")
    contract, text = ready(tmp_path)
    if name not in ("plain", "swapped", "comma", "month"):
        assert name in contract.data.columns
        (line,) = (one for one in text.splitlines() if one.startswith(f"    {name}: {{"))
        assert "  # " in line


def in_currencies(rows: int) -> list[str]:
    ways = ("${}", "{} EUR", "£{}")
    return [ways[at % 3].format(at * 37 % 997 + 0.5) for at in range(rows)]


def test_amounts_in_several_currencies_are_excluded_for_that(tmp_path: Path) -> None:
    frame = pl.DataFrame({"price": in_currencies(ROWS), "x": X, "y": LABELS})
    frame.write_csv(tmp_path / "rows.csv")
    contract, text = ready(tmp_path)
    assert contract.data.exclude == ("price",)  # type: ignore[union-attr]
    (line,) = (one for one in text.splitlines() if one.startswith("    - price"))
    assert "amounts in 3 currencies, '$', 'EUR', '£'" in line


def test_amounts_in_several_currencies_are_taken_where_there_is_nothing_else(
    tmp_path: Path,
) -> None:
    pl.DataFrame({"price": in_currencies(ROWS), "y": LABELS}).write_csv(tmp_path / "rows.csv")
    contract, text = ready(tmp_path)
    assert contract.data.columns["price"].kind == "text"  # type: ignore[union-attr]
    assert "there is no other column" in text


def changed(lines: dict[int, str]) -> str:
    text = CSV.splitlines()
    for at, line in lines.items():
        text[at] = line
    return "\n".join(text) + "\n"


@pytest.mark.parametrize(
    ("data", "setting", "value"),
    [
        ("Export of May\nconfidential\n\n" + CSV, "skip_lines", 3),
        (changed({50: "0.1,2\0,yes"}), "control_characters", "remove"),
        (changed({60: "0.1,2,yes,5", 70: "0.1,2"}), "bad_records", 2),
        (CSV.replace("x,z,y", "x,x,y", 1), "repeated_names", "rename"),
        (CSV.replace("x,z,y", "Straße,z,y", 1).encode("cp1252"), "encoding", "cp1252"),
        (CSV.encode("utf-16"), "encoding", "utf-16"),
    ],
)
def test_a_file_that_cannot_be_read_as_usual(
    tmp_path: Path, data: str | bytes, setting: str, value: object
) -> None:
    (tmp_path / "rows.csv").write_bytes(data if isinstance(data, bytes) else data.encode())
    contract, text = ready(tmp_path)
    assert getattr(contract.data.reading, setting) == value
    (line,) = (one for one in text.splitlines() if one.strip().startswith(f"{setting}:"))
    assert "  # " in line


@pytest.mark.parametrize("above", ["Quarterly report,,\n,,\n", "Report,a b,\n\n\n,,\n"])
def test_the_fix_for_title_lines_as_wide_as_the_rows_works(tmp_path: Path, above: str) -> None:
    (tmp_path / "rows.csv").write_text(above + CSV)
    with pytest.raises(DataMistake, match="looks like the header") as caught:
        ready(tmp_path)
    (fix,) = [problem.fix for problem in caught.value.problems]
    setting = fix.split("--set ")[1].split()[0]
    assert setting == f"data.reading.skip_lines={above.count(chr(10))}"
    contract, _ = ready(tmp_path, overrides=[setting])
    assert "z" in read_table(contract.data, tmp_path).frames["train"].columns


def test_a_target_that_stands_nowhere_is_named_as_absent(tmp_path: Path) -> None:
    lines = CSV.splitlines(keepends=True)
    (tmp_path / "rows.csv").write_text("".join([*lines[:30], "1,2,won\n", *lines[30:]]))
    with pytest.raises(DataMistake, match="name one of the columns"):
        ready(tmp_path, "won")


def test_the_guess_of_an_encoding_says_what_it_rests_on(tmp_path: Path) -> None:
    cells = [("Müllerstraße", "Café", "Nord")[at % 3] for at in range(ROWS)]
    text = pl.DataFrame({"street": cells, "x": X, "y": LABELS}).write_csv()
    (tmp_path / "rows.csv").write_bytes(text.encode("cp1252"))
    _, written = ready(tmp_path)
    assert "it rests on 267 lines, which then read 'Müllerstraße', 'Café'" in written


def test_an_empty_header_and_no_header(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV.replace("x,z,y", ",z,y", 1))
    ready(tmp_path)
    (tmp_path / "rows.csv").write_text("\n".join(CSV.splitlines()[1:]))
    contract, _ = ready(tmp_path, "column_3")
    assert contract.data.reading.header is False
    with pytest.raises(DataMistake, match="not said which") as caught:
        propose_contract(str(tmp_path / "rows.csv"), "", tmp_path)
    (problem,) = caught.value.problems
    assert "column_1, column_2, column_3" in problem.expected
    assert "--target column_3" in problem.fix


def test_classes_of_one_and_two_rows(tmp_path: Path) -> None:
    labels = ["once", "twice", "twice", *LABELS[3:]]
    pl.DataFrame({"x": X, "y": labels}).write_csv(tmp_path / "rows.csv")
    contract, text = ready(tmp_path)
    assert contract.data.split.kind == "stratified"
    assert "2 classes have too few rows to be judged" in text


def test_a_target_of_numbers_with_some_words(tmp_path: Path) -> None:
    target = [f"{one:.2f}" if at % 50 else "n/k" for at, one in enumerate(X)]
    pl.DataFrame({"x": X * 2, "z": X**2, "y": target}).write_csv(tmp_path / "rows.csv")
    contract, text = ready(tmp_path)
    assert contract.task == "regression"
    assert "missing_target: drop  # the target is missing in 8 of 400 rows" in text


@pytest.mark.parametrize("others", [{"copy": X}, {"id": np.arange(ROWS)}])
def test_a_contract_never_leaves_every_feature_out(
    tmp_path: Path, others: dict[str, object]
) -> None:
    pl.DataFrame({**others, "y": X}).write_csv(tmp_path / "rows.csv")
    contract, _ = ready(tmp_path)
    assert contract.data.exclude == ()


def test_answers_are_no_classes(tmp_path: Path) -> None:
    answers = [f"a long answer to question {at}" for at in range(ROWS)]
    pl.DataFrame({"x": X, "y": answers}).write_csv(tmp_path / "rows.csv")
    with pytest.raises(DataMistake, match="another value in nearly every row") as caught:
        propose_contract(str(tmp_path / "rows.csv"), "y", tmp_path)
    assert "--text y" in caught.value.problems[0].fix
    assert "task: generation" in propose_contract(
        str(tmp_path / "rows.csv"), "", tmp_path, text="y"
    )


def rows_of(folder: Path, **columns: object) -> str:
    pl.DataFrame(columns).write_csv(folder / "rows.csv")
    return ready(folder)[1]


def test_the_same_person_in_many_rows_is_a_group(tmp_path: Path) -> None:
    people = GENERATOR.integers(0, 60, ROWS)
    text = rows_of(tmp_path, customer=people, x=X, y=X + people)
    assert "split: {kind: group, column: customer, folds: 5}" in text


def test_a_code_with_few_values_is_no_group(tmp_path: Path) -> None:
    codes = GENERATOR.integers(0, 12, ROWS)
    assert "kind: random" in rows_of(tmp_path, type_id=codes, x=X, y=X + codes)


def test_rows_that_stand_twice_stay_on_one_side(tmp_path: Path) -> None:
    copied = np.concatenate([np.arange(ROWS), np.arange(60)])
    z = GENERATOR.normal(size=ROWS)
    text = rows_of(tmp_path, x=X[copied], z=z[copied], y=np.array(LABELS)[copied])
    assert 'split: {kind: random, key: "*"' in text
    coarse = X.round(0)
    assert "key:" not in rows_of(tmp_path, x=coarse, y=np.where(coarse > 0, "yes", "no"))


def test_year_month_day_and_hour_are_a_time(tmp_path: Path) -> None:
    at = np.arange(ROWS)
    walk = GENERATOR.normal(size=ROWS).cumsum()
    parts = {"yr": 2020 + at // 200, "mnth": at // 20 % 10 + 1, "hr": at % 20}
    text = rows_of(tmp_path, **parts, x=X, y=walk)
    assert "split: {kind: time, parts: [yr, mnth, hr], folds: 5}" in text


def test_a_file_whose_neighbours_are_alike_is_no_series(tmp_path: Path) -> None:
    walk = GENERATOR.normal(size=ROWS).cumsum()
    hours = np.arange(ROWS) % 24 / 24
    for columns in ({"period": hours, "x": X, "y": walk}, {"x": X, "y": walk}):
        text = rows_of(tmp_path, **columns)
        assert "split: {kind: random, folds: 5}" in text
        assert "if the file stands in the order of time" in text


def test_values_are_set(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV)
    overrides = ["model.kind=linear", "data.split.kind=random", "data.columns.z.kind=categorical"]
    overrides += ["metric.target=0.8", "data.exclude=[x]"]
    contract, text = ready(tmp_path, "y", overrides)
    assert (contract.model.kind, contract.data.split.kind) == ("linear", "random")
    assert contract.data.columns["z"].kind == "categorical"
    assert (contract.metric.target, contract.data.exclude) == (0.8, ("x",))
    assert text.count("# set with --set") == len(overrides)
    with pytest.raises(ContractMistake, match="unknown key"):
        propose_contract(str(tmp_path / "rows.csv"), "y", tmp_path, overrides=["data.colums=1"])


def test_what_is_set_decides_how_the_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text(CSV.replace(",", "~"))
    contract, _ = ready(tmp_path, "y", ["data.reading.separator='~'"])
    assert contract.data.reading.separator == "~"


def test_a_setting_takes_the_place_of_lists_and_blocks() -> None:
    text = "data:\n  path: a.csv\n  exclude:\n    - a  # why\n    - b  # why\nseed: 0  # why\n"
    assert with_settings(text, ["data.exclude.1=c", "seed=3", "data.reading.header=false"]) == (
        "data:\n  path: a.csv\n  exclude: [a, c]  # set with --set\n"
        "  reading: {header: false}  # set with --set\nseed: 3  # set with --set\n"
    )


def test_what_is_set_decides_how_a_text_is_divided(tmp_path: Path) -> None:
    """The usual twentieth of this text is too little for a part."""
    (tmp_path / "words.txt").write_text("to be or not to be " * 55)
    place = str(tmp_path / "words.txt")
    with pytest.raises(DataMistake, match="too little text"):
        propose_contract(place, "", tmp_path)
    overrides = ["data.validation=0.2", "data.test=0.1"]
    text = propose_contract(place, "", tmp_path, overrides=overrides)
    assert "  validation: 0.2  # set with --set" in text
    with pytest.raises(DataMistake, match="too little text for the validation part"):
        propose_contract(place, "", tmp_path, overrides=["data.validation=0.01", "data.test=0.1"])


def test_what_is_set_decides_how_texts_of_a_column_are_read(tmp_path: Path) -> None:
    texts = [f"line {at} of a poem" for at in range(400)]
    pl.DataFrame({"poem": texts}).write_csv(tmp_path / "rows.csv", separator="~")
    overrides = ["data.reading.separator='~'", "data.windows=packed", "model.context=32"]
    text = propose_contract(
        str(tmp_path / "rows.csv"), "", tmp_path, text="poem", overrides=overrides
    )
    assert "  text: poem" in text
