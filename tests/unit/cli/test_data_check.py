"""`data check` of a contract says what the leakage audit finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import CONTRACT, command, inside, write_rows

FILE_SPLIT = CONTRACT.replace(
    "  target: bought\n", "  target: bought\n  split: {kind: file, path: split.csv}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_rows(tmp_path / "rows.csv", rows=600)
    (tmp_path / "small.yaml").write_text(CONTRACT)
    with inside(tmp_path):
        yield tmp_path


def found() -> dict[str, list[str]]:
    """Kinds that are errors or warnings, with their columns."""
    ran = command("data", "check", "small.yaml", "--quick", "--json")
    assert ran.code in (0, 4), ran.err
    findings = json.loads(ran.out)["findings"]
    return {one["kind"]: one["columns"] for one in findings if one["severity"] != "info"}


def test_a_group_on_both_sides(project: Path) -> None:
    assert "group_overlap" not in found()
    rows = pl.read_csv("rows.csv").sort("bought", "age")
    rows.with_columns(customer=pl.int_range(600) // 6 + 500).sample(
        fraction=1.0, shuffle=True, seed=0
    ).write_csv("rows.csv")
    assert found()["group_overlap"] == ["customer"]


@pytest.mark.extended
def test_one_line_a_kind(project: Path) -> None:
    """A table of 40 columns, each with two outliers."""
    random = np.random.default_rng(0)
    values = random.normal(100, 1, (600, 40))
    values[[3, 77]] = 10_000
    wide = pl.DataFrame({f"c{at}": values[:, at] for at in range(40)})
    rows = pl.read_csv("rows.csv")
    pl.concat([rows, wide], how="horizontal").write_csv("rows.csv")
    short, every = (
        command("data", "check", "small.yaml", "--quick", *words) for words in ([], ["--all"])
    )
    assert short.code == every.code
    assert len(short.out.splitlines()) < 25
    assert "and 39 more: 'c1', 'c2', 'c3' and 36 more" in " ".join(short.out.split())
    assert every.out.count("outliers") >= 40
    checked = command("check", "small.yaml")
    lines = checked.out.splitlines()
    assert sum(line.startswith("warning") for line in lines) < 8
    assert len(lines) < 30
    assert "pin_memory" not in checked.out


def test_a_file_is_read_as_init_reads_it(project: Path) -> None:
    """Decimal commas, thousands and the parentheses of accounting are numbers."""
    random = np.random.default_rng(0)
    columns = random.normal(2000, 300, (4, 600)).round(2)
    spelled = [f"{one:,.2f}" for one in columns.ravel()]
    commas = [one.translate(str.maketrans(",.", ".,")) for one in spelled]
    signed = [f"({one})" if at % 3 else one for at, one in enumerate(spelled)]
    pl.DataFrame({"a": commas[:600], "b": commas[600:1200], "price": commas[1200:1800]}).write_csv(
        "comma.csv", separator=";"
    )
    pl.DataFrame({"a": signed[:600], "b": signed[600:1200], "price": signed[1200:1800]}).write_csv(
        "signed.csv"
    )
    for name in ("comma.csv", "signed.csv"):
        ran = command("data", "check", name, "--target", "price", "--json")
        kinds = {one["kind"] for one in json.loads(ran.out)["findings"]}
        assert not kinds & {"wrong_type", "identifier", "rare_category"}, kinds


@pytest.mark.extended
def test_check_and_data_check_agree_on_exit_codes(project: Path) -> None:
    assert command("data", "check", "small.yaml", "--quick").code == 0
    assert command("check", "small.yaml").code == 0
    rows = pl.read_csv("rows.csv")
    rows.with_columns(paid=(pl.col("bought") == "yes").cast(pl.Int64)).write_csv("rows.csv")
    assert command("data", "check", "small.yaml", "--quick").code == 4
    assert command("check", "small.yaml").code == 4
    assert command("check", "small.yaml", "--json").code == 4


@pytest.mark.extended
def test_a_split_by_a_file_is_looked_at_too(project: Path) -> None:
    Path("small.yaml").write_text(FILE_SPLIT)
    parts = ["train", "train", "validation", "train", "test"] * 120
    lines = ["row,part", *(f"{row},{part}" for row, part in enumerate(parts))]
    Path("split.csv").write_text("\n".join(lines) + "\n")
    assert "leak" not in found()
    rows = pl.read_csv("rows.csv")
    rows.with_columns(paid=(pl.col("bought") == "yes").cast(pl.Int64)).write_csv("rows.csv")
    assert found()["leak"] == ["paid"]
    assert command("train", "small.yaml").code in (0, 3)


def _kinds(verb: tuple[str, ...], contract: str) -> set[str]:
    Path("other.yaml").write_text(contract)
    ran = command(*verb, "other.yaml", "--json")
    assert ran.code == 0, ran.err
    shown = json.loads(ran.out)
    return {one["kind"] for one in shown["findings"]} if "findings" in shown else set()


def test_few_different_numbers_of_a_regression_are_no_classes(project: Path) -> None:
    draws = np.random.default_rng(0)
    weight = [float(one) for one in range(150, 166)] + [154.0] * 4
    pl.DataFrame({"chins": draws.normal(size=20), "weight": weight}).write_csv("few.csv")
    written = "data: {path: few.csv, target: weight}\nmodel: {kind: linear}\nmetric: {name: rmse}\n"
    found = _kinds(("data", "check", "--quick"), f"task: regression\n{written}")
    assert "rare_class" not in found
    Path("few.yaml").write_text(f"task: regression\n{written}")
    ran = command("check", "few.yaml")
    assert ran.code == 0
    assert "classes have fewer" not in ran.out + ran.err


def test_a_split_by_time_is_not_advised_to_one(project: Path) -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(size=400))
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2025, 2, 3), "1d", eager=True)
    frame = {"day": days, "a": np.random.default_rng(1).normal(size=400), "load": walk}
    pl.DataFrame(frame).write_csv("days.csv")
    written = (
        "data: {path: days.csv, target: load, split: SPLIT}\n"
        "model: {kind: linear}\nmetric: {name: rmse}\n"
    )
    verb = ("data", "check", "--quick")
    assert "future_rows" in _kinds(verb, written.replace("SPLIT", "{kind: random}"))
    written = written.replace("SPLIT", "{kind: time, column: day}")
    assert not {"future_rows", "ordered_target"} & _kinds(verb, written)
    ran = command("check", "other.yaml")
    assert ran.code == 0
    assert "row before it" not in ran.out + ran.err


def kinds(*words: str) -> dict[str, str]:
    """Kinds of findings with their severity."""
    ran = command("data", "check", *words, "--quick", "--json")
    assert ran.code in (0, 4), ran.err
    return {one["kind"]: one["severity"] for one in json.loads(ran.out)["findings"]}


@pytest.mark.extended
def test_settings_of_a_file_decide_how_it_is_checked(project: Path) -> None:
    assert "out_of_range" not in kinds("rows.csv", "--target", "bought")
    setting = ("--set", "data.columns.age.range=[0, 20]")
    assert kinds("rows.csv", "--target", "bought", *setting)["out_of_range"]
    assert kinds("rows.csv", "--set", "data.target=bought", *setting)["out_of_range"]
    assert kinds("small.yaml", *setting)["out_of_range"]


def test_a_setting_of_the_reading_is_that_of_the_check(project: Path) -> None:
    text = (project / "rows.csv").read_text()
    (project / "rows.csv").write_text("# exported on Monday\n" * 60 + text)
    given = ("--set", "data.reading.skip_lines=60")
    assert "few_rows" not in kinds("rows.csv", "--target", "bought", *given)


def test_of_texts_and_images_too(project: Path) -> None:
    (project / "one.txt").write_text("one line of a text\n" * 40 + "Z\\u00fcrich\n")
    assert kinds("one.txt", "--set", "data.reading.encoding=utf-8") == kinds("one.txt")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.kind=linear", "only settings of the data change how a file is checked"),
        ("data.reading.skip_line=3", "skip_lines"),
        ("data", "an override is a path, '=' and a value"),
    ],
)
def test_a_setting_that_a_file_cannot_have(project: Path, setting: str, message: str) -> None:
    ran = command("data", "check", "rows.csv", "--target", "bought", "--set", setting)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())


def test_numbers_that_a_setting_names_are_read_so_by_init_and_check(project: Path) -> None:
    """Three digits behind a comma are thousands to a guess."""
    rows = pl.read_csv("rows.csv")
    weights = [f"{1 + at % 7},{100 + at % 800}" for at in range(len(rows))]
    rows.with_columns(weight=pl.Series(weights)).write_csv("rows.csv")
    words = ("--target", "bought", "--set", "data.reading.numbers.weight=decimal_comma")
    over = ("--set", "data.columns.weight.range=[0, 10]")
    assert "out_of_range" not in kinds("rows.csv", *words, *over)
    assert command("init", "rows.csv", *words, "--force").code == 0
    assert "weight: decimal_comma" in (project / "contract.yaml").read_text()
