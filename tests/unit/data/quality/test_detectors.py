"""The checks together: nothing in clean rows, no crash, the same findings whoever asks; and what is
numeric or a leak is found in the rows where it was put."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest

from clean_rows import ROWS, clean, made, only, with_values
from faults.tiers import each
from trainwright.contract.sections.data.quality import POSSIBLE
from trainwright.contract.sections.data.table_data import Column
from trainwright.data.quality.columns import outliers
from trainwright.data.quality.columns.mixed_units import mixed_units
from trainwright.data.quality.columns.useless_columns import leaks
from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import QUICK, find_faults, find_kind


def test_nothing_is_found_in_clean_rows() -> None:
    found = find_faults(made(), {}, "quick")
    assert [finding for finding in found if finding.severity != "info"] == []


@pytest.mark.parametrize("check", QUICK, ids=lambda check: check.__name__)
def test_no_check_fails_on_strange_tables(check: Callable[[ExaminedData], list[Finding]]) -> None:
    frames = [
        pl.DataFrame({"a": pl.Series([], dtype=pl.String)}),
        pl.DataFrame({"a": [None, None]}),
        pl.DataFrame({"a": [1.0], "b": ["x"]}),
        pl.DataFrame({"a": [1.0, float("nan"), float("inf")], "b": ["", " ", "x"]}),
        pl.DataFrame({"a": [[1], [2, 3]], "b": [True, None]}),
        pl.DataFrame({"a": ["5"] * 200, "b": [None] * 199 + [1]}),
    ]
    for frame in frames:
        for target in ("", *frame.columns):
            assert isinstance(check(examine(frame, target)), list)


def test_a_column_of_texts_may_be_empty() -> None:
    nothing = pl.Series([None] * ROWS, dtype=pl.String)
    data = examine(pl.DataFrame({**clean(), "note": nothing}), "won", {"note": Column(kind="text")})
    found = find_faults(data, {}, "quick")
    assert {one.kind for one in found if one.columns == ("note",)} == {"constant", "missing"}


@pytest.mark.parametrize("name", ["count", "value", "proportion", "len", "literal"])
@pytest.mark.parametrize("column", each(3, ["age", "place", "won"]))
def test_what_a_column_is_called_changes_nothing(name: str, column: str) -> None:
    """These are the names that polars gives to what it counts."""
    frame = doubtful()
    target = name if column == "won" else "won"
    renamed = find_faults(examine(frame.rename({column: name}), target), {}, "all")
    assert [(one.kind, one.count, one.rows) for one in renamed] == [
        (one.kind, one.count, one.rows) for one in as_they_are_called()
    ]


@cache
def doubtful() -> pl.DataFrame:
    columns = {**clean(), "size": ["3 kg", "5 lb"] * 200, "flag": [0, 1] * 200}
    return pl.DataFrame(columns).with_columns(
        pl.when(pl.int_range(pl.len()) < 3).then(None).otherwise(pl.col("age")).alias("age"),
        pl.when(pl.col("place") == "Oslo").then(pl.lit("oslo")).otherwise("place").alias("place"),
    )


@cache
def as_they_are_called() -> tuple[Finding, ...]:
    return find_faults(examine(doubtful(), "won"), {}, "all")


def test_what_the_contract_leaves_out_is_no_feature() -> None:
    """Neither a leak, nor what tells rows apart, nor what labels are judged by."""
    frame = pl.DataFrame(clean())
    turned = frame[[7]].with_columns(won=pl.lit("no" if frame["won"][7] == "yes" else "yes"))
    frame = pl.concat([frame, turned, frame[[9]].with_columns(pl.col("height") + 0.001)])
    frame = frame.with_columns(
        prize=(pl.col("won") == "yes").cast(pl.Int8), page=pl.int_range(pl.len()) // 20
    )
    ignored = dict.fromkeys(("prize", "page", "won"), Column(kind="ignored"))
    for data in (
        examine(frame, "won", ignored),
        examine(frame, "won", left_out=("prize", "page")),
    ):
        assert {look.name for look in data.features} == {"height", "weight", "age", "place"}
        assert leaks(data) == []
        assert only(duplicates.conflicting_labels(data)).rows == (7, 400)
        assert only(near_duplicates(data)).rows == (401,)
    swapped = frame.with_columns(
        won=pl.when(pl.int_range(pl.len()) % 97 == 0)
        .then(pl.when(pl.col("won") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes")))
        .otherwise("won")
    )
    copied = swapped.with_columns(prize=pl.col("won"))
    assert find_kind(examine(copied, "won"), "label_error", {}) == []
    judged = [
        find_kind(examine(rows, "won", written), "label_error", {})
        for rows, written in ((copied, ignored), (swapped.drop("prize"), {"page": ignored["page"]}))
    ]
    assert judged[0] == judged[1] != []


def test_what_an_action_asks_for_is_what_is_reported() -> None:
    columns: dict[str, Any] = clean()
    columns["price"] = [
        f"{weight:.1f} {'lb' if at == 6 else 'kg'}" for at, weight in enumerate(columns["weight"])
    ]
    columns |= {name: ["yes", "no"] * (ROWS // 2) for name in ("a", "b", "c")}
    columns["flag"] = [0, 1, 1, 0] * (ROWS // 4)
    columns["place"][3], columns["place"][5] = "oslo", "n/a"
    columns["age"][[7, 8, 9]] = -999.0
    data = examine(pl.DataFrame(columns), "won")
    found = find_faults(data, {}, "quick")
    kinds = {one.kind for one in found} & set(POSSIBLE)
    assert kinds >= {"mixed_units", "mixed_formats", "unlikely_values", "variant_spellings"}
    for kind in kinds:
        assert find_kind(data, kind, {}) == [one for one in found if one.kind == kind]


@pytest.mark.parametrize("factor", [2.20462, 0.01, 1000.0])
def test_a_part_of_a_column_in_another_unit(factor: float) -> None:
    random = np.random.default_rng(0)
    rows = np.sort(random.choice(ROWS, 20, replace=False))
    weights = clean()["weight"].copy()
    weights[rows] *= factor
    finding = only(mixed_units(made(weight=weights)))
    assert len(set(finding.rows) & set(rows.tolist())) >= 18
    assert len(finding.rows) <= 22
    assert (finding.severity, finding.columns) == ("warning", ("weight",))


def test_codes_of_two_kinds_are_in_no_unit() -> None:
    codes = np.where(np.arange(ROWS) % 12 == 0, 900, 20) + np.arange(ROWS) % 25
    assert mixed_units(made(cowcode2=codes.astype(float))) == []


@pytest.mark.parametrize("seed", range(20))
def test_chance_moves_the_factor_of_a_unit(seed: int) -> None:
    random = np.random.default_rng(seed)
    income = random.lognormal(1, 0.45, 4000)
    rows = np.sort(random.choice(4000, 200, replace=False))
    income[rows] *= 1e4
    finding = only(mixed_units(examine(pl.DataFrame({"income": income}))))
    assert finding.rows == tuple(rows.tolist())


def test_a_second_size_that_another_column_has_too_is_no_unit() -> None:
    """Small and large animals; and a factor that is between no units."""
    random = np.random.default_rng(0)
    large = np.arange(ROWS) % 4 == 0
    weight = np.where(large, 100.0, 10.0) * random.lognormal(0, 0.1, ROWS)
    height = np.where(large, 150.0, 40.0) * random.lognormal(0, 0.1, ROWS)
    assert only(mixed_units(made(weight=weight))).columns == ("weight",)
    assert mixed_units(made(weight=weight, height=height)) == []
    assert (
        mixed_units(made(weight=np.where(large, 55.0, 10.0) * random.lognormal(0, 0.1, ROWS))) == []
    )


def test_a_long_tail_is_not_another_unit() -> None:
    random = np.random.default_rng(0)
    data = made(income=random.lognormal(8, 1.2, ROWS), wealth=random.pareto(1.5, ROWS) + 1)
    assert mixed_units(data) == []


def test_a_class_of_another_size_is_not_another_unit() -> None:
    """As the petals of one of the three irises are."""
    random = np.random.default_rng(0)
    size = np.concatenate([random.normal(1.46, 0.12, 50), random.normal(4.9, 0.5, 100)])
    kinds = ["a"] * 50 + ["b", "c"] * 50
    data = pl.DataFrame({"petal": size, "place": ["x", "y", "z"] * 50, "kind": kinds})
    assert only(mixed_units(examine(data, "place"))).columns == ("petal",)
    assert mixed_units(examine(data, "kind")) == []


def test_outliers_and_tails() -> None:
    finding = only(outliers.outliers(with_values("height", {7: 17_000.0, 8: -900.0})))
    assert finding.rows == (7, 8)
    tail = np.random.default_rng(0).lognormal(0, 1.5, ROWS)
    assert only(outliers.skewed(made(tail=tail))).columns == ("tail",)
    assert outliers.outliers(made(tail=tail)) == []


def test_a_quantity_that_most_rows_have_none_of_has_no_outliers() -> None:
    """Wages of the few who were trained, gifts of the few who gave."""
    for seed in range(2, 6):
        random = np.random.default_rng(seed)
        gifts = np.where(np.arange(ROWS) < 25, random.lognormal(2, 1, ROWS).round(2), 0.0)
        assert outliers.outliers(made(gift=gifts)) == []
    gifts[7] = 1e7
    assert only(outliers.outliers(made(gift=gifts))).rows == (7,)


def test_values_beyond_a_wide_gap_are_outliers_and_tails_are_not() -> None:
    """Eight deviations away, which is less than ten robust ones."""
    finding = only(outliers.outliers(with_values("height", {7: 245.0, 9: 80.0})))
    assert finding.rows == (7, 9)
    random = np.random.default_rng(0)
    tails = {"normal": random.normal(size=ROWS), "long": random.exponential(5, ROWS) + 1}
    assert outliers.outliers(made(**tails)) == []
    mostly_none = np.where(np.arange(ROWS) % 200, 0.0, random.uniform(1, 2, ROWS))
    assert outliers.outliers(made(gain=mostly_none)) == []


def test_one_value_far_from_the_others_is_said_once() -> None:
    finding = only(outliers.outliers(with_values("height", {7: 17_000.0})))
    assert "has 1 outlier: 17000, median" in finding.message


def test_a_copy_of_the_target_is_a_leak() -> None:
    finding = leaks(made(prize=[10 if won == "yes" else 0 for won in clean()["won"]]))[0]
    assert (finding.kind, finding.severity, finding.columns) == ("leak", "error", ("prize",))


@pytest.mark.parametrize("seed", range(4))
def test_the_far_end_of_a_heavy_tail_is_no_outlier(seed: int) -> None:
    random = np.random.default_rng(seed)
    signed = random.standard_t(4, ROWS)
    hours = np.where(random.random(ROWS) < 0.5, 40, np.round(random.normal(40, 15, ROWS)))
    assert outliers.outliers(made(signed=signed, hours=hours)) == []
    signed[[5, 9]] = 4000.0
    assert only(outliers.outliers(made(signed=signed))).rows == (5, 9)
